// Partitions: the rules of limits and sums, what is obtained on a device, resize and delete.
#include "gpukit/scheduler/partition/partition_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/context/controller.h"
#include "gpukit/scheduler/partition/partition_rest.h"
#include "gpukit/scheduler/partition/partition_share.h"
#include "gpukit/scheduler/partition/sm_groups.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int64_t kMiB = int64_t{1} << 20;

TEST(PartitionLimits, BuildersGiveCopiesAndClamp) {
  const PartitionLimits limits = PartitionLimits().memory(4 * kMiB).compute(0.5).bandwidth(7);
  EXPECT_EQ(limits.memory_quota, 4 * kMiB);
  EXPECT_DOUBLE_EQ(limits.compute_share, 0.5);
  EXPECT_DOUBLE_EQ(limits.bandwidth_share, 1.0);
  EXPECT_EQ(limits.max_streams, 16);
  EXPECT_DOUBLE_EQ(PartitionLimits::with_compute(-1).compute_share, 0.0);
  EXPECT_EQ(PartitionLimits::with_memory(9).memory_quota, 9);
  EXPECT_THROW(PartitionLimits().memory(-1), ArgumentError);
  EXPECT_THROW(PartitionLimits().compute(std::nan("")), ArgumentError);
  EXPECT_THROW(PartitionLimits(0, 1, 1, 0), ArgumentError);
}

TEST(PartitionManager, RefusesDuplicatesAndWhatIsNotLeft) {
  PartitionManager manager(PartitionConfig(8 * kMiB, false, 1.0));
  const PartitionLimits half = PartitionLimits().memory(4 * kMiB).compute(0.5).bandwidth(0.5);
  manager.create("a", "A", half);
  EXPECT_THROW(manager.create("a", "again", half), ArgumentError);
  EXPECT_THROW(manager.create("b", "B", half.memory(5 * kMiB)), Error);
  EXPECT_THROW(manager.create("b", "B", half.compute(0.6)), Error);
  EXPECT_THROW(manager.create("b", "B", half.bandwidth(0.6)), Error);
  manager.create("b", "B", half);
  EXPECT_EQ(manager.ids(), (std::vector<std::string>{"a", "b"}));
  const PartitionStats stats = manager.stats();
  EXPECT_EQ(stats.partition_count, 2);
  EXPECT_EQ(stats.total_memory_allocated, 8 * kMiB);
  EXPECT_EQ(stats.available_memory, 0);
  EXPECT_DOUBLE_EQ(stats.available_compute, 0);
}

TEST(PartitionManager, WithoutALimitNothingIsTakenFromTheOthers) {
  PartitionManager manager(PartitionConfig(8 * kMiB, false, 1.0));
  manager.create("a", "A", PartitionLimits().memory(4 * kMiB).compute(0.5));
  manager.create("b", "B", PartitionLimits().memory(4 * kMiB).compute(0.5));
  manager.create("c", "C", PartitionLimits());
  EXPECT_THROW(manager.create("d", "D", PartitionLimits().compute(0.1)), Error);
  const PartitionStats stats = manager.stats();
  EXPECT_DOUBLE_EQ(stats.total_compute_allocated, 1.0);
  EXPECT_DOUBLE_EQ(stats.total_bandwidth_allocated, 0.0);
  EXPECT_DOUBLE_EQ(stats.available_bandwidth, 1.0);
}

TEST(PartitionManager, ThreeTenthsAddUp) {
  PartitionManager manager;
  for (const char* id : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
    manager.create(id, id, PartitionLimits().compute(0.1).bandwidth(0.1));
  EXPECT_EQ(manager.ids().size(), 10u);
}

TEST(PartitionManager, OvercommitLoosensTheSumNotTheSingleOne) {
  const PartitionLimits all = PartitionLimits().memory(8 * kMiB);
  PartitionManager half_again(PartitionConfig(8 * kMiB, true, 1.5));
  half_again.create("a", "A", all.compute(0.75).bandwidth(0.5));
  EXPECT_THROW(half_again.create("b", "B", all), Error);
  half_again.create("b", "B", all.memory(4 * kMiB).compute(0.75).bandwidth(0.5));
  PartitionManager unchecked(PartitionConfig(8 * kMiB, true, 1.0));
  unchecked.create("a", "A", all);
  unchecked.create("b", "B", all);
  EXPECT_THROW(unchecked.create("c", "C", all.memory(9 * kMiB)), Error);
  EXPECT_THROW(PartitionConfig(1, true, 0.5), ArgumentError);
}

TEST(PartitionManager, TasksFallBackToTheDefault) {
  PartitionManager manager;
  EXPECT_EQ(manager.task_partition("t"), std::nullopt);
  EXPECT_EQ(manager.default_partition(), std::nullopt);
  manager.create("a", "A", PartitionLimits().compute(0.5).bandwidth(0.5));
  manager.create("b", "B", PartitionLimits().compute(0.5).bandwidth(0.5));
  EXPECT_EQ(manager.default_partition(), "a");
  EXPECT_EQ(manager.task_partition("t"), "a");
  manager.assign_task("t", "b");
  EXPECT_EQ(manager.task_partition("t"), "b");
  EXPECT_EQ(manager.get("b")->tasks(), (std::vector<std::string>{"t"}));
  manager.assign_task("t", "a");
  EXPECT_TRUE(manager.get("b")->tasks().empty());
  EXPECT_TRUE(manager.unassign_task("t"));
  EXPECT_FALSE(manager.unassign_task("t"));
  manager.set_default("b");
  EXPECT_EQ(manager.task_partition("t"), "b");
  EXPECT_THROW(manager.set_default("c"), ArgumentError);
  EXPECT_THROW(manager.assign_task("t", "c"), ArgumentError);
  EXPECT_THROW(manager.remove("c"), ArgumentError);
  auto gone = manager.remove("b");
  EXPECT_FALSE(gone->enabled());
  EXPECT_EQ(manager.default_partition(), "a");
  manager.clear();
  EXPECT_EQ(manager.stats().partition_count, 0);
}

// On a device

class PartitionDevice : public ::testing::Test {
 protected:
  PartitionDevice() { driver::set_host_sms(132); }
  ~PartitionDevice() override {
    fake.defer(false);
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
    driver::set_host_sms(0);
  }
  static std::set<int> sms(const std::shared_ptr<driver::Stream>& stream) {
    auto list = driver::host_green_sms(driver::host_stream_green(runtime::resolve(stream)->handle()));
    return {list.begin(), list.end()};
  }
  static std::set<int> default_sms() { return sms(runtime::open_device(kCpu).default_stream); }
  static std::set<int> sms_of(PartitionManager& manager, const std::string& id) {
    return sms(manager.share(id)->session().stream());
  }
  static bool disjoint(const std::set<int>& a, const std::set<int>& b) {
    return std::none_of(a.begin(), a.end(), [&](int sm) { return b.contains(sm); });
  }

  FakeDriver fake;
};

TEST_F(PartitionDevice, SharesAreDisjointSetsOfSmsAndTheDefaultHasTheRest) {
  PartitionManager manager({}, kCpu);
  EXPECT_TRUE(default_sms().empty());  // a plain stream
  manager.create("small", "S", PartitionLimits().compute(0.25).bandwidth(0.25));
  const std::set<int> small = sms_of(manager, "small");
  EXPECT_EQ(small.size(), 32u);
  EXPECT_EQ(default_sms().size(), 100u);
  EXPECT_TRUE(disjoint(small, default_sms()));
  const PartitionUsage usage = manager.usage("small");
  EXPECT_EQ(usage.sm_asked, 33);
  EXPECT_EQ(usage.sm_count, 32);
  EXPECT_TRUE(usage.enforced);
  EXPECT_FALSE(usage.paced);
  EXPECT_NE(usage.note.find("Other libraries"), std::string::npos);

  manager.create("tiny", "T", PartitionLimits().compute(0.001).bandwidth(0.25));
  EXPECT_EQ(sms_of(manager, "tiny").size(), 8u);
  EXPECT_TRUE(disjoint(sms_of(manager, "tiny"), small));
  EXPECT_EQ(default_sms().size(), 92u);
  manager.remove("small");
  runtime::Waiter::of(kCpu).drain();
  EXPECT_EQ(default_sms().size(), 124u);
  manager.remove("tiny");
  EXPECT_TRUE(default_sms().empty());
}

TEST_F(PartitionDevice, TheDefaultSessionKeepsSomeSms) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.5).bandwidth(0.5));
  manager.create("b", "B", PartitionLimits().compute(0.5).bandwidth(0.5));
  EXPECT_EQ(manager.usage("a").sm_count, 64);
  EXPECT_EQ(manager.usage("b").sm_count, 64);
  EXPECT_EQ(default_sms().size(), 4u);  // what the split leaves over
  PartitionManager other({}, kCpu);
  EXPECT_THROW(other.create("c", "C", PartitionLimits().compute(0.1)), Error);
  EXPECT_TRUE(other.ids().empty());
}

TEST_F(PartitionDevice, ResizeMovesNewWorkAndGivesSmsBackLater) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.5).bandwidth(0.5));
  auto stream = manager.share("a")->session().stream();
  const std::set<int> before = sms(stream);
  fake.queries_run(false);
  fake.defer(true);
  std::vector<int> order;
  auto push = [&](int value) {
    SessionScope inside(manager.share("a")->session());
    runtime::run_host("push", kCpu, {}, [&order, value](void* const*) { order.push_back(value); });
  };
  push(1);
  manager.resize("a", PartitionLimits().compute(0.25).bandwidth(0.5));
  push(2);
  EXPECT_EQ(sms(stream).size(), 32u);
  EXPECT_EQ(default_sms().size(), 68u);  // the others are still in use
  fake.run_all(5);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  fake.defer(false);
  runtime::Waiter::of(kCpu).drain();
  EXPECT_EQ(default_sms().size(), 100u);
  EXPECT_TRUE(disjoint(default_sms(), sms(stream)));

  manager.resize("a", PartitionLimits().compute(0.75).bandwidth(0.5));
  EXPECT_EQ(sms(stream).size(), 96u);  // 99 asked
  EXPECT_EQ(default_sms().size(), 36u);
  manager.resize("a", PartitionLimits());  // no share: with the default session
  EXPECT_TRUE(sms(stream).empty());
  EXPECT_TRUE(default_sms().empty());
  manager.resize("a", PartitionLimits().compute(0.25));
  EXPECT_EQ(sms(stream).size(), 32u);
}

TEST_F(PartitionDevice, ABusyPartitionIsFinishedBeforeItGoes) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.5));
  auto share = manager.share("a");
  bool ran = false;
  {
    SessionScope inside(share->session());
    EXPECT_THROW(manager.remove("a"), Error);  // someone is inside
    fake.queries_run(false);
    fake.defer(true);
    runtime::run_host("work", kCpu, {}, [&ran](void* const*) { ran = true; });
  }
  fake.queries_run(true);  // the waiter's looks let the work run
  auto gone = manager.remove("a");
  EXPECT_TRUE(ran);
  EXPECT_FALSE(gone->enabled());
  EXPECT_EQ(gone->usage().total_kernels, 1);
  EXPECT_TRUE(default_sms().empty());
  EXPECT_THROW(share->session().enter({}), Error);
  runtime::Session left = runtime::Session().with_stream(share->session().stream());
  runtime::SessionGuard guard(left);
  EXPECT_THROW(runtime::run_host("late", kCpu, {}, [](void* const*) {}), Error);
  EXPECT_THROW(runtime::new_stream(kCpu, 0), Error);
}

TEST_F(PartitionDevice, MemoryIsAWallAndALoweredQuotaKeepsWhatIsThere) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().memory(8 * kMiB));
  SessionScope inside(manager.share("a")->session());
  std::optional<Array> held = Array::empty({4 * kMiB}, DType::uint8, kCpu);
  EXPECT_GE(manager.usage("a").memory_used, 4 * kMiB);
  EXPECT_DOUBLE_EQ(manager.get("a")->memory_utilization(), 0.5);
  EXPECT_THROW(Array::empty({5 * kMiB}, DType::uint8, kCpu), OutOfMemoryError);
  manager.resize("a", PartitionLimits().memory(2 * kMiB));
  EXPECT_GE(manager.usage("a").memory_used, 4 * kMiB);
  EXPECT_THROW(Array::empty({64}, DType::uint8, kCpu), OutOfMemoryError);
  held.reset();
  Array fits = Array::empty({kMiB}, DType::uint8, kCpu);
  EXPECT_LE(manager.usage("a").memory_used, 2 * kMiB);
  EXPECT_GE(manager.usage("a").memory_peak, 4 * kMiB);
}

TEST_F(PartitionDevice, StreamsAreCounted) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits(0, 0.5, 1.0, 2));
  SessionScope inside(manager.share("a")->session());
  auto second = runtime::new_stream(kCpu, 0);
  EXPECT_EQ(manager.usage("a").active_streams, 2);
  EXPECT_EQ(sms(second), sms_of(manager, "a"));
  EXPECT_THROW(runtime::new_stream(kCpu, 0), Error);
  second.reset();
  EXPECT_NO_THROW(runtime::new_stream(kCpu, 0));
}

TEST_F(PartitionDevice, AttachTakesAllSharesOrNone) {
  PartitionManager manager(PartitionConfig(int64_t{8} << 30, true, 1.0));
  for (const char* id : {"a", "b", "c"}) manager.create(id, id, PartitionLimits().compute(0.9));
  EXPECT_FALSE(manager.usage("a").enforced);
  EXPECT_THROW(manager.attach(kCpu), Error);  // no group is left for the third one
  EXPECT_FALSE(manager.usage("a").enforced);
  EXPECT_TRUE(default_sms().empty());
  manager.remove("b");
  manager.remove("c");
  manager.attach(kCpu);
  EXPECT_EQ(manager.usage("a").sm_count, 112);
}

TEST_F(PartitionDevice, SharesOfADeviceAddUpWhoeverHasThem) {
  PartitionManager manager({}, kCpu), other({}, kCpu);
  PartitionManager more(PartitionConfig(int64_t{8} << 30, true, 1.5), kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.6));
  manager.create("whole", "W", PartitionLimits());
  EXPECT_THROW(other.create("b", "B", PartitionLimits().compute(0.5)), Error);
  other.create("b", "B", PartitionLimits().compute(0.4));
  EXPECT_THROW(manager.resize("a", PartitionLimits().compute(0.7)), Error);
  EXPECT_DOUBLE_EQ(manager.get("a")->limits().compute_share, 0.6);
  manager.resize("a", PartitionLimits().compute(0.5));
  EXPECT_THROW(other.resize("b", PartitionLimits().compute(0.51)), Error);
  runtime::Waiter::of(kCpu).drain();  // SMs come back when their work is over
  EXPECT_THROW(more.create("c", "C", PartitionLimits().compute(0.7)), Error);
  more.create("c", "C", PartitionLimits().compute(0.6));
  EXPECT_THROW(other.create("d", "D", PartitionLimits().compute(0.001)), Error);
  more.clear();
  manager.clear();
  runtime::Waiter::of(kCpu).drain();
  other.resize("b", PartitionLimits().compute(0.9).bandwidth(0.9));
  EXPECT_THROW(manager.create("a", "A", PartitionLimits().bandwidth(0.2)), Error);
  other.clear();
  manager.create("a", "A", PartitionLimits().compute(0.999).bandwidth(0.999));
}

TEST_F(PartitionDevice, ContextsCountToo) {
  MultiLLMController contexts;
  contexts.initialize();
  contexts.create_context("a", {.compute = 0.9});
  EXPECT_THROW(contexts.create_context("b", {.compute = 0.9}), Error);
  EXPECT_EQ(contexts.list_contexts().size(), 1u);
  contexts.create_context("b", {.compute = 0.1});
  EXPECT_TRUE(contexts.destroy_context("a"));
  contexts.create_context("c", {.compute = 0.9});
  contexts.reset();
}

/// A round for every call of the driver that `attempt(operation)` makes: the n-th fails. attempt() gives whether the
/// operation threw. A round leaves nothing behind.
template <typename Round>
void for_every_failing_call(FakeDriver& fake, Round&& round) {
  {
    PartitionManager warm({}, kCpu);
    warm.create("w", "W", PartitionLimits().compute(0.5));
  }
  std::string call = "none yet";
  for (int n = 1; !call.empty() && n < 300; ++n) {
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
    SmGroups::of(kCpu).forget_idle();
    const auto before = fake.live();
    round([&](auto&& operation) {
      bool threw = false;
      fake.fail_nth(n, driver::kErrorOutOfMemory);
      try {
        operation();
      } catch (const Error&) {
        threw = true;
      }
      call = fake.failed_call();
      fake.stop_failing();
      return threw;
    });
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
    SmGroups::of(kCpu).forget_idle();
    if (call.find("Destroy") == std::string::npos) {  // else that one is never destroyed
      EXPECT_EQ(fake.live().streams, before.streams) << n << " " << call;
      EXPECT_EQ(fake.live().green, before.green) << n << " " << call;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(call, "");
}

TEST_F(PartitionDevice, ACreateThatFailsLeavesTheDeviceAsItWas) {
  for_every_failing_call(fake, [&](auto&& attempt) {
    PartitionManager manager({}, kCpu);
    attempt([&] { manager.create("a", "A", PartitionLimits().compute(0.25)); });
    manager.clear();
    EXPECT_TRUE(default_sms().empty());
    EXPECT_TRUE(DispatchController::of(kCpu).usage().empty());
  });
}

TEST_F(PartitionDevice, AResizeThatFailsLeavesTheDeviceAsItWas) {
  for (double share : {0.75, 0.25, 1.0}) {
    for_every_failing_call(fake, [&](auto&& attempt) {
      PartitionManager manager({}, kCpu);
      manager.create("a", "A", PartitionLimits().compute(0.5));
      const std::set<int> own = sms_of(manager, "a"), rest = default_sms();
      if (attempt([&] { manager.resize("a", PartitionLimits().compute(share)); })) {
        EXPECT_EQ(sms_of(manager, "a"), own) << share;
        EXPECT_EQ(default_sms(), rest) << share;
        EXPECT_DOUBLE_EQ(manager.get("a")->limits().compute_share, 0.5);
      }
      // The next try and the next partition find everything there.
      manager.resize("a", PartitionLimits().compute(share));
      manager.clear();
      runtime::Waiter::of(kCpu).drain();
      manager.create("b", "B", PartitionLimits().compute(0.9));
      EXPECT_EQ(manager.usage("b").sm_count, 112) << share;
      manager.clear();
      EXPECT_TRUE(default_sms().empty()) << share;
    });
  }
}

TEST_F(PartitionDevice, ADeleteThatFailsLeavesNothingBehind) {
  for_every_failing_call(fake, [&](auto&& attempt) {
    PartitionManager manager({}, kCpu);
    manager.create("a", "A", PartitionLimits().compute(0.5));
    {
      SessionScope inside(manager.share("a")->session());
      runtime::run_host("work", kCpu, {}, [](void* const*) {});
    }
    if (attempt([&] { manager.remove("a"); })) {
      EXPECT_EQ(manager.ids().size(), 1u);
    }
    manager.clear();
    runtime::Waiter::of(kCpu).drain();
    manager.create("b", "B", PartitionLimits().compute(0.9));
    EXPECT_EQ(manager.usage("b").sm_count, 112);
    manager.clear();
    EXPECT_TRUE(default_sms().empty());
  });
}

TEST_F(PartitionDevice, ANewOneWaitsForSmsThatWorkStillHas) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.85));
  manager.create("b", "B", PartitionLimits().compute(0.15));
  EXPECT_EQ(manager.usage("a").sm_count + manager.usage("b").sm_count, 128);  // every group
  fake.defer(true);
  {
    SessionScope inside(manager.share("a")->session());
    runtime::run_host("work", kCpu, {}, [](void* const*) {});
  }
  manager.resize("a", PartitionLimits().compute(0.1));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fake.defer(false);
  });
  EXPECT_NO_THROW(manager.create("c", "C", PartitionLimits().compute(0.5)));
  later.join();
  EXPECT_EQ(manager.usage("c").sm_count, 64);
  manager.clear();
}

TEST_F(PartitionDevice, ThreadsSubmitWhileSmsMove) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.25).bandwidth(0.5));
  constexpr int kThreads = 4, kWork = 400;
  std::vector<int> done(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto push = [&] { runtime::run_host("count", kCpu, {}, [&done, t](void* const*) { ++done[t]; }); };
      for (int i = 0; i < kWork; ++i) {
        if (t % 2 == 0) {
          push();  // the default session
        } else {
          SessionScope inside(manager.share("a")->session());
          push();
        }
      }
      runtime::forget_moved_streams();
    });
  }
  for (int i = 0; i < 30; ++i) {
    manager.resize("a", PartitionLimits().compute(0.125 * (1 + i % 4)).bandwidth(0.5));
    if (i % 3 == 0) manager.create("b", "B", PartitionLimits().compute(0.1).bandwidth(0.1));
    if (i % 3 == 2) manager.remove("b");
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, std::vector<int>(kThreads, kWork));
  manager.clear();
  runtime::Waiter::of(kCpu).drain();
  runtime::forget_moved_streams();
  SmGroups::of(kCpu).forget_idle();
  EXPECT_EQ(fake.live().green, 0);
}

TEST(PartitionPaced, SharesOfTimeWhereSmsCannotBeDivided) {
  FakeDriver fake;
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.25).bandwidth(0.5));
  const PartitionUsage usage = manager.usage("a");
  EXPECT_TRUE(usage.paced);
  EXPECT_NEAR(usage.bytes_per_second, 0.5 * copy_bandwidth(kCpu), 1);
  DispatchController& controller = DispatchController::of(kCpu);
  auto weight = [&](const std::string& name) {
    for (const TenantUsage& tenant : controller.usage())
      if (tenant.name == name) return tenant.weight;
    return -1.0;
  };
  EXPECT_DOUBLE_EQ(weight("partition:a"), 0.25);
  EXPECT_DOUBLE_EQ(weight("default"), 0.75);
  EXPECT_TRUE(controller.attached(*runtime::open_device(kCpu).default_stream));
  manager.resize("a", PartitionLimits().compute(0.5));
  EXPECT_DOUBLE_EQ(weight("partition:a"), 0.5);
  EXPECT_DOUBLE_EQ(weight("default"), 0.5);
  EXPECT_EQ(manager.usage("a").bytes_per_second, 0);
  auto stream = runtime::new_stream(kCpu, 0);
  EXPECT_TRUE(controller.attached(*stream));
  manager.remove("a");
  EXPECT_EQ(weight("default"), -1.0);
  EXPECT_FALSE(controller.attached(*runtime::open_device(kCpu).default_stream));
  runtime::Waiter::of(kCpu).drain();
}

std::vector<std::string> tenants() {
  std::vector<std::string> names;
  for (const TenantUsage& tenant : DispatchController::of(kCpu).usage()) names.push_back(tenant.name);
  return names;
}

TEST(PartitionPaced, StreamsOfAnotherControlStayWithIt) {
  FakeDriver fake;
  {
    DispatchController other;
    auto stream = runtime::new_stream(kCpu, 0);
    other.attach(stream);
    PartitionManager manager({}, kCpu);
    manager.create("a", "A", PartitionLimits().compute(0.25));
    EXPECT_EQ(stream->control.load(), &other);
    EXPECT_TRUE(DispatchController::of(kCpu).attached(*runtime::open_device(kCpu).default_stream));
    manager.remove("a");
    EXPECT_TRUE(tenants().empty());
    EXPECT_EQ(stream->control.load(), &other);
  }
  runtime::Waiter::of(kCpu).drain();
}

TEST(PartitionPaced, ADestroyedContextIsInNobodysWay) {
  FakeDriver fake;
  {
    MultiLLMController contexts;
    contexts.initialize();
    auto context = contexts.create_context("a");
    contexts.destroy_context("a");  // its streams live on
    PartitionManager manager({}, kCpu);
    manager.create("p", "P", PartitionLimits().compute(0.5));
    auto second = contexts.create_context("b");
    contexts.destroy_context("b");  // while there are shares
    manager.resize("p", PartitionLimits().compute(0.25));
    EXPECT_EQ(tenants().size(), 2u);
    manager.clear();
    EXPECT_TRUE(tenants().empty());
  }
  runtime::Waiter::of(kCpu).drain();
}

TEST(PartitionPaced, ThoseWithoutAShareTakeTurnsWithTheDefault) {
  FakeDriver fake;
  {
    PartitionManager manager({}, kCpu);
    MultiLLMController contexts;
    contexts.initialize();
    manager.create("early", "E", PartitionLimits().memory(8 * kMiB));
    manager.create("p", "P", PartitionLimits().compute(0.5));
    manager.create("late", "L", PartitionLimits().memory(8 * kMiB));
    auto context = contexts.create_context("c", {.bandwidth = 0.9});
    DispatchController& controller = DispatchController::of(kCpu);
    auto submit = [](SessionOwner& owner) {
      SessionScope inside(owner);
      for (int i = 0; i < 12; ++i) runtime::run_host("work", kCpu, {}, [](void* const*) {});
    };
    // Of work that takes turns only a few pieces stand on the device at once.
    auto waits = [&](SessionOwner& owner) {
      fake.queries_run(false);
      fake.defer(true);
      std::atomic<bool> done{false};
      std::thread other([&] {
        submit(owner);
        done = true;
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const bool waited = !done;
      while (!done) fake.run_one();
      other.join();
      fake.run_all(1);
      fake.defer(false);
      controller.drain();
      return waited;
    };
    EXPECT_TRUE(waits(manager.share("early")->session()));
    EXPECT_TRUE(waits(manager.share("late")->session()));
    EXPECT_TRUE(waits(context->session()));
    EXPECT_EQ(manager.usage("early").total_kernels, 12);  // counted as its own all the same
    manager.remove("p");
    fake.queries_run(false);
    fake.defer(true);
    submit(manager.share("early")->session());  // nothing to wait for any more
    fake.defer(false);
    controller.drain();
    manager.clear();
    contexts.reset();
  }
  runtime::Waiter::of(kCpu).drain();
}

}  // namespace
}  // namespace gpukit::scheduler
