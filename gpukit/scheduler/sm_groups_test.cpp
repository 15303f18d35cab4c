// Green contexts and their streams come again with the sets they belong to: making and destroying leaves nothing.
#include "gpukit/scheduler/partition/sm_groups.h"

#include <gtest/gtest.h>

#include "gpukit/array/array.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/context/controller.h"
#include "gpukit/scheduler/partition/partition_manager.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;
using gpukit::testing::Live;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int64_t kMiB = int64_t{1} << 20;

class SmSets : public ::testing::Test {
 protected:
  SmSets() : guard(session) {
    driver::set_host_sms(132);
    controller.initialize(0, 64 * kMiB, 32 * kMiB);
  }
  ~SmSets() override {
    fake.defer(false);
    controller.reset();
    settle();
    driver::set_host_sms(0);
  }
  void settle() {
    runtime::Waiter::of(kCpu).drain();
    runtime::forget_moved_streams();
  }
  /// One context with a share that computes something in memory of its own.
  void cycle(double share) {
    auto context = controller.create_context("a", {.compute = share});
    {
      SessionScope inside(context->session());
      const Array x = Array::empty({64}, DType::float32, kCpu);
      runtime::run_host("work", kCpu, {}, [this](void* const*) { ++ran; });
    }
    context.reset();
    controller.destroy_context("a");
  }
  /// Calls that made something on the device since the last look.
  int made() {
    const int count = fake.count("cuGreenCtxCreate") + fake.count("cuGreenCtxStreamCreate") +
                      fake.count("cuStreamCreateWithPriority") + fake.count("cuMemCreate") + fake.count("cuMemAlloc");
    fake.clear_calls();
    return count;
  }

  FakeDriver fake;
  runtime::Session session = runtime::Session().with_device(kCpu);
  runtime::SessionGuard guard;
  MultiLLMController controller;
  int ran = 0;
};

TEST_F(SmSets, TwoThousandContextsMakeTheirDriverObjectsOnce) {
  for (int i = 0; i < 4; ++i) cycle(0.25);
  settle();
  const Live before = fake.live();
  made();
  int later = 0;
  for (int i = 0; i < 2000; ++i) {
    cycle(0.25);
    later += made();
  }
  settle();
  EXPECT_EQ(ran, 2004);
  // A stream that is not over yet when the next context comes needs another beside it.
  Live now = fake.live();
  EXPECT_LE(later, 16);
  EXPECT_LE(now.streams, before.streams + later);
  now.streams = before.streams;
  EXPECT_EQ(now, before) << str(now) << "was " << str(before);
}

TEST_F(SmSets, WhatIsKeptForSetsOfAllSizesIsBounded) {
  int most = 0;
  for (int i = 0; i < 400; ++i) {
    cycle(0.05 + 0.0009 * ((i * 37) % 1000));
    if (i % 20 == 0) settle();
    most = std::max(most, fake.live().green);
    fake.clear_calls();
  }
  settle();
  EXPECT_LE(most, 32);
  runtime::open_device(kCpu).resource->trim();  // its fences hold streams
  SmGroups::of(kCpu).forget_idle();
  EXPECT_EQ(fake.live().green, 0);
}

TEST_F(SmSets, AStreamComesBackOnlyWhenItsWorkIsOver) {
  driver::Context& context = runtime::open_device(kCpu).context;
  const driver::SmSplit split(context);
  const int groups[] = {0};
  const Live before = fake.live();
  {
    auto green = std::make_shared<driver::GreenContext>(split, groups);
    auto stream = std::make_shared<driver::Stream>(context, 0, green);
    const driver::StreamHandle first = stream->handle();
    const uint64_t id = stream->id();
    stream.reset();
    stream = std::make_shared<driver::Stream>(context, 0, green);
    EXPECT_EQ(stream->handle(), first);
    EXPECT_NE(stream->id(), id);
    const driver::Stream urgent(context, -1, green);  // another priority is another stream
    EXPECT_NE(urgent.handle(), first);

    fake.queries_run(false);
    fake.defer(true);
    bool over = false;
    context.api().launch_host(
        stream->handle(), [](void* p) { *static_cast<bool*>(p) = true; }, &over);
    stream.reset();
    fake.clear_calls();
    stream = std::make_shared<driver::Stream>(context, 0, green);
    EXPECT_EQ(fake.count("cuGreenCtxStreamCreate"), 1);
    fake.run_all(1);
    EXPECT_TRUE(over);
    fake.defer(false);

    context.api().begin_capture(stream->handle());
    stream.reset();
    fake.clear_calls();
    stream = std::make_shared<driver::Stream>(context, 0, green);
    EXPECT_EQ(fake.count("cuGreenCtxStreamCreate"), 1);
  }
  EXPECT_EQ(fake.live().green, before.green);
  EXPECT_EQ(fake.live().streams, before.streams);
}

TEST_F(SmSets, ASetThatComesAgainRunsOnTheSameSms) {
  PartitionManager manager({}, kCpu);
  manager.create("a", "A", PartitionLimits().compute(0.25));
  auto stream = manager.share("a")->session().stream();
  auto green = [&] { return driver::host_stream_green(runtime::resolve(stream)->handle()); };
  const auto quarter = green();
  std::vector<int> order;
  auto push = [&](int value) {
    SessionScope inside(manager.share("a")->session());
    runtime::run_host("push", kCpu, {}, [&order, value](void* const*) { order.push_back(value); });
  };
  fake.queries_run(false);
  fake.defer(true);
  push(1);
  manager.resize("a", PartitionLimits().compute(0.5));
  push(2);
  EXPECT_NE(green(), quarter);
  manager.resize("a", PartitionLimits().compute(0.25));
  push(3);
  EXPECT_EQ(green(), quarter);
  fake.run_all(9);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  fake.defer(false);
  settle();
  EXPECT_EQ(manager.usage("a").total_kernels, 3);
}

}  // namespace
}  // namespace gpukit::scheduler
