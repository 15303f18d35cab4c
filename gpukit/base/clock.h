// Time as an argument, so that schedules can be tested without waiting.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpukit {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds from an arbitrary start; never goes back.
  virtual int64_t now_ns() const = 0;
  virtual void sleep_ns(int64_t duration) = 0;
};

/// The machine's monotonic clock.
Clock& real_clock();

/// Moves only when told. Sleeping moves it.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(int64_t start_ns = 0) : now_(start_ns) {}
  int64_t now_ns() const override { return now_.load(std::memory_order_acquire); }
  void sleep_ns(int64_t duration) override {
    if (duration > 0) advance_ns(duration);
  }
  void advance_ns(int64_t duration) { now_.fetch_add(duration, std::memory_order_acq_rel); }

 private:
  std::atomic<int64_t> now_;
};

}  // namespace gpukit
