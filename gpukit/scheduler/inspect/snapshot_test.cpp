#include "gpukit/scheduler/inspect/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <map>
#include <set>
#include <thread>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/base/files.h"
#include "gpukit/base/metrics.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/scheduler/context/controller.h"
#include "gpukit/scheduler/inspect/snapshot_publish.h"
#include "gpukit/scheduler/partition/partition_manager.h"
#include "gpukit/scheduler/tasks/scheduler.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int64_t kMiB = int64_t{1} << 20;

/// The item of a list whose member `name` is `value`; null when there is none.
const Json* item(const Json& s, const char* list, const char* name, const Json& value) {
  for (const Json& entry : s.at(list).items())
    if (const Json* found = entry.find(name); found != nullptr && *found == value) return &entry;
  return nullptr;
}

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() : guard(session) { runtime::open_device(kCpu); }
  ~SnapshotTest() override {
    controller.reset();
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
  }
  FakeDriver fake;
  runtime::Session session = runtime::Session().with_device(kCpu);
  runtime::SessionGuard guard;
  MultiLLMController controller;
};

TEST_F(SnapshotTest, TellsOfMemoryContextsPartitionsAndTasks) {
  controller.initialize(0, 64 * kMiB, 32 * kMiB);
  ContextOptions options;
  options.max_vram = 4 * kMiB;
  options.base_vram = 4 * kMiB;
  auto context = controller.create_context("model", options);
  PartitionManager manager({}, kCpu);
  manager.create("p", "Part", PartitionLimits().memory(3 * kMiB));
  Scheduler scheduler;
  TaskSpec spec;
  spec.id = "t";
  scheduler.submit(std::move(spec));
  counter("test.snapshot").add(3);
  std::optional<Array> array;
  {
    SessionScope scope(context->session());
    array.emplace(Array::empty({kMiB}, DType::uint8, kCpu));
  }
  const Json s = Json::parse(snapshot().dump());
  EXPECT_EQ(s.at("process_id").as_integer(), files::process_id());
  ASSERT_NE(item(s, "devices", "device", "cpu"), nullptr);
  EXPECT_GE(item(s, "pools", "device", "cpu")->at("live_bytes").as_integer(), kMiB);
  const Json* account = item(s, "accounts", "name", "context:model");
  ASSERT_NE(account, nullptr);
  EXPECT_EQ(account->at("quota_bytes").as_integer(), 4 * kMiB);
  EXPECT_EQ(account->at("live_bytes").as_integer(), kMiB);
  EXPECT_EQ(account->at("parent").as_string(), "contexts");
  const Json* seen = item(s, "contexts", "id", "model");
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(seen->at("qos").as_string(), "Guaranteed");
  EXPECT_EQ(seen->at("used_bytes").as_integer(), kMiB);
  const Json* partition = item(s, "partitions", "id", "p");
  ASSERT_NE(partition, nullptr);
  EXPECT_EQ(partition->at("asked").at("memory_bytes").as_integer(), 3 * kMiB);
  EXPECT_TRUE(partition->at("obtained").at("enforced").as_bool());
  EXPECT_EQ(s.at("schedulers").items().back().at("pending").as_integer(), 1);
  EXPECT_TRUE(s.at("schedulers").items().back().at("total_bytes").is_null());
  EXPECT_GE(s.at("counters").at("test.snapshot").as_integer(), 3);
  EXPECT_NE(item(s, "streams", "owner", "context 'model'"), nullptr);
  EXPECT_NE(item(s, "streams", "owner", "partition 'p'"), nullptr);
  EXPECT_TRUE(s.at("environment").at("nvtx").find("available") != nullptr);
  scheduler.take();
  const std::string decisions = decisions_json();
  const Json decision = Json::parse(decisions.substr(0, decisions.find('\n')));
  EXPECT_TRUE(decision.at("log").as_string().starts_with("scheduler "));
  EXPECT_EQ(decision.at("subject").as_string(), "t");
  EXPECT_EQ(decision.at("action").as_string(), "start");
  array.reset();
}

TEST_F(SnapshotTest, LooksOnly) {
  fake.clear_calls();
  snapshot();
  for (const std::string& call : fake.calls())
    EXPECT_TRUE(call.find("Get") != std::string::npos || call == "cuCtxSetCurrent") << call;
}

TEST_F(SnapshotTest, ChangesOfContextsAndPartitionsAndErrorsAreEvents) {
  const uint64_t before = event_count();
  controller.initialize(0, 64 * kMiB, 32 * kMiB);
  controller.create_context("gone");
  controller.destroy_context("gone");
  {
    PartitionManager manager({}, kCpu);
    manager.create("p", "P", PartitionLimits().memory(kMiB));
    manager.resize("p", PartitionLimits().memory(2 * kMiB));
    manager.remove("p");
  }
  auto account = memory::Account::create("small", kCpu, 4096, false, runtime::open_device(kCpu).resource->root());
  const runtime::Session small = runtime::current_session().with_account(account);
  {
    const runtime::SessionGuard inside(small);
    EXPECT_THROW(Array::empty({kMiB}, DType::uint8, kCpu), OutOfMemoryError);
  }
  fake.fail_nth_of("cuLaunchHostFunc", 1, 1);
  EXPECT_THROW(runtime::run_host("broken", kCpu, std::span<const memory::Use>(), [](void* const*) {}), CudaError);
  std::vector<std::string> seen;
  for (const Event& event : events(before))
    seen.push_back(std::string(event.source) + " " + event.action + " " + event.subject.substr(0, 13));
  EXPECT_EQ(seen, (std::vector<std::string>{"context create gone", "context destroy gone", "partition create p",
                                            "partition resize p", "partition delete p", "memory refuse small",
                                            "device error broken failed"}));
}

TEST_F(SnapshotTest, ReadersMeetObjectsThatComeAndGo) {
  controller.initialize(0, 64 * kMiB, 32 * kMiB);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load()) prometheus_text(snapshot());
  });
  for (int i = 0; i < 50; ++i) {
    Scheduler scheduler;
    TaskSpec spec;
    spec.work = [](const TaskControl&) {};
    scheduler.submit(std::move(spec));
    scheduler.run();
    PartitionManager manager({}, kCpu);
    manager.create("p", "P", PartitionLimits().memory(kMiB));
    controller.create_context("c");
    manager.clear();
    controller.destroy_context("c");
    AdmissionController admission(AdmissionConfig(100, 1.0));
    admission.try_admit("a", 1, 0);
  }
  stop = true;
  reader.join();
}

// Prometheus

/// Checks every line of the text format strictly; gives the samples by name and labels.
std::map<std::string, double> parse_prometheus(const std::string& text) {
  std::map<std::string, double> samples;
  std::set<std::string> done;
  std::string current, type;
  auto valid_name = [](const std::string& name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) return false;
    for (const char c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != ':') return false;
    return true;
  };
  EXPECT_EQ(text.back(), '\n');
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# HELP ")) {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(valid_name(current)) << line;
      EXPECT_TRUE(done.insert(current).second) << "twice: " << line;
      type.clear();
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      type = line.substr(8 + current.size());
      EXPECT_EQ(line, "# TYPE " + current + " " + type);
      EXPECT_TRUE(type == "gauge" || type == "counter") << line;
      EXPECT_EQ(type == "counter", current.ends_with("_total")) << line;
      continue;
    }
    EXPECT_FALSE(type.empty()) << line;
    size_t pos = current.size();
    EXPECT_EQ(line.substr(0, pos), current);
    if (line[pos] == '{') {
      for (++pos; line[pos] != '}';) {
        const size_t equals = line.find('=', pos);
        EXPECT_TRUE(valid_name(line.substr(pos, equals - pos))) << line;
        EXPECT_EQ(line[equals + 1], '"') << line;
        for (pos = equals + 2; pos < line.size() && line[pos] != '"'; ++pos) {
          if (line[pos] != '\\') continue;
          ++pos;
          EXPECT_TRUE(line[pos] == '\\' || line[pos] == '"' || line[pos] == 'n') << line;
        }
        ++pos;
        EXPECT_TRUE(line[pos] == ',' || line[pos] == '}') << line;
        if (line[pos] == ',') ++pos;
      }
      ++pos;
    }
    EXPECT_EQ(line[pos], ' ') << line;
    size_t used = 0;
    const double value = std::stod(line.substr(pos + 1), &used);
    EXPECT_EQ(used, line.size() - pos - 1) << line;
    EXPECT_TRUE(samples.emplace(line.substr(0, pos), value).second) << "twice: " << line;
  }
  return samples;
}

TEST_F(SnapshotTest, PrometheusTextIsWellFormed) {
  controller.initialize(0, 64 * kMiB, 32 * kMiB);
  controller.create_context("odd \"name\" \\ with\nlines");
  PartitionManager first({}, kCpu), second({}, kCpu);
  first.create("same", "1", PartitionLimits().memory(kMiB));
  second.create("same", "2", PartitionLimits().memory(2 * kMiB));
  const auto samples = parse_prometheus(prometheus_text(snapshot()));
  EXPECT_EQ(samples.at("pygpukit_account_quota_bytes{device=\"cpu\",account=\"partition:same\"}"), 3.0 * kMiB)
      << "two accounts of one name are one series";
  EXPECT_EQ(samples.at("pygpukit_device_usable{device=\"cpu\"}"), 1);
  bool escaped = false;
  for (const auto& [name, value] : samples)
    escaped = escaped || name.find("context=\"odd \\\"name\\\" \\\\ with\\nlines\"") != std::string::npos;
  EXPECT_TRUE(escaped);
  EXPECT_FALSE(samples.contains("pygpukit_account_quota_bytes{device=\"cpu\",account=\"cpu\"}")) << "no limit";
}

// Publishing and top

TEST_F(SnapshotTest, PublishesWholeFilesUntilStopped) {
  const std::string path = ::testing::TempDir() + "gpukit_snapshot_test.json";
  EXPECT_THROW(publish_snapshot(path, 0), ArgumentError);
  EXPECT_THROW(publish_snapshot(files::join(path, "no/such/folder"), 1), FileError);
  EXPECT_EQ(publish_snapshot(path, 0.01), path);
  EXPECT_EQ(published_path(), path);
  const double first = read_published(path).at("time_s").as_number();
  double last = first;
  for (int i = 0; i < 2000 && last == first; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    last = read_published(path).at("time_s").as_number();
  }
  EXPECT_GT(last, first);
  stop_publishing();
  stop_publishing();
  EXPECT_EQ(published_path(), std::nullopt);
  last = read_published(path).at("time_s").as_number();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(read_published(path).at("time_s").as_number(), last);
  files::write_file(path, "{\"version\": 1}");
  EXPECT_THROW(read_published(path), FormatError);
}

TEST_F(SnapshotTest, TopShowsRatesAndFitsTheWidth) {
  controller.initialize(0, 64 * kMiB, 32 * kMiB);
  ContextOptions options;
  options.max_vram = 4 * kMiB;
  auto context = controller.create_context("model", options);
  Json before = snapshot();
  {
    SessionScope scope(context->session());
    for (int i = 0; i < 30; ++i) runtime::run_host("w", kCpu, std::span<const memory::Use>(), [](void* const*) {});
  }
  Json now = snapshot();
  before.set("time_s", now.at("time_s").as_number() - 2.0);
  const std::string text = top_text(now, &before, 120, false);
  EXPECT_NE(text.find("Contexts\n"), std::string::npos);
  EXPECT_NE(text.find("model"), std::string::npos);
  EXPECT_NE(text.find(" 15 "), std::string::npos) << "30 launches in 2 s\n" << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(top_text(now, nullptr, 120, true).find("\x1b[1m"), std::string::npos);
  const std::string narrow = top_text(now, nullptr, 50, false);
  for (size_t at = 0; at < narrow.size();) {
    const size_t end = narrow.find('\n', at);
    EXPECT_LE(end - at, 50u);
    at = end + 1;
  }
}

}  // namespace
}  // namespace gpukit::scheduler
