// Time as an argument, so that schedules can be tested without waiting.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>

namespace gpukit {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds from an arbitrary start; never goes back.
  virtual int64_t now_ns() const = 0;
  virtual void sleep_ns(int64_t duration) = 0;

  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  /// Gives `lock` up until `condition` is notified or now_ns() reaches `until_ns`. May return early, so callers loop.
  virtual void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, int64_t until_ns);
};

/// The machine's monotonic clock.
Clock& real_clock();

/// Moves only when told. Sleeping moves it; a wait with a limit ends when another thread has moved it that far, or,
/// with `waits_move`, moves it there itself: for one thread that plays a whole schedule.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(int64_t start_ns = 0, bool waits_move = false) : now_(start_ns), waits_move_(waits_move) {}
  int64_t now_ns() const override { return now_.load(std::memory_order_acquire); }
  void sleep_ns(int64_t duration) override {
    if (duration > 0) advance_ns(duration);
  }
  void advance_ns(int64_t duration) { now_.fetch_add(duration, std::memory_order_acq_rel); }
  void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, int64_t until_ns) override;

 private:
  std::atomic<int64_t> now_;
  const bool waits_move_;
};

}  // namespace gpukit
