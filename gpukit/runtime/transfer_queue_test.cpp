#include "gpukit/runtime/transfer_queue.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpukit/base/error.h"

namespace gpukit::runtime {
namespace {

std::vector<uint64_t> ids(const std::vector<TransferRecord>& records) {
  std::vector<uint64_t> list;
  for (const auto& record : records) list.push_back(record.id);
  return list;
}

using Ids = std::vector<uint64_t>;

TEST(TransferQueue, ReadyOnesComeByTypeThenPriorityThenOrder) {
  TransferQueue queue(100);
  uint64_t d2d = queue.enqueue(TransferType::d2d, 1, 2, 8, 9);
  uint64_t out = queue.enqueue(TransferType::d2h, 1, 2, 8, 9);
  uint64_t low = queue.enqueue(TransferType::h2d, 1, 2, 8, -1);
  uint64_t first = queue.enqueue(TransferType::h2d, 1, 2, 8);
  uint64_t second = queue.enqueue(TransferType::h2d, 1, 2, 8);
  uint64_t urgent = queue.enqueue(TransferType::h2d, 1, 2, 8, 5);
  EXPECT_EQ(d2d, 0u);
  EXPECT_EQ(ids(queue.take_ready(3)), (Ids{urgent, first, second}));
  EXPECT_EQ(ids(queue.take_ready(10)), (Ids{low, out, d2d}));
  EXPECT_TRUE(queue.take_ready(10).empty());
}

TEST(TransferQueue, InFlightLimitHoldsAndEveryEndGivesItsPlaceBack) {
  TransferQueue queue(2);
  for (int i = 0; i < 6; ++i) queue.enqueue(TransferType::h2d, 0, 0, 1);
  EXPECT_EQ(ids(queue.take_ready(10)), (Ids{0, 1}));
  EXPECT_FALSE(queue.start(2));
  EXPECT_TRUE(queue.complete(0));
  EXPECT_EQ(ids(queue.take_ready(10)), (Ids{2}));
  EXPECT_TRUE(queue.cancel(1));
  EXPECT_TRUE(queue.start(3));
  EXPECT_TRUE(queue.fail(2, "lost"));
  EXPECT_EQ(ids(queue.take_ready(10)), (Ids{4}));
  EXPECT_TRUE(queue.cancel(5));  // never started
  EXPECT_TRUE(queue.take_ready(10).empty());
  TransferStats stats = queue.stats();
  EXPECT_EQ(stats.total_queued, 6);
  EXPECT_EQ(stats.completed_count, 1);
  EXPECT_EQ(stats.failed_count, 1);
  EXPECT_EQ(stats.cancelled_count, 2);
  EXPECT_EQ(stats.pending_count, 0);
  EXPECT_EQ(stats.in_progress_count, 2);
}

TEST(TransferQueue, IllegalChangesAreRefused) {
  TransferQueue queue;
  EXPECT_FALSE(queue.start(7));
  uint64_t id = queue.enqueue(TransferType::d2h, 0, 0, 1);
  EXPECT_FALSE(queue.complete(id));  // not started
  EXPECT_TRUE(queue.start(id));
  EXPECT_FALSE(queue.start(id));
  EXPECT_TRUE(queue.complete(id));
  EXPECT_FALSE(queue.complete(id));
  EXPECT_FALSE(queue.cancel(id));
  EXPECT_FALSE(queue.fail(id, "late"));
  EXPECT_EQ(queue.find(id)->state, TransferState::completed);
  EXPECT_EQ(queue.collect(), 1);
  EXPECT_FALSE(queue.find(id));
  EXPECT_THROW(TransferQueue(0), ArgumentError);
  EXPECT_THROW(to_transfer_type("op", "h2x"), ArgumentError);
  EXPECT_EQ(to_transfer_type("op", "d2H"), TransferType::d2h);
}

TEST(TransferQueue, TimesAndRatesFollowTheClock) {
  VirtualClock clock(1000);
  TransferQueue queue(4, clock);
  uint64_t id = queue.enqueue(TransferType::h2d, 0, 0, 4000);
  EXPECT_FALSE(queue.find(id)->wait_ns());
  clock.advance_ns(500);
  queue.start(id);
  EXPECT_EQ(queue.find(id)->wait_ns(), 500);
  EXPECT_FALSE(queue.find(id)->duration_ns());
  clock.advance_ns(2000);
  queue.complete(id);
  EXPECT_EQ(queue.find(id)->duration_ns(), 2000);
  EXPECT_DOUBLE_EQ(queue.find(id)->gigabytes_per_second().value(), 2.0);
  EXPECT_DOUBLE_EQ(queue.stats().h2d_gigabytes_per_second(), 2.0);
  EXPECT_DOUBLE_EQ(queue.stats().d2h_gigabytes_per_second(), 0.0);
  EXPECT_EQ(queue.stats().h2d_bytes, 4000);
}

TEST(TransferQueue, ListsByStreamAndClears) {
  TransferQueue queue;
  queue.enqueue(TransferType::h2d, 0, 0, 1);
  queue.enqueue(TransferType::d2h, 0, 0, 1);
  EXPECT_TRUE(queue.has_pending_work());
  queue.take_ready(2);
  EXPECT_EQ(ids(queue.in_progress_of(1)), (Ids{0}));
  EXPECT_EQ(ids(queue.in_progress_of(2)), (Ids{1}));
  EXPECT_TRUE(queue.in_progress_of(0).empty());
  queue.clear();
  EXPECT_FALSE(queue.has_pending_work());
  EXPECT_EQ(queue.enqueue(TransferType::h2d, 0, 0, 1), 2u);
  EXPECT_EQ(queue.take_ready(9).size(), 1u);
}

TEST(TransferQueue, ManyThreadsLoseNothing) {
  TransferQueue queue(8);
  std::atomic<int> done{0};
  auto work = [&] {
    for (int i = 0; i < 300; ++i) {
      uint64_t id = queue.enqueue(TransferType::h2d, 0, 0, 1, i % 5);
      if (i % 7 == 0) queue.cancel(id);
      for (const auto& record : queue.take_ready(2)) done += queue.complete(record.id);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (auto& thread : threads) thread.join();
  while (true) {
    auto left = queue.take_ready(8);
    if (left.empty()) break;
    for (const auto& record : left) done += queue.complete(record.id);
  }
  TransferStats stats = queue.stats();
  EXPECT_EQ(stats.completed_count, done);
  EXPECT_EQ(stats.completed_count + stats.cancelled_count, 1200);
  EXPECT_FALSE(queue.has_pending_work());
}

}  // namespace
}  // namespace gpukit::runtime
