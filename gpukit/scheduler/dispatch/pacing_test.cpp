#include "gpukit/scheduler/dispatch/pacing.h"

#include <gtest/gtest.h>

#include <cmath>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(Pacing, BandwidthsAddUpToTheTotal) {
  VirtualClock clock;
  KernelPacingEngine engine({}, clock);
  EXPECT_TRUE(engine.allocate_stream(0, 0.1));
  EXPECT_TRUE(engine.allocate_stream(1, 0.2));
  EXPECT_TRUE(engine.allocate_stream(2, 0.7));
  EXPECT_FALSE(engine.allocate_stream(3, 0.01));
  EXPECT_TRUE(engine.allocate_stream(2, 0.6));  // replaces its own
  EXPECT_TRUE(engine.allocate_stream(3, 0.1));
  EXPECT_THROW(engine.allocate_stream(4, 0), ArgumentError);
  EXPECT_THROW(engine.allocate_stream(4, std::nan("")), ArgumentError);
  EXPECT_TRUE(engine.release_stream(0));
  EXPECT_FALSE(engine.release_stream(0));
  const PacingStats stats = engine.stats();
  EXPECT_EQ(stats.stream_count, 3);
  EXPECT_NEAR(stats.used_bandwidth, 0.9, 1e-12);
  EXPECT_NEAR(stats.available_bandwidth, 0.1, 1e-12);
}

TEST(Pacing, WaitsForTheInterval) {
  VirtualClock clock;
  KernelPacingEngine engine({}, clock);
  ASSERT_TRUE(engine.allocate_stream(5, 0.25));
  EXPECT_TRUE(engine.should_launch(5).can_launch());
  engine.record_launch(5);
  PacingDecision decision = engine.should_launch(5);
  EXPECT_FALSE(decision.can_launch());
  EXPECT_STREQ(decision.decision_type(), "Wait");
  EXPECT_NEAR(decision.wait_ms(), 75, 1e-6);
  clock.advance_ns(74 * kMs);
  EXPECT_NEAR(engine.should_launch(5).wait_ms(), 1, 1e-6);
  clock.advance_ns(kMs);
  EXPECT_TRUE(engine.should_launch(5).can_launch());
  EXPECT_EQ(engine.should_launch(5).wait_ms(), 0);
  EXPECT_TRUE(engine.should_launch(99).can_launch());  // has no bandwidth: free
}

TEST(Pacing, ThrottlesWhenTheWindowIsUsedUp) {
  VirtualClock clock;
  KernelPacingEngine engine({.min_interval_ms = 0}, clock);
  ASSERT_TRUE(engine.allocate_stream(1, 1.0));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(engine.should_launch(1).can_launch()) << i;
    engine.record_launch(1);
  }
  const PacingDecision decision = engine.should_launch(1);
  EXPECT_TRUE(decision.is_throttled());
  EXPECT_TRUE(std::isinf(decision.wait_ms()));
  EXPECT_NEAR(decision.retry_ms(), 100, 1e-6);
  EXPECT_STREQ(decision.decision_type(), "Throttle");
  engine.record_throttle(1);
  EXPECT_EQ(engine.stream_stats(1)->launches_in_window, 100);
  EXPECT_EQ(engine.stream_stats(1)->throttled_count, 1);
  clock.advance_ns(100 * kMs);
  EXPECT_TRUE(engine.should_launch(1).can_launch());
  EXPECT_EQ(engine.stream_stats(1)->launches_in_window, 0);
  engine.record_launch(1);
  EXPECT_EQ(engine.stats().total_launches, 101);
  engine.reset();
  EXPECT_EQ(engine.stats().total_launches, 0);
  EXPECT_EQ(engine.stream_stats(1)->bandwidth, 1.0);
  EXPECT_FALSE(engine.stream_stats(2).has_value());
}

TEST(Pacing, FixedWindowsFollowTheEnginesStart) {
  VirtualClock clock;
  KernelPacingEngine engine({.min_interval_ms = 0, .adaptive = false}, clock);
  ASSERT_TRUE(engine.allocate_stream(1, 1.0));
  clock.advance_ns(90 * kMs);
  for (int i = 0; i < 100; ++i) engine.record_launch(1);
  EXPECT_NEAR(engine.should_launch(1).retry_ms(), 10, 1e-6);
}

TEST(Pacing, RefusesAConfigThatMeansNothing) {
  EXPECT_THROW(KernelPacingEngine({.window_ms = 0}), ArgumentError);
  EXPECT_THROW(KernelPacingEngine({.total_bandwidth = -1}), ArgumentError);
  EXPECT_THROW(KernelPacingEngine({.min_interval_ms = -1}), ArgumentError);
}

TEST(TokenBucket, KeepsTheRateForAnySize) {
  for (double size : {1e3, 1e6, 37e6}) {
    TokenBucket bucket(1e9);
    int64_t now = 0;
    double sent = 0;
    while (now < 2'000'000'000) {
      if (int64_t wait = bucket.wait_ns(now); wait > 0) {
        now += wait;
        continue;
      }
      bucket.take(size, now);
      sent += size;
    }
    EXPECT_NEAR(sent / 2, 1e9, 0.03e9) << size;
  }
}

TEST(TokenBucket, NoRateNoWait) {
  TokenBucket bucket;
  bucket.take(1e12, 0);
  EXPECT_EQ(bucket.wait_ns(0), 0);
  bucket.set_rate(1e6, 0);
  bucket.take(1e6, 0);
  EXPECT_NEAR(static_cast<double>(bucket.wait_ns(0)), 1e9, 10);
  bucket.set_rate(2e6, 0);
  EXPECT_NEAR(static_cast<double>(bucket.wait_ns(0)), 5e8, 10);
}

}  // namespace
}  // namespace gpukit::scheduler
