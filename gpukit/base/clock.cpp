#include "gpukit/base/clock.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"

namespace gpukit {
namespace {

/// Ten days: far from the overflow of a time point.
constexpr int64_t kLongestWait = int64_t{864000} * 1000000000;
/// How often a wait looks whether a clock that notifies nobody has moved.
constexpr std::chrono::milliseconds kLook{1};

class RealClock final : public Clock {
 public:
  int64_t now_ns() const override { return files::monotonic_ns(); }
  void sleep_ns(int64_t duration) override {
    if (duration > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(duration));
  }
  void wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, int64_t until_ns) override {
    if (until_ns == kForever) return condition.wait(lock);
    const int64_t left = until_ns - now_ns();
    if (left > 0) condition.wait_for(lock, std::chrono::nanoseconds(std::min(left, kLongestWait)));
  }
};

}  // namespace

void Clock::wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, int64_t until_ns) {
  if (until_ns == kForever) return condition.wait(lock);
  if (now_ns() < until_ns) condition.wait_for(lock, kLook);
}

void VirtualClock::wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, int64_t until_ns) {
  if (waits_move_ && until_ns != kForever)
    sleep_ns(until_ns - now_ns());
  else
    Clock::wait(condition, lock, until_ns);
}

Clock& real_clock() {
  static RealClock* const leaked = new RealClock;
  return *leaked;
}

namespace {
[[maybe_unused]] const bool g_made_at_load = made_at_load<real_clock>();
}  // namespace

}  // namespace gpukit
