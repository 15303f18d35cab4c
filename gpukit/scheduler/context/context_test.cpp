// Execution contexts: walls and classes, sessions, futures, destruction.
#include "gpukit/scheduler/context/context.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/scheduler/context/controller.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int64_t kMiB = int64_t{1} << 20;

class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() : guard(session) { controller.initialize(0, 64 * kMiB, 32 * kMiB); }
  ~ControllerTest() override {
    fake.defer(false);
    controller.reset();
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
    driver::set_host_sms(0);
  }
  static Array bytes(int64_t size) { return Array::empty({size}, DType::uint8, kCpu); }

  FakeDriver fake;
  runtime::Session session = runtime::Session().with_device(kCpu);
  runtime::SessionGuard guard;
  MultiLLMController controller;
};

TEST_F(ControllerTest, DefaultsAndStreams) {
  MultiLLMController other;
  EXPECT_THROW(other.create_context("a"), Error);
  other.initialize();
  EXPECT_EQ(other.stats().device_total_memory, int64_t{8} << 30);
  EXPECT_EQ(other.stats().total_vram_budget, int64_t{8} << 30);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(controller.create_context("m" + std::to_string(i))->stream_id(), i);
  EXPECT_THROW(controller.create_context("m8"), Error);
  EXPECT_THROW(controller.create_context("m0"), Error);
  EXPECT_THROW(controller.initialize(), Error);
  EXPECT_TRUE(controller.destroy_context("m3"));
  EXPECT_FALSE(controller.destroy_context("m3"));
  EXPECT_EQ(controller.create_context("again")->stream_id(), 3);
  EXPECT_EQ(controller.list_contexts().size(), 8u);
  EXPECT_EQ(controller.find("m3"), nullptr);
  EXPECT_THROW(controller.get("test", "m3"), ArgumentError);
}

TEST_F(ControllerTest, ClassFollowsFromRequestAndLimit) {
  EXPECT_EQ(controller.create_context("g", {.max_vram = kMiB, .base_vram = kMiB})->qos(), QosClass::guaranteed);
  EXPECT_EQ(controller.create_context("b", {.max_vram = 2 * kMiB, .base_vram = kMiB})->qos(), QosClass::burstable);
  EXPECT_EQ(controller.create_context("e")->qos(), QosClass::best_effort);
  EXPECT_EQ(controller.create_context("g2", {.max_vram = kMiB, .qos = QosClass::guaranteed})->base_vram(), kMiB);
  EXPECT_THROW(controller.create_context("x", {.max_vram = kMiB, .base_vram = 2 * kMiB}), ArgumentError);
  EXPECT_THROW(controller.create_context("x", {.max_vram = 2 * kMiB, .base_vram = kMiB, .qos = QosClass::guaranteed}),
               ArgumentError);
  EXPECT_THROW(controller.create_context("x", {.base_vram = 40 * kMiB}), Error);
  EXPECT_THROW(controller.create_context("x", {.compute = 0}), ArgumentError);
  EXPECT_THROW(controller.create_context("x", {.max_vram = -1}), ArgumentError);
}

TEST_F(ControllerTest, ArraysAreChargedToTheContextAndStopAtItsWall) {
  auto context = controller.create_context("a", {.max_vram = 8 * kMiB});
  std::optional<Array> held;
  {
    SessionScope inside(context->session());
    held = bytes(6 * kMiB);
    EXPECT_THROW(bytes(4 * kMiB), OutOfMemoryError);
  }
  EXPECT_GE(context->used_vram(), 6 * kMiB);
  EXPECT_EQ(controller.used_vram(), context->used_vram());
  EXPECT_EQ(controller.context_stats(*context).buffer_count, 1);
  EXPECT_NO_THROW(bytes(4 * kMiB));  // outside
  EXPECT_GE(context->usage().peak_vram, 6 * kMiB);
  held.reset();
  EXPECT_EQ(context->used_vram(), 0);
  EXPECT_EQ(controller.context_stats(*context).available_vram, 8 * kMiB);
}

TEST_F(ControllerTest, WhatGuaranteedContextsAskedForIsOutOfReachForOthers) {
  auto greedy = controller.create_context("greedy");
  auto sure = controller.create_context("sure", {.max_vram = 24 * kMiB, .base_vram = 24 * kMiB});
  std::vector<Array> taken;
  {
    SessionScope inside(greedy->session());
    EXPECT_THROW(
        {
          for (;;) taken.push_back(bytes(2 * kMiB));
        },
        OutOfMemoryError);
  }
  EXPECT_LE(greedy->used_vram(), 8 * kMiB);
  EXPECT_GE(greedy->used_vram(), 6 * kMiB);
  SessionScope inside(sure->session());
  std::vector<Array> kept;
  for (int i = 0; i < 12; ++i) kept.push_back(bytes(2 * kMiB));
  EXPECT_THROW(bytes(2 * kMiB), OutOfMemoryError);
}

/// As many as fit.
std::vector<Array> fill(ExecutionContext& context, int64_t each = 2 * kMiB) {
  std::vector<Array> taken;
  SessionScope inside(context.session());
  try {
    for (;;) taken.push_back(Array::empty({each}, DType::uint8, kCpu));
  } catch (const OutOfMemoryError&) {
  }
  return taken;
}

TEST_F(ControllerTest, EveryBaseIsKept) {
  auto a = controller.create_context("a", {.max_vram = 32 * kMiB, .base_vram = 12 * kMiB});
  auto b = controller.create_context("b", {.max_vram = 32 * kMiB, .base_vram = 12 * kMiB});
  auto e = controller.create_context("e"), f = controller.create_context("f");
  EXPECT_EQ(controller.used_vram(), 0);
  EXPECT_EQ(controller.context_stats(*a).available_vram, 20 * kMiB);
  EXPECT_EQ(controller.context_stats(*e).available_vram, 8 * kMiB);
  const std::vector<Array> most = fill(*a);
  EXPECT_EQ(most.size(), 10u);
  EXPECT_EQ(controller.context_stats(*b).available_vram, 12 * kMiB);
  EXPECT_EQ(controller.context_stats(*f).available_vram, 0);
  EXPECT_EQ(fill(*e).size(), 0u);
  const std::vector<Array> sure = fill(*b);
  EXPECT_EQ(sure.size(), 6u);
  EXPECT_EQ(controller.used_vram(), 32 * kMiB);
  EXPECT_TRUE(controller.destroy_context("b"));  // its arrays live on and still count
  EXPECT_EQ(controller.used_vram(), 32 * kMiB);
  EXPECT_EQ(controller.available_vram(), 0);
}

TEST_F(ControllerTest, WhoIsAboveItsBaseGivesWayToANewBase) {
  const auto evicted = [](ExecutionContext& context) { return context.session().account()->evicted_bytes(); };
  auto burst = controller.create_context("burst", {.max_vram = 16 * kMiB, .base_vram = 4 * kMiB});
  auto hog = controller.create_context("hog", {.qos = QosClass::best_effort});
  auto small = controller.create_context("small", {.max_vram = 2 * kMiB, .qos = QosClass::burstable});
  std::vector<Array> of_burst, of_small = fill(*small);
  {
    SessionScope inside(burst->session());
    for (int i = 0; i < 4; ++i) of_burst.push_back(bytes(2 * kMiB));
  }
  std::vector<Array> of_hog = fill(*hog);
  EXPECT_EQ(of_hog.size(), 11u);
  auto sure = controller.create_context("sure", {.max_vram = 8 * kMiB, .qos = QosClass::guaranteed});
  EXPECT_EQ(evicted(*hog), 8u * kMiB);  // best effort first, and no more than needed
  EXPECT_EQ(evicted(*burst) + evicted(*small), 0u);
  EXPECT_EQ(fill(*sure).size(), 4u);
  auto more = controller.create_context("more", {.max_vram = 18 * kMiB, .qos = QosClass::guaranteed});
  EXPECT_EQ(evicted(*hog), 22u * kMiB);
  EXPECT_EQ(evicted(*burst) + evicted(*small), 4u * kMiB);
  // Within what is kept nothing leaves, so the rest of the budget is all there is.
  EXPECT_THROW(controller.create_context("last", {.base_vram = 4 * kMiB}), Error);
  EXPECT_EQ(fill(*more).size(), 9u);
  EXPECT_TRUE(controller.destroy_context("sure") && controller.destroy_context("more"));
}

TEST_F(ControllerTest, ABaseThatNobodyCanGiveIsRefused) {
  auto plain = controller.create_context("plain");  // without a class its blocks stay
  std::optional<std::vector<Array>> held = fill(*plain);
  try {
    controller.create_context("sure", {.max_vram = 8 * kMiB, .qos = QosClass::guaranteed});
    FAIL() << "must throw";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot be moved to host memory"), std::string::npos) << error.what();
  }
  EXPECT_EQ(controller.list_contexts(), std::vector<std::string>{"plain"});
  held.reset();
  auto sure = controller.create_context("sure", {.max_vram = 8 * kMiB, .qos = QosClass::guaranteed});
  EXPECT_EQ(sure->stream_id(), 1);
  EXPECT_EQ(controller.context_stats(*plain).available_vram, 24 * kMiB);
}

TEST_F(ControllerTest, InitialisesWhenAskedAndKeepsItsDevice) {
  MultiLLMController other;
  EXPECT_THROW(other.create_context("a", {.device_id = 70000, .initialize = true}), DeviceError);
  EXPECT_FALSE(other.is_initialized());
  other.create_context("a", {.initialize = true});
  EXPECT_THROW(other.create_context("b", {.device_id = 1, .initialize = true}), ArgumentError);
  EXPECT_THROW(other.initialize(65536), DeviceError);
  other.reset();
}

TEST_F(ControllerTest, SessionsOfTheControllerNest) {
  controller.start_session();
  controller.start_session();
  controller.end_session();
  EXPECT_TRUE(controller.is_session_active());
  controller.end_session();
  EXPECT_FALSE(controller.is_session_active());
  controller.end_session();
  controller.start_session();
  EXPECT_TRUE(controller.is_session_active());
  controller.end_session();
}

MultiLLMController* g_controller = nullptr;
FakeDriver* g_fake = nullptr;

TEST_F(ControllerTest, AHandlerMayUseTheControllerWhileAContextIsDestroyed) {
  auto context = controller.create_context("a");
  fake.queries_run(false);
  fake.defer(true);
  {
    SessionScope inside(context->session());
    runtime::run_host("work", kCpu, {}, [](void* const*) {});
  }
  g_controller = &controller;
  g_fake = &fake;
  runtime::set_interrupt_check([] {
    EXPECT_FALSE(g_controller->destroy_context("a"));
    EXPECT_THROW(g_controller->reset(), Error);
    EXPECT_EQ(g_controller->list_contexts().size(), 1u);
    g_fake->defer(false);
  });
  EXPECT_TRUE(controller.destroy_context("a"));
  runtime::set_interrupt_check(nullptr);
  EXPECT_TRUE(controller.list_contexts().empty());
}

TEST_F(ControllerTest, TrackedBuffersCountAgainstTheSameWall) {
  auto context = controller.create_context("a", {.max_vram = 8 * kMiB});
  EXPECT_TRUE(context->track_allocation(1, 6 * kMiB));
  EXPECT_FALSE(context->track_allocation(2, 4 * kMiB));
  EXPECT_THROW(context->track_allocation(1, 1), ArgumentError);
  EXPECT_EQ(context->used_vram(), 6 * kMiB);
  EXPECT_EQ(controller.available_vram(), 26 * kMiB);
  {
    SessionScope inside(context->session());
    EXPECT_THROW(bytes(4 * kMiB), OutOfMemoryError);
    Array fits = bytes(2 * kMiB);
  }
  // Bytes kept for reuse do not stand in the way.
  EXPECT_TRUE(context->track_allocation(2, 2 * kMiB));
  context->track_deallocation(1);
  context->track_deallocation(2);
  EXPECT_THROW(context->track_deallocation(1), ArgumentError);
  EXPECT_EQ(context->used_vram(), 0);
}

TEST_F(ControllerTest, EntryAndExitOrderTheData) {
  auto context = controller.create_context("a");
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    std::vector<int> order;
    auto push = [&](int value) {
      runtime::run_host("push", kCpu, {}, [&order, value](void* const*) { order.push_back(value); });
    };
    fake.queries_run(false);
    fake.defer(true);
    push(1);
    {
      SessionScope inside(context->session());
      push(2);
    }
    push(3);
    fake.run_all(seed);
    fake.defer(false);
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3})) << seed;
  }
}

TEST_F(ControllerTest, IsNotDestroyedInsideItsOwnSession) {
  auto context = controller.create_context("a", {.max_vram = 8 * kMiB});
  std::optional<Array> held;
  {
    SessionScope inside(context->session());
    held = bytes(kMiB);
    EXPECT_THROW(controller.destroy_context("a"), Error);
    EXPECT_THROW(controller.reset(), Error);
    EXPECT_EQ(controller.context_stats(*context).state, ContextState::running);
    EXPECT_NO_THROW(bytes(kMiB));  // nothing was lost
  }
  EXPECT_TRUE(controller.destroy_context("a"));
  EXPECT_THROW(context->session().enter({}), Error);
  EXPECT_THROW(context->dispatch(), Error);
  runtime::Session left = runtime::Session().with_stream(context->session().stream());
  runtime::SessionGuard inner(left);
  EXPECT_THROW(runtime::run_host("late", kCpu, {}, [](void* const*) {}), Error);
}

TEST_F(ControllerTest, SessionsAreNotEnteredInsideACapture) {
  auto context = controller.create_context("a");
  runtime::Graph graph(kCpu);
  graph.begin_capture();
  EXPECT_THROW(context->session().enter({}), Error);
  graph.abandon();
  EXPECT_EQ(context->session().entered(), 0);
}

TEST_F(ControllerTest, AShareHasItsOwnSms) {
  driver::set_host_sms(64);
  auto context = controller.create_context("a", {.compute = 0.25});
  EXPECT_EQ(context->usage().partition.sm_count, 16);
  EXPECT_EQ(context->session().stream()->green()->sm_count(), 16);
  auto plain = controller.create_context("b");
  EXPECT_EQ(runtime::resolve(plain->session().stream())->green()->sm_count(), 48);
  controller.destroy_context("a");
  EXPECT_EQ(runtime::resolve(plain->session().stream())->green(), nullptr);
}

// Futures

TEST_F(ControllerTest, FuturesOfRealWork) {
  auto context = controller.create_context("a");
  fake.queries_run(false);
  fake.defer(true);
  bool ran = false;
  auto future = context->dispatch([&]() -> std::optional<std::string> {
    runtime::run_host("work", kCpu, {}, [&ran](void* const*) { ran = true; });
    return "bytes";
  });
  EXPECT_EQ(future->id(), 1u);
  EXPECT_EQ(future->context_id(), "a");
  EXPECT_EQ(future->state(), FutureState::running);
  EXPECT_EQ(future->try_get(), std::nullopt);
  EXPECT_FALSE(future->cancel());
  EXPECT_EQ(future->wait(1000000), std::nullopt);
  EXPECT_EQ(controller.context_stats(*context).state, ContextState::running);
  fake.defer(false);
  const KernelResult result = *future->wait();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(result.success);
  EXPECT_GE(result.exec_time, 0);
  EXPECT_EQ(result.output, "bytes");
  EXPECT_EQ(future->state(), FutureState::completed);

  auto bad = context->dispatch([]() -> std::optional<std::string> { throw Error("no such kernel"); });
  EXPECT_EQ(bad->state(), FutureState::failed);
  EXPECT_EQ(bad->wait()->error, "no such kernel");
  const AsyncExecStats stats = context->async_stats();
  EXPECT_EQ(stats.total_dispatched, 2);
  EXPECT_EQ(stats.completed_count, 1);
  EXPECT_EQ(stats.failed_count, 1);
}

TEST_F(ControllerTest, FuturesDrivenByMarks) {
  auto context = controller.create_context("a");
  auto one = context->dispatch(), two = context->dispatch(), three = context->dispatch();
  EXPECT_EQ(context->pending_futures(), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_TRUE(one->mark_launched());
  EXPECT_FALSE(one->mark_launched());
  EXPECT_FALSE(one->cancel());
  std::thread other([&] { one->complete(0.5); });
  EXPECT_TRUE(one->wait()->success);
  other.join();
  EXPECT_DOUBLE_EQ(one->exec_time(), 0.5);
  EXPECT_FALSE(one->fail("late"));
  EXPECT_TRUE(two->cancel());
  EXPECT_EQ(two->wait()->error, "cancelled before it was launched");
  auto four = context->dispatch();
  EXPECT_TRUE(four->mark_launched());
  EXPECT_TRUE(controller.destroy_context("a"));  // nobody will launch the third, nor end the fourth
  EXPECT_EQ(three->state(), FutureState::cancelled);
  EXPECT_EQ(four->state(), FutureState::failed);
  EXPECT_NE(four->wait()->error.find("context 'a' was destroyed"), std::string::npos);
}

TEST_F(ControllerTest, FuturesLongOverAreForgotten) {
  auto context = controller.create_context("a");
  for (int i = 0; i < 2000; ++i) context->dispatch()->complete(0.001);
  EXPECT_EQ(context->async_stats().completed_count, 2000);
  EXPECT_NEAR(context->async_stats().avg_exec_time, 0.001, 1e-9);
  EXPECT_THROW(context->future(1), ArgumentError);
  EXPECT_NO_THROW(context->future(2000));
}

TEST(LaunchExtent, CoversTheElements) {
  EXPECT_EQ(LaunchExtent::linear(1000, 256).grid[0], 4u);
  EXPECT_EQ(LaunchExtent::linear(0, 128).grid[0], 1u);
  EXPECT_EQ(LaunchExtent::linear(1, 128).block[0], 128u);
  EXPECT_THROW(LaunchExtent::linear(-1, 256), ArgumentError);
  EXPECT_THROW(LaunchExtent::linear(1, 0), ArgumentError);
}

}  // namespace
}  // namespace gpukit::scheduler
