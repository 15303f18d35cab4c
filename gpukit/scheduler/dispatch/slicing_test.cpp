#include "gpukit/scheduler/dispatch/slicing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit::scheduler {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr Extent3 kBlock{256, 1, 1};

TEST(SliceScheduler, CutsWithinItsLimits) {
  SliceScheduler slices({.max_items_per_slice = 100, .min_slices = 2, .max_slices = 8});
  EXPECT_EQ(slices.submit(1, 1000, kBlock, 0), 8);
  EXPECT_EQ(slices.submit(1, 350, kBlock, 0), 4);
  EXPECT_EQ(slices.submit(1, 10, kBlock, 0), 2);
  EXPECT_EQ(slices.submit(1, 1, kBlock, 0), 1);
  EXPECT_EQ(slices.submit(1, 0, kBlock, 0), 0);
  EXPECT_EQ(slices.pending_slices(), 15);
  EXPECT_EQ(slices.pending_kernels(), 4);
  EXPECT_THROW(slices.submit(1, -1, kBlock, 0), ArgumentError);
  EXPECT_THROW(slices.submit(1, 1, {0, 1, 1}, 0), ArgumentError);
  EXPECT_THROW(SliceScheduler({.max_items_per_slice = 0}), ArgumentError);
  EXPECT_THROW(SliceScheduler({.min_slices = 3, .max_slices = 2}), ArgumentError);
}

TEST(SliceScheduler, HandsOutInTurnAndCoversEverything) {
  SliceScheduler slices({.max_items_per_slice = 100, .adaptive = false});
  slices.submit(1, 250, kBlock, 16);
  slices.submit(2, 200, kBlock, 0, "task", 0);
  std::vector<uint64_t> order;
  int64_t next[3] = {0, 0, 0};
  while (auto slice = slices.get_next_slice()) {
    order.push_back(slice->kernel_handle);
    EXPECT_EQ(slice->offset, next[slice->kernel_handle]);
    next[slice->kernel_handle] += slice->count;
    EXPECT_EQ(slice->grid[0], (slice->count + 255) / 256);
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 1, 2, 1}));
  EXPECT_EQ(next[1], 250);
  EXPECT_EQ(next[2], 200);
  EXPECT_EQ(slices.slices(2).size(), 2u);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(slices.complete_slice(5.0));
  EXPECT_FALSE(slices.complete_slice(5.0));
  const SliceStats stats = slices.stats();
  EXPECT_EQ(stats.completed_slices, 5);
  EXPECT_EQ(stats.completed_kernels, 2);
  EXPECT_EQ(stats.pending_slices + stats.pending_kernels, 0);
}

TEST(SliceScheduler, HigherPriorityFirst) {
  SliceScheduler slices({.max_items_per_slice = 10});
  slices.submit(1, 20, kBlock, 0);
  slices.submit(2, 20, kBlock, 0, std::nullopt, 3);
  std::vector<uint64_t> order;
  while (auto slice = slices.get_next_slice()) order.push_back(slice->kernel_handle);
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 2, 1, 1}));
}

TEST(SliceScheduler, LongSlicesMakeShorterOnes) {
  SliceScheduler slices({.max_items_per_slice = 1000, .max_duration_ms = 1});
  EXPECT_EQ(slices.submit(1, 4000, kBlock, 0), 4);
  EXPECT_EQ(slices.get_next_slice()->count, 1000);
  slices.complete_slice(4.0);  // 250 items in a millisecond
  EXPECT_EQ(slices.pending_slices(), 12);
  int64_t covered = 1000;
  while (auto slice = slices.get_next_slice()) {
    EXPECT_EQ(slice->count, 250);
    covered += slice->count;
    slices.complete_slice(1.0);
  }
  EXPECT_EQ(covered, 4000);
  EXPECT_EQ(slices.submit(1, 1000, kBlock, 0), 4);  // remembered
  slices.clear();
  EXPECT_EQ(slices.pending_slices(), 0);
}

/// Work of the CPU that takes `us` for each item.
class SlicedTest : public ::testing::Test {
 protected:
  std::function<void(int64_t, int64_t)> launch(double us_per_item) {
    return [this, us_per_item](int64_t offset, int64_t count) {
      EXPECT_EQ(offset, covered_);
      covered_ += count;
      counts_.push_back(count);
      runtime::run_host("items", kCpu, std::span<const memory::Use>(), [=](void* const*) {
        const int64_t end =
            real_clock().now_ns() + static_cast<int64_t>(us_per_item * 1e3 * static_cast<double>(count));
        while (real_clock().now_ns() < end) {
        }
      });
    };
  }
  std::shared_ptr<driver::Stream> stream_ = runtime::open_device(kCpu).default_stream;
  int64_t covered_ = 0;
  std::vector<int64_t> counts_;
};

TEST_F(SlicedTest, SlicesTakeNoLongerThanAskedFor) {
  SliceRate rate;
  const SliceConfig config{.max_items_per_slice = 100'000, .max_duration_ms = 2.0, .max_slices = 4};
  SlicedRun run = run_sliced(stream_, 10'000, config, launch(2.0), &rate);  // 20 ms in all
  EXPECT_EQ(covered_, 10'000);
  EXPECT_GE(run.slices, 10);
  EXPECT_GT(rate.items_per_ms.load(), 50);
  // What was learned is used at once.
  covered_ = 0;
  counts_.clear();
  run = run_sliced(stream_, 10'000, config, launch(2.0), &rate);
  EXPECT_EQ(covered_, 10'000);
  EXPECT_LE(counts_.front(), 1000);
  EXPECT_GE(counts_.front(), 50);
}

TEST_F(SlicedTest, QuickWorkIsCutByItems) {
  const SlicedRun run =
      run_sliced(stream_, 1'000'000, {.max_items_per_slice = 200'000, .max_duration_ms = 1000}, launch(0));
  EXPECT_EQ(covered_, 1'000'000);
  EXPECT_LE(*std::max_element(counts_.begin(), counts_.end()), 200'000);
  EXPECT_GE(run.slices, 5);
  EXPECT_EQ(run_sliced(stream_, 0, {}, launch(0)).slices, 0);
  EXPECT_THROW(run_sliced(stream_, -1, {}, launch(0)), ArgumentError);
}

TEST_F(SlicedTest, NotAdaptiveMeansEqualSlices) {
  run_sliced(stream_, 1000, {.max_items_per_slice = 300, .adaptive = false}, launch(0));
  EXPECT_EQ(counts_, (std::vector<int64_t>{250, 250, 250, 250}));
}

TEST_F(SlicedTest, ACaptureTakesEqualSlices) {
  runtime::Graph graph(kCpu);
  const runtime::Session session = runtime::Session().with_stream(graph.stream());
  const runtime::SessionGuard guard(session);
  graph.begin_capture();
  run_sliced(graph.stream(), 10, {.max_items_per_slice = 5}, launch(0));
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 2);
}

TEST_F(SlicedTest, TheRecordNamesEachSlice) {
  DispatchController controller;
  controller.attach(stream_);
  run_sliced(stream_, 10, {.max_items_per_slice = 4, .adaptive = false}, launch(0));
  {
    const LaunchNote note("unsliced");
    launch(0)(10, 1);
  }
  controller.detach(stream_);
  const auto records = controller.records();
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0].note, "slice 0 at 0");
  EXPECT_EQ(records[1].note, "slice 1 at 4");
  EXPECT_EQ(records[3].note, "unsliced");
}

}  // namespace
}  // namespace gpukit::scheduler
