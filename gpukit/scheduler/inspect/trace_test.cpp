#include "gpukit/scheduler/inspect/trace.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/base/json.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/scheduler/context/controller.h"
#include "gpukit/scheduler/partition/partition_manager.h"
#include "gpukit/scheduler/tasks/scheduler.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;

constexpr Device kCpu{DeviceKind::cpu, 0};

void spin_us(double us) {
  const int64_t end = real_clock().now_ns() + static_cast<int64_t>(us * 1e3);
  while (real_clock().now_ns() < end) {
  }
}

void work(const char* name, double us = 0) {
  runtime::run_host(name, kCpu, std::span<const memory::Use>(), [us](void* const*) { spin_us(us); });
}

/// Ends the trace whatever the test does.
struct TraceScope {
  explicit TraceScope(size_t capacity = 1'000'000) { Trace::instance().start(capacity); }
  ~TraceScope() {
    if (Trace::instance().status().running) Trace::instance().stop(0);
  }
};

struct Parsed {
  Json file;
  std::map<std::pair<int64_t, int64_t>, std::vector<const Json*>> threads;  // complete events by pid and tid
  std::map<int64_t, std::string> processes;
  std::vector<const Json*> named(const std::string& name) const {
    std::vector<const Json*> found;
    for (const auto& [where, events] : threads)
      for (const Json* event : events)
        if (event->at("name").as_string() == name) found.push_back(event);
    return found;
  }
  std::string process_of(const Json& event) const { return processes.at(event.at("pid").as_integer()); }
};

/// Parses and checks what every trace must hold: known phases, named processes, order without overlap on each thread,
/// arrows that start before they end and lie on events.
Parsed check(const std::string& text) {
  Parsed p;
  p.file = Json::parse(text);
  std::map<int64_t, double> arrows;
  std::set<std::pair<int64_t, int64_t>> named_threads;
  std::vector<const Json*> starts, ends;
  for (const Json& event : p.file.at("traceEvents").items()) {
    const std::string& phase = event.at("ph").as_string();
    const std::pair where{event.at("pid").as_integer(), event.at("tid").as_integer()};
    if (phase == "M") {
      if (event.at("name").as_string() == "process_name")
        p.processes[where.first] = event.at("args").at("name").as_string();
      if (event.at("name").as_string() == "thread_name") named_threads.insert(where);
      continue;
    }
    EXPECT_GE(event.at("ts").as_number(), 0);
    if (phase == "X") {
      EXPECT_GE(event.at("dur").as_number(), 0);
      p.threads[where].push_back(&event);
    } else if (phase == "s") {
      starts.push_back(&event);
    } else {
      EXPECT_EQ(phase, "f");
      ends.push_back(&event);
    }
  }
  for (const auto& [where, events] : p.threads) {
    EXPECT_TRUE(p.processes.contains(where.first));
    EXPECT_TRUE(named_threads.contains(where));
    double end = 0;
    for (const Json* event : events) {
      EXPECT_GE(event->at("ts").as_number() + 1e-6, end) << event->dump();
      end = event->at("ts").as_number() + event->at("dur").as_number();
    }
  }
  for (const Json* start : starts) arrows[start->at("id").as_integer()] = start->at("ts").as_number();
  EXPECT_EQ(arrows.size(), starts.size());
  EXPECT_EQ(starts.size(), ends.size());
  for (const Json* end : ends) {
    EXPECT_TRUE(arrows.contains(end->at("id").as_integer()));
    EXPECT_LE(arrows[end->at("id").as_integer()], end->at("ts").as_number());
  }
  return p;
}

TEST(Trace, ShowsWorkOfEachContextOnItsStream) {
  FakeDriver fake;
  const runtime::Session outer = runtime::Session().with_device(kCpu);
  const runtime::SessionGuard guard(outer);
  MultiLLMController controller;
  controller.initialize(0, 1 << 30, 1 << 30);
  auto before = controller.create_context("before");
  const auto& stream = runtime::open_device(kCpu).default_stream;
  EXPECT_EQ(stream->control.load(), nullptr);
  {
    TraceScope trace;
    EXPECT_NE(stream->control.load(), nullptr);
    EXPECT_THROW(Trace::instance().start(), Error);
    work("plain", 300);
    auto during = controller.create_context("during");
    {
      SessionScope scope(before->session());
      work("early", 200);
    }
    {
      SessionScope scope(during->session());
      work("late", 100);
      auto own = runtime::new_stream(kCpu, 0);
      const runtime::Session with = runtime::current_session().with_stream(own);
      const runtime::SessionGuard inside(with);
      work("side");
    }
    Array a = Array::empty({64}, DType::uint8, kCpu);
    const std::vector<uint8_t> host(64);
    runtime::copy_from_host({&a.storage(), 0, true}, host.data(), 64);
    Trace::instance().stop();
  }
  EXPECT_EQ(stream->control.load(), nullptr);
  work("after the end");
  const Parsed p = check(trace_json(Trace::instance().data()));
  ASSERT_EQ(p.named("plain").size(), 1u);
  const Json& plain = *p.named("plain")[0];
  EXPECT_EQ(p.process_of(plain), "cpu default session");
  EXPECT_EQ(plain.at("cat").as_string(), "host function");
  EXPECT_EQ(plain.at("tid").as_integer(), static_cast<int64_t>(stream->id()));
  EXPECT_GE(plain.at("dur").as_number(), 295);
  EXPECT_EQ(p.process_of(*p.named("early").at(0)), "cpu context 'before'");
  EXPECT_EQ(p.process_of(*p.named("late").at(0)), "cpu context 'during'");
  EXPECT_EQ(p.process_of(*p.named("side").at(0)), "cpu context 'during'");
  EXPECT_NE(p.named("side").at(0)->at("tid"), p.named("late").at(0)->at("tid"));
  EXPECT_EQ(p.process_of(*p.named("submit plain").at(0)), "host threads");
  const Json& copy = *p.named("copy_from_host").at(0);
  EXPECT_EQ(copy.at("cat").as_string(), "copy to device");
  EXPECT_EQ(copy.at("args").at("bytes").as_integer(), 64);
  EXPECT_TRUE(p.named("after the end").empty());
  controller.reset();
}

TEST(Trace, ThreadsSubmitAtOnce) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  constexpr int kThreads = 4, kEach = 200;
  std::atomic<bool> stop{false};
  std::thread reader;
  {
    TraceScope trace;
    reader = std::thread([&] {
      while (!stop.load()) trace_json(Trace::instance().data());
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        auto stream = t % 2 == 0 ? runtime::new_stream(kCpu, 0) : runtime::open_device(kCpu).default_stream;
        const runtime::Session session = runtime::Session().with_stream(stream);
        const runtime::SessionGuard guard(session);
        for (int i = 0; i < kEach; ++i) work("piece");
        runtime::synchronize(*stream, "test");
      });
    }
    for (std::thread& thread : threads) thread.join();
    Trace::instance().stop();
  }
  stop = true;
  reader.join();
  const Parsed p = check(trace_json(Trace::instance().data()));
  EXPECT_EQ(p.named("piece").size(), static_cast<size_t>(kThreads * kEach));
  EXPECT_EQ(p.named("submit piece").size(), static_cast<size_t>(kThreads * kEach));
}

TEST(Trace, StartingAndStoppingUnderLoadLosesNoSubmission) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  std::atomic<bool> stop{false};
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        auto stream = runtime::new_stream(kCpu, 0);
        const runtime::Session session = runtime::Session().with_stream(stream);
        const runtime::SessionGuard guard(session);
        work("load");
        runtime::synchronize(*stream, "test");
        ++ran;
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int before = ran.load();
    Trace::instance().start();
    while (ran.load() < before + 10) std::this_thread::yield();
    Trace::instance().stop();
    check(trace_json(Trace::instance().data()));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runtime::open_device(kCpu).default_stream->control.load(), nullptr);
}

TEST(Trace, WaitsForWhatIsInFlightAndLeavesOutTheRest) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  fake.queries_run(false);
  fake.defer(true);
  {
    TraceScope trace;
    work("first");
    Trace::instance().stop(20'000'000);
    EXPECT_TRUE(Trace::instance().data().launches.empty());
  }
  {
    TraceScope trace;
    work("second");
    std::thread runner([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      fake.defer(false);
    });
    Trace::instance().stop();
    runner.join();
  }
  const Parsed p = check(trace_json(Trace::instance().data()));
  EXPECT_EQ(p.named("second").size(), 1u);
  EXPECT_TRUE(p.named("first").empty());
  runtime::Waiter::of(kCpu).drain();
}

TEST(Trace, KeepsAtMostItsCapacity) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  TraceScope trace(5);
  for (int i = 0; i < 9; ++i) work("piece");
  Trace::instance().stop();
  EXPECT_EQ(Trace::instance().status().launches, 5u);
  EXPECT_EQ(Trace::instance().status().dropped, 4u);
  const Parsed p = check(trace_json(Trace::instance().data()));
  EXPECT_EQ(p.file.at("otherData").at("dropped").as_integer(), 4);
  EXPECT_THROW(Trace::instance().stop(), Error);
  EXPECT_THROW(Trace::instance().start(0), ArgumentError);
}

TEST(Trace, FailuresAreTold) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  TraceScope trace;
  fake.fail_nth_of("cuLaunchHostFunc", 1, 1);
  EXPECT_THROW(work("refused"), CudaError);
  work("fine");
  Trace::instance().stop();
  const Parsed p = check(trace_json(Trace::instance().data()));
  EXPECT_TRUE(p.named("refused").empty());
  const Json& submit = *p.named("submit refused").at(0);
  EXPECT_EQ(submit.at("args").at("state").as_string(), "Failed");
  EXPECT_EQ(submit.at("args").at("code").as_integer(), 1);
  EXPECT_EQ(p.named("fine").size(), 1u);
}

TEST(Trace, TasksLieInLanes) {
  Scheduler scheduler;
  TraceScope trace;
  for (const char* id : {"a", "b"}) {
    TaskSpec spec;
    spec.id = id;
    spec.name = std::string("task ") + id;
    scheduler.submit(std::move(spec));
  }
  TaskSpec broken;
  broken.id = "c";
  broken.work = [](const TaskControl&) { throw Error("no \"luck\""); };
  scheduler.submit(std::move(broken));
  TaskSpec never;
  never.id = "d";
  never.dependencies = {"c"};
  scheduler.submit(std::move(never));
  EXPECT_EQ(scheduler.take(2).size(), 2u);  // side by side
  scheduler.complete("a");
  scheduler.complete("b");
  scheduler.run();
  VirtualClock clock;
  Scheduler elsewhere({}, clock);
  TaskSpec other;
  other.id = "other clock";
  other.work = [](const TaskControl&) {};
  elsewhere.submit(std::move(other));
  elsewhere.run();
  Trace::instance().stop();
  const Parsed p = check(trace_json(Trace::instance().data()));
  ASSERT_EQ(p.named("task a").size(), 1u);
  ASSERT_EQ(p.named("task b").size(), 1u);
  EXPECT_NE(p.named("task a")[0]->at("tid"), p.named("task b")[0]->at("tid"));
  EXPECT_EQ(p.named("task a")[0]->at("cat").as_string(), "task");
  EXPECT_EQ(p.named("c").at(0)->at("args").at("error").as_string(), "no \"luck\"");
  EXPECT_TRUE(p.named("d").empty()) << "it never ran";
  EXPECT_TRUE(p.named("other clock").empty());
  EXPECT_TRUE(p.process_of(*p.named("task a")[0]).starts_with("scheduler "));
}

TEST(Trace, RunsSeenTogetherLieEndToEnd) {
  TraceData data;
  data.started_ns = 1000;
  data.texts = {"", "k"};
  for (int i = 0; i < 3; ++i) {
    TracedLaunch launch;
    launch.id = static_cast<uint64_t>(i);
    launch.stream = 7;
    launch.name = 1;
    launch.queued_ns = 1000 + 10 * i;
    launch.launched_ns = 1005 + 10 * i;
    launch.completed_ns = 101'000;
    launch.device_us = 20;
    data.launches.push_back(launch);
  }
  const Parsed p = check(trace_json(data));
  const auto runs = p.named("k");
  ASSERT_EQ(runs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(runs[i]->at("dur").as_number(), 20);
    EXPECT_NEAR(runs[i]->at("ts").as_number(), 40.0 + 20.0 * static_cast<double>(i), 1e-9);
  }
}

TEST(Trace, LimitsOfPartitionsStayWhenATraceEnds) {
  FakeDriver fake;
  PartitionManager manager({}, kCpu);
  DispatchController& dispatch = DispatchController::of(kCpu);
  const auto& stream = runtime::open_device(kCpu).default_stream;
  {
    TraceScope trace;
    EXPECT_FALSE(dispatch.attached(*stream));
    manager.create("a", "A", PartitionLimits().compute(0.5));
    EXPECT_TRUE(dispatch.attached(*stream));
    Trace::instance().stop();
  }
  EXPECT_TRUE(dispatch.attached(*stream)) << "the trace took the limit away";
  {
    TraceScope trace;
    manager.remove("a");
    EXPECT_FALSE(dispatch.attached(*stream));
    EXPECT_EQ(stream->control.load(), &dispatch) << "the trace goes on";
    work("seen");
    Trace::instance().stop();
  }
  EXPECT_EQ(stream->control.load(), nullptr);
  EXPECT_EQ(check(trace_json(Trace::instance().data())).named("seen").size(), 1u);
  runtime::Waiter::of(kCpu).drain();
}

}  // namespace
}  // namespace gpukit::scheduler
