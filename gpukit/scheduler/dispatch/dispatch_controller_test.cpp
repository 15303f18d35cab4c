#include "gpukit/scheduler/dispatch/dispatch_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"
#include "gpukit/runtime/waiter.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;
using runtime::SubmitKind;
using StreamPtr = std::shared_ptr<driver::Stream>;

constexpr Device kCpu{DeviceKind::cpu, 0};

StreamPtr new_stream() { return std::make_shared<driver::Stream>(runtime::open_device(kCpu).context, 0); }

template <typename Function>
void on(const StreamPtr& stream, Function&& function) {
  const runtime::Session session = runtime::Session().with_stream(stream);
  const runtime::SessionGuard guard(session);
  function();
}

void spin_us(double us) {
  const int64_t end = real_clock().now_ns() + static_cast<int64_t>(us * 1e3);
  while (real_clock().now_ns() < end) {
  }
}

void work_on(const StreamPtr& stream, const char* name = "work", double us = 0) {
  on(stream,
     [&] { runtime::run_host(name, kCpu, std::span<const memory::Use>(), [us](void* const*) { spin_us(us); }); });
}

/// Waits for another thread to get there.
template <typename Condition>
bool eventually(Condition&& condition) {
  const int64_t end = real_clock().now_ns() + int64_t{30'000'000'000};
  while (!condition()) {
    if (real_clock().now_ns() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

struct Journal : LaunchObserver {
  std::mutex mutex;
  std::vector<std::string> lines;
  void note(const char* what, const LaunchRecord& record) {
    std::lock_guard lock(mutex);
    lines.push_back(std::string(what) + " " + record.name + " " + record.context);
  }
  void on_queued(const LaunchRecord& record) noexcept override { note("queued", record); }
  void on_launched(const LaunchRecord& record) noexcept override { note("launched", record); }
  void on_completed(const LaunchRecord& record) noexcept override { note(name(record.state), record); }
};

TEST(DispatchController, RecordsEverySubmission) {
  DispatchController controller;
  auto journal = std::make_shared<Journal>();
  controller.add_observer(journal);
  StreamPtr stream = new_stream();
  const TenantId tenant = controller.add_tenant({.name = "model"});
  controller.attach(stream, {.tenant = tenant});
  EXPECT_TRUE(controller.attached(*stream));
  work_on(stream, "long", 300);
  work_on(stream, "long", 500);
  work_on(stream, "short");
  controller.drain();
  const auto records = controller.records();
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].name, "long");
  EXPECT_EQ(records[0].kind, SubmitKind::host_function);
  EXPECT_EQ(records[0].state, KernelState::completed);
  EXPECT_EQ(records[0].context, "model");
  EXPECT_EQ(records[0].stream_id, stream->id());
  EXPECT_GE(records[0].device_us, 295);
  EXPECT_LE(records[0].queued_ns, records[0].launched_ns);
  EXPECT_LE(records[0].launched_ns, records[0].completed_ns);
  const auto kernels = controller.kernel_statistics();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "long");
  EXPECT_EQ(kernels[0].count, 2);
  EXPECT_GE(kernels[0].min_us, 295);
  EXPECT_GE(kernels[0].max_us, 495);
  EXPECT_GE(kernels[0].total_us, kernels[0].min_us + kernels[0].max_us - 1);
  const TenantUsage usage = controller.usage(tenant);
  EXPECT_EQ(usage.kernels, 3);
  EXPECT_EQ(usage.streams, 1);
  EXPECT_EQ(usage.pending_kernels, 0);
  EXPECT_GE(usage.device_us, 790);
  EXPECT_EQ(journal->lines.size(), 9u);
  EXPECT_EQ(journal->lines[0], "queued long model");
  EXPECT_EQ(journal->lines[1], "launched long model");
  EXPECT_EQ(journal->lines[2], "Completed long model");
  controller.remove_observer(journal);
  controller.detach(stream);
  work_on(stream);
  EXPECT_EQ(journal->lines.size(), 9u);
  EXPECT_EQ(controller.records().size(), 3u);
  controller.reset_statistics();
  EXPECT_TRUE(controller.records().empty());
  EXPECT_EQ(controller.usage(tenant).kernels, 0);
}

TEST(DispatchController, TellsKindsAndBytesApart) {
  DispatchController controller;
  StreamPtr stream = new_stream();
  const TenantId tenant = controller.add_tenant({.name = "copies"});
  controller.attach(stream, {.tenant = tenant});
  on(stream, [&] {
    std::vector<float> values(64, 1.0f);
    const Array array = from_host(values.data(), {64}, DType::float32, kCpu);
    const Array other = Array::empty_like(array);
    runtime::copy_device(write(other), read(array), 256);
    runtime::fill(write(other), 4, 0, 64);
    to_host(values.data(), other);
  });
  std::vector<SubmitKind> kinds;
  for (const auto& record : controller.records()) {
    kinds.push_back(record.kind);
    EXPECT_EQ(record.bytes, 256u) << record.name;
  }
  EXPECT_EQ(kinds, (std::vector<SubmitKind>{SubmitKind::copy_in, SubmitKind::copy_device, SubmitKind::fill,
                                            SubmitKind::copy_out}));
  EXPECT_EQ(controller.usage(tenant).copies, 4);
  EXPECT_EQ(controller.usage(tenant).bytes, 1024);
  controller.detach(stream);
}

TEST(DispatchController, ACaptureIsNotHeldBackItsReplayIs) {
  DispatchController controller;
  runtime::Graph graph(kCpu);
  controller.attach(graph.stream());
  on(graph.stream(), [&] {
    graph.begin_capture();
    runtime::run_host("inside", kCpu, std::span<const memory::Use>(), [](void* const*) {});
    graph.end_capture();
    EXPECT_TRUE(controller.records().empty());
    graph.replay();
  });
  ASSERT_EQ(controller.records().size(), 1u);
  EXPECT_EQ(controller.records()[0].kind, SubmitKind::graph);
  controller.detach(graph.stream());
}

TEST(DispatchController, HoldsAStreamToItsLimit) {
  FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  {
    DispatchController controller;
    StreamPtr stream = new_stream(), free_stream = new_stream();
    controller.attach(stream, {.max_in_flight = 2});
    controller.attach(free_stream);
    std::atomic<int> submitted{0};
    std::thread other([&] {
      for (int i = 0; i < 5; ++i) {
        work_on(stream);
        ++submitted;
      }
    });
    EXPECT_TRUE(eventually([&] { return submitted.load() == 2 && controller.waiting() == 1; }));
    EXPECT_EQ(controller.in_flight(*stream), 2);
    for (int i = 0; i < 5; ++i) work_on(free_stream);  // has no limit
    EXPECT_EQ(controller.in_flight(*free_stream), 5);
    int steps = 0;
    while (submitted.load() < 5 && steps++ < 100000) {
      driver.run_one();
      EXPECT_LE(controller.in_flight(*stream), 2);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    other.join();
    driver.run_all(1);
    controller.drain();
    EXPECT_EQ(controller.records().size(), 10u);
    controller.detach(stream);
    controller.detach(free_stream);
  }
  driver.defer(false);
  runtime::Waiter::of(kCpu).drain();
}

TEST(DispatchController, WakesWhoWaitsWhenCancelledClosedOrDetached) {
  FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  for (int how = 0; how < 3; ++how) {
    auto controller = std::make_unique<DispatchController>();
    StreamPtr stream = new_stream();
    controller->attach(stream, {.max_in_flight = 1});
    work_on(stream);
    std::string error;
    std::thread other([&] {
      try {
        work_on(stream, "held back");
      } catch (const Error& e) {
        error = e.what();
      }
    });
    EXPECT_TRUE(eventually([&] { return controller->waiting() == 1; }));
    if (how == 0) controller->cancel_waiting(*stream, "the task was cancelled");
    if (how == 1) controller.reset();
    if (how == 2) controller->detach(stream);
    other.join();
    const char* expected[] = {"held back: not submitted: the task was cancelled",
                              "held back: not submitted: the dispatch controller is gone", ""};
    EXPECT_EQ(error, expected[how]);
    driver.run_all(1);
    if (how == 0) {
      controller->drain();
      EXPECT_EQ(controller->records()[0].state, KernelState::cancelled);
      EXPECT_EQ(controller->records()[1].state, KernelState::completed);
    }
    if (how != 1) controller->detach(stream);
    EXPECT_EQ(stream->control.load(), nullptr);
  }
  driver.defer(false);
  runtime::Waiter::of(kCpu).drain();
}

TEST(DispatchController, SignalsEndAWait) {
  FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  {
    DispatchController controller;
    StreamPtr stream = new_stream();
    controller.attach(stream, {.max_in_flight = 1});
    work_on(stream);
    runtime::set_interrupt_check([] { throw Error("interrupted"); });
    EXPECT_THROW(work_on(stream), Error);
    runtime::set_interrupt_check(nullptr);
    EXPECT_EQ(controller.waiting(), 0);
    driver.run_all(1);
    controller.drain();
    work_on(stream);
    driver.run_all(1);
    controller.drain();
    controller.detach(stream);
  }
  driver.defer(false);
  runtime::Waiter::of(kCpu).drain();
}

TEST(DispatchController, AFailedSubmissionGivesItsPlaceBack) {
  FakeDriver driver;
  {
    DispatchController controller;
    StreamPtr stream = new_stream();
    const TenantId tenant = controller.add_tenant({.name = "a", .weight = 1});
    controller.attach(stream, {.tenant = tenant, .max_in_flight = 1});
    for (const char* call : {"cuLaunchHostFunc", "cuEventRecord", "cuEventCreate"}) {
      driver.fail_nth_of(call, 1, 719);
      // The end of the work cannot be marked: the launch went through all the same.
      EXPECT_THROW(work_on(stream), CudaError) << call;
      driver.stop_failing();
      driver.reopen_devices();
      stream = new_stream();
      controller.attach(stream, {.tenant = tenant, .max_in_flight = 1});
    }
    work_on(stream, "after");
    controller.drain();
    EXPECT_EQ(controller.records().back().name, "after");
    EXPECT_EQ(controller.records().back().state, KernelState::completed);
    EXPECT_EQ(controller.records().front().state, KernelState::failed);
    EXPECT_EQ(controller.records().front().code, 719);
    EXPECT_EQ(controller.usage(tenant).failed, 1);
    EXPECT_EQ(controller.in_flight(*stream), 0);
    controller.detach(stream);
  }
}

TEST(DispatchController, WorksWithoutAWaitersThread) {
  FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  driver::set_host_device_count(3);
  driver.reopen_devices();
  {
    const Device fresh{DeviceKind::cpu, 2};
    DispatchController controller;
    auto stream = std::make_shared<driver::Stream>(runtime::open_device(fresh).context, 0);
    controller.attach(stream);
    fail_thread_starts(1);
    on(stream, [&] { runtime::run_host("work", fresh, std::span<const memory::Use>(), [](void* const*) {}); });
    fail_thread_starts(0);
    EXPECT_EQ(controller.records().at(0).state, KernelState::completed);
    controller.detach(stream);
  }
  driver.defer(false);
  driver::set_host_device_count(1);
}

TEST(DispatchController, PacesLaunchesAndBytesOnItsClock) {
  VirtualClock clock(0, true);
  DispatchController controller(clock);
  StreamPtr paced = new_stream(), copies = new_stream();
  controller.attach(paced, {.launch_bandwidth = 0.8});  // every 20 ms
  for (int i = 0; i < 6; ++i) work_on(paced);
  EXPECT_NEAR(static_cast<double>(clock.now_ns()), 100e6, 1e4);
  EXPECT_THROW(controller.attach(copies, {.launch_bandwidth = 0.3}), ArgumentError);

  const TenantId tenant = controller.add_tenant({.name = "slow", .bytes_per_second = 1e6});
  controller.attach(copies, {.tenant = tenant});
  const int64_t start = clock.now_ns();
  std::vector<float> values(250'000);
  on(copies, [&] {
    const Array array = Array::empty({250'000}, DType::float32, kCpu);
    for (int i = 0; i < 10; ++i) runtime::copy_from_host(write(array), values.data(), 1'000'000);
  });
  // The last one is let through when the nine before it are paid for.
  EXPECT_NEAR(static_cast<double>(clock.now_ns() - start), 9e9, 0.1e9);
  EXPECT_GE(controller.usage(tenant).wait_us, 8.8e6);
  controller.detach(paced);
  controller.detach(copies);
}

class DispatchMoves : public ::testing::Test {
 protected:
  DispatchMoves() { driver::set_host_sms(32); }
  ~DispatchMoves() override {
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
    driver::set_host_sms(0);
  }
  std::shared_ptr<driver::GreenContext> green() {
    driver::Context& context = runtime::open_device(kCpu).context;
    context.make_current();
    return std::make_shared<driver::GreenContext>(driver::SmSplit(context), std::vector<int>{0});
  }
  /// Milliseconds of the controller's clock between two launches.
  double pace() {
    work_on(stream);
    const int64_t start = clock.now_ns();
    work_on(stream);
    return static_cast<double>(clock.now_ns() - start) / 1e6;
  }

  FakeDriver driver;
  std::shared_ptr<runtime::StreamGroup> group = runtime::StreamGroup::make(runtime::open_device(kCpu).context);
  StreamPtr stream = group->make_stream(0);
  VirtualClock clock{0, true};
  DispatchController controller{clock};
};

TEST_F(DispatchMoves, LimitsStayWithAStreamWhoseWorkMoves) {
  controller.attach(stream, {.launch_bandwidth = 0.8});
  EXPECT_NEAR(pace(), 20, 0.1);
  group->move_to(green());
  EXPECT_NEAR(pace(), 20, 0.1);
  group->move_to(green());
  EXPECT_NEAR(pace(), 20, 0.1);
  group->move_to(nullptr);
  EXPECT_NEAR(pace(), 20, 0.1);
  controller.detach(stream);
  EXPECT_EQ(pace(), 0);
  EXPECT_NO_THROW(controller.attach(new_stream(), {.launch_bandwidth = 1.0}));  // nothing is left booked
}

TEST_F(DispatchMoves, LimitsChangeWhileTheWorkIsElsewhere) {
  controller.attach(stream, {.launch_bandwidth = 0.5});
  group->move_to(green());
  controller.detach(stream);
  EXPECT_EQ(pace(), 0);
  EXPECT_EQ(runtime::resolve(stream)->control.load(), nullptr);
  group->move_to(nullptr);
  EXPECT_EQ(pace(), 0);
  EXPECT_EQ(stream->control.load(), nullptr);

  group->move_to(green());
  controller.attach(stream, {.launch_bandwidth = 0.8});
  EXPECT_NEAR(pace(), 20, 0.1);
  controller.attach(runtime::resolve(stream), {.launch_bandwidth = 0.6});  // the same stream by another name
  EXPECT_NEAR(pace(), 40, 0.1);
  group->move_to(nullptr);
  EXPECT_NEAR(pace(), 40, 0.1);
}

TEST_F(DispatchMoves, AMoveThatFailsLeavesTheLimits) {
  StreamPtr second = group->make_stream(0);
  controller.attach(stream, {.launch_bandwidth = 0.4});
  controller.attach(second, {.launch_bandwidth = 0.4});
  driver.fail_nth_of("cuGreenCtxStreamCreate", 2, driver::kErrorOutOfMemory);
  EXPECT_THROW(group->move_to(green()), CudaError);
  driver.stop_failing();
  EXPECT_NEAR(pace(), 60, 0.1);
  stream = second;
  EXPECT_NEAR(pace(), 60, 0.1);
}

TEST_F(DispatchMoves, TheInFlightLimitCountsWhatWasThereBefore) {
  controller.attach(stream, {.max_in_flight = 2});
  driver.defer(true);
  driver.queries_run(false);
  work_on(stream);
  group->move_to(green());
  work_on(stream);
  EXPECT_EQ(controller.in_flight(*stream), 2);
  driver.run_all(1);
  driver.defer(false);
  controller.drain();
  EXPECT_EQ(controller.in_flight(*stream), 0);
  group->move_to(nullptr);
  work_on(stream);
  controller.drain();
  EXPECT_EQ(controller.in_flight(*stream), 0);
}

TEST(DispatchController, MembershipAndLimitsAreApart) {
  DispatchController controller;
  StreamPtr stream = new_stream();
  const TenantId rest = controller.add_tenant({.name = "rest", .weight = 1});
  const TenantId own = controller.add_tenant({.name = "own"});
  auto tenant_of_next = [&] {
    work_on(stream);
    controller.drain();
    return controller.records().back().context;
  };
  controller.attach(stream, {.max_in_flight = 3});
  EXPECT_TRUE(controller.join(stream, rest));
  EXPECT_EQ(tenant_of_next(), "rest");
  controller.attach(stream, {.tenant = own});
  EXPECT_EQ(tenant_of_next(), "own");
  controller.detach(stream);
  EXPECT_EQ(tenant_of_next(), "rest");
  controller.attach(stream, {.max_in_flight = 3});
  controller.remove_tenant(rest);
  EXPECT_TRUE(controller.attached(*stream));  // by its limit
  EXPECT_EQ(tenant_of_next(), "");
  controller.detach(stream);
  EXPECT_EQ(stream->control.load(), nullptr);
  DispatchController other;
  other.attach(stream);
  EXPECT_FALSE(controller.join(stream, own));
}

/// How the time is divided is tested on a virtual clock (fair_share_test.cpp): here threads of a real machine compete.
TEST(DispatchController, TenantsOnRealStreamsAllGetTheirTurns) {
  constexpr int kEach = 60;
  DispatchController controller;
  std::vector<TenantId> tenants;
  std::vector<StreamPtr> streams;
  for (double weight : {1.0, 3.0, 6.0}) {
    tenants.push_back(controller.add_tenant({.name = "tenant", .weight = weight}));
    streams.push_back(new_stream());
    controller.attach(streams.back(), {.tenant = tenants.back()});
  }
  std::atomic<int> inside{0}, overlaps{0};
  std::vector<std::thread> threads;
  for (const StreamPtr& stream : streams) {
    threads.emplace_back([&, stream] {
      for (int k = 0; k < kEach; ++k) {
        // Sleeps as a thread does whose kernel runs on a device: the turns must not depend on who gets the processor.
        on(stream, [&] {
          runtime::run_host("kernel", kCpu, std::span<const memory::Use>(), [&, k](void* const*) {
            if (inside.fetch_add(1) != 0) ++overlaps;
            std::this_thread::sleep_for(std::chrono::microseconds(50 + 90 * (k % 6)));
            inside.fetch_sub(1);
          });
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  controller.drain();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(controller.waiting(), 0);
  for (size_t i = 0; i < tenants.size(); ++i) {
    EXPECT_EQ(controller.usage(tenants[i]).kernels, kEach);
    EXPECT_GT(controller.usage(tenants[i]).device_us, 0);
    controller.detach(streams[i]);
  }
}

TEST(DispatchController, WeightsMayChangeUnderWay) {
  DispatchController controller;
  StreamPtr a = new_stream(), b = new_stream();
  const TenantId first = controller.add_tenant({.name = "a", .weight = 1});
  const TenantId second = controller.add_tenant({.name = "b", .weight = 1});
  controller.attach(a, {.tenant = first});
  controller.attach(b, {.tenant = second});
  std::atomic<bool> stop{false};
  std::thread threads[2];
  for (int i = 0; i < 2; ++i)
    threads[i] = std::thread([&, i] {
      while (!stop.load()) work_on(i == 0 ? a : b, "kernel", 20);
    });
  for (double weight : {5.0, 0.0, 2.0, 0.0, 1.0}) {
    controller.set_weight(first, weight);
    controller.set_bytes_per_second(first, weight);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  controller.remove_tenant(first);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  controller.drain();
  EXPECT_THROW(controller.usage(first), ArgumentError);
  EXPECT_FALSE(controller.attached(*a));
  EXPECT_GT(controller.usage(second).kernels, 0);
  EXPECT_EQ(controller.waiting(), 0);
  controller.detach(b);
}

/// Kernels of tenants with shares never overlap, whatever streams they are on.
TEST(DispatchController, FairWorkRunsInTheOrderItWasLetThrough) {
  FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    DispatchController controller;
    StreamPtr streams[2] = {new_stream(), new_stream()};
    std::vector<int> order;
    for (int i = 0; i < 2; ++i) {
      const TenantId tenant = controller.add_tenant({.name = "t", .weight = 1});
      controller.attach(streams[i], {.tenant = tenant});
    }
    for (int i = 0; i < 2; ++i) {
      on(streams[i], [&] {
        runtime::run_host("w", kCpu, std::span<const memory::Use>(), [&order, i](void* const*) { order.push_back(i); });
      });
    }
    driver.run_all(seed);
    controller.drain();
    EXPECT_EQ(order, (std::vector<int>{0, 1}));
    for (const StreamPtr& stream : streams) controller.detach(stream);
  }
  driver.defer(false);
  runtime::Waiter::of(kCpu).drain();
}

TEST(DispatchController, ShortWorkStandsInALongerLine) {
  FakeDriver driver;
  {
    DispatchController controller;
    StreamPtr stream = new_stream();
    controller.attach(stream, {.tenant = controller.add_tenant({.name = "t", .weight = 1})});
    for (int i = 0; i < 20; ++i) work_on(stream);  // a few microseconds each
    driver.defer(true);
    driver.queries_run(false);
    std::atomic<int> submitted{0};
    std::thread other([&] {
      for (int i = 0; i < 12; ++i) work_on(stream), ++submitted;
    });
    EXPECT_TRUE(eventually([&] { return submitted.load() >= 3 && controller.waiting() == 1; }));
    EXPECT_LE(submitted.load(), 8);
    while (submitted.load() < 12) driver.run_one();
    other.join();
    driver.run_all(1);
    controller.drain();
    controller.detach(stream);
  }
  driver.defer(false);
  runtime::Waiter::of(kCpu).drain();
}

TEST(DispatchController, RefusesWhatMeansNothing) {
  DispatchController controller, other;
  StreamPtr stream = new_stream();
  EXPECT_THROW(controller.add_tenant({.name = "", .weight = -1}), ArgumentError);
  EXPECT_THROW(controller.add_tenant({.name = "", .bytes_per_second = -1}), ArgumentError);
  EXPECT_THROW(controller.attach(stream, {.tenant = 77}), ArgumentError);
  EXPECT_THROW(controller.attach(stream, {.max_in_flight = -1}), ArgumentError);
  EXPECT_THROW(controller.set_weight(77, 1), ArgumentError);
  EXPECT_THROW(controller.remove_tenant(77), ArgumentError);
  controller.attach(stream);
  EXPECT_THROW(other.attach(stream), Error);
  controller.detach(stream);
  other.attach(stream);
  EXPECT_EQ(&DispatchController::of(kCpu), &DispatchController::of(kCpu));
}

}  // namespace
}  // namespace gpukit::scheduler
