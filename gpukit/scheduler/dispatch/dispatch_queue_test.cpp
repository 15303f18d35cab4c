#include "gpukit/scheduler/dispatch/dispatch_queue.h"

#include <gtest/gtest.h>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

std::vector<uint64_t> ids(const std::vector<KernelLaunchRequest>& requests) {
  std::vector<uint64_t> list;
  for (const auto& request : requests) list.push_back(request.id);
  return list;
}
using Ids = std::vector<uint64_t>;

LaunchConfig on_stream(int64_t stream) {
  LaunchConfig config;
  config.stream_id = stream;
  return config;
}

TEST(LaunchConfig, CountsBlocks) {
  EXPECT_EQ(LaunchConfig::linear(1025).grid, (Extent3{5, 1, 1}));
  EXPECT_EQ(LaunchConfig::linear(0, 128).grid, (Extent3{1, 1, 1}));
  EXPECT_EQ(LaunchConfig::linear(128, 128).grid, (Extent3{1, 1, 1}));
  EXPECT_EQ(LaunchConfig::grid_2d(3, 4, 16, 8).block, (Extent3{16, 8, 1}));
  EXPECT_THROW(LaunchConfig::linear(1, 0), ArgumentError);
  EXPECT_THROW(LaunchConfig({0, 1, 1}, {1, 1, 1}, 0, 0), ArgumentError);
  EXPECT_THROW(LaunchConfig({1, 1, 1}, {1, 1, 1}, -1, 0), ArgumentError);
}

TEST(KernelDispatcher, ReadyByPriorityThenOrderWithinTheLimitOfEachStream) {
  KernelDispatcher dispatcher(2);
  for (int i = 0; i < 3; ++i) dispatcher.queue(1, on_stream(0));
  dispatcher.queue(1, on_stream(1), {}, std::nullopt, 5);
  dispatcher.queue(1, on_stream(1));
  EXPECT_EQ(ids(dispatcher.get_ready(100)), (Ids{3, 0, 1, 4}));
  EXPECT_EQ(ids(dispatcher.get_ready(2)), (Ids{3, 0}));
  EXPECT_TRUE(dispatcher.get_ready(0).empty());
  EXPECT_TRUE(dispatcher.mark_launched(0));
  EXPECT_TRUE(dispatcher.mark_launched(1));
  EXPECT_FALSE(dispatcher.mark_launched(2));  // its stream is full
  EXPECT_EQ(ids(dispatcher.get_ready(100)), (Ids{3, 4}));
  EXPECT_EQ(ids(dispatcher.get_in_flight(0)), (Ids{0, 1}));
  EXPECT_TRUE(dispatcher.mark_completed(0));
  EXPECT_EQ(ids(dispatcher.get_ready(100)), (Ids{3, 2, 4}));
}

TEST(KernelDispatcher, RefusesIllegalTransitions) {
  KernelDispatcher dispatcher;
  const uint64_t id = dispatcher.queue(7, {});
  EXPECT_FALSE(dispatcher.mark_completed(id));
  EXPECT_TRUE(dispatcher.mark_launched(id));
  EXPECT_FALSE(dispatcher.mark_launched(id));
  EXPECT_FALSE(dispatcher.cancel(id));
  EXPECT_TRUE(dispatcher.mark_failed(id, "broke"));
  EXPECT_EQ(dispatcher.get_request(id)->error, "broke");
  for (bool again : {dispatcher.mark_completed(id), dispatcher.mark_failed(id, ""), dispatcher.cancel(id),
                     dispatcher.mark_launched(id), dispatcher.mark_launched(99)})
    EXPECT_FALSE(again);
  EXPECT_TRUE(dispatcher.cancel(dispatcher.queue(7, {})));
  EXPECT_FALSE(dispatcher.has_pending_work());
  EXPECT_THROW(KernelDispatcher(0), ArgumentError);
}

TEST(KernelDispatcher, TimesCountsAndCollection) {
  VirtualClock clock(1'000'000'000);
  KernelDispatcher dispatcher(4, clock);
  const uint64_t a = dispatcher.queue(7, on_stream(3), {1, 2}, "task");
  const uint64_t b = dispatcher.queue(8, on_stream(3), {}, "task");
  EXPECT_EQ(ids(dispatcher.get_requests_for_task("task")), (Ids{a, b}));
  EXPECT_FALSE(dispatcher.get_request(a)->duration().has_value());
  dispatcher.mark_launched(a);
  clock.advance_ns(250'000'000);
  dispatcher.mark_completed(a);
  EXPECT_DOUBLE_EQ(*dispatcher.get_request(a)->duration(), 0.25);
  EXPECT_DOUBLE_EQ(dispatcher.get_request(a)->queued_at, 1.0);
  const DispatchStats stats = dispatcher.stats();
  EXPECT_EQ(stats.total_queued, 2);
  EXPECT_EQ(stats.completed_count, 1);
  EXPECT_EQ(stats.pending_count, 1);
  EXPECT_DOUBLE_EQ(stats.avg_exec_time, 0.25);
  EXPECT_EQ(stats.launches_per_stream.at(3), 1);
  EXPECT_EQ(dispatcher.gc(), 1);
  EXPECT_FALSE(dispatcher.get_request(a).has_value());
  EXPECT_EQ(ids(dispatcher.get_requests_for_task("task")), (Ids{b}));
  EXPECT_EQ(dispatcher.stats().completed_count, 1);
  dispatcher.clear();
  EXPECT_EQ(dispatcher.stats().total_queued, 0);
  EXPECT_FALSE(dispatcher.has_pending_work());
}

}  // namespace
}  // namespace gpukit::scheduler
