// Who sees that submitted work is over: one thread per device, and the shared state that futures look at.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/driver/objects.h"

namespace gpukit::runtime {

/// Called now and then by a long wait, with no lock held; throws to end the wait (a Python signal handler did).
/// Null removes it.
void set_interrupt_check(void (*check)());
void check_interrupt();

/// Waits for something of the device. Without an interrupt check this is `wait()`, a wait in the driver. With one it
/// asks `over()` instead: first without a pause, so that short work is noticed as soon as the driver would, then
/// between sleeps of a small part of the time waited so far, and lets signals through. `sleep`: no long spinning.
void wait_for_device(const std::function<bool()>& over, const std::function<void()>& wait, bool sleep = false);

/// The end of one piece of work. Shared: whoever does the work ends it once, anyone may look, wait or be called.
class Completion {
 public:
  enum class State : uint8_t { pending, done, failed, cancelled };

  Completion();
  State state() const;
  bool ready() const { return state() != State::pending; }
  /// True when it is over; false when `timeout_ns` of `clock` have passed first (negative: no limit). Lets signals
  /// through. Raises nothing about the work itself: see rethrow.
  bool wait(int64_t timeout_ns = -1, Clock& clock = real_clock()) const;
  /// Throws what fail() was given; Error when cancelled or still pending. Nothing when done.
  void rethrow() const;
  /// What failed, in words; empty unless failed or cancelled.
  std::string error() const;

  /// Calls `callback` once it is over: at once when it already is, else on the thread that ends it. It must not throw.
  void add_callback(std::function<void()> callback);

  // For who does the work. Each says whether it was the one to end it.
  /// `device_us`: what the work took on the device; negative when not measured.
  bool finish(double device_us = -1);
  bool fail(std::exception_ptr why);
  bool fail(int code, const std::string& error_name, const std::string& what);  // as CudaError
  bool cancel(const std::string& why = "cancelled");

  int64_t created_ns() const { return created_ns_; }  // real clock
  int64_t finished_ns() const;                        // 0 while pending
  double device_us() const;                           // negative while unknown

 private:
  bool end(State state, std::exception_ptr why, double device_us);
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  State state_ = State::pending;
  std::exception_ptr why_;
  std::vector<std::function<void()>> callbacks_;
  const int64_t created_ns_;
  int64_t finished_ns_ = 0;
  double device_us_ = -1;
};

/// One thread per device, started at first use. It sleeps while nothing is pending and between looks at the oldest
/// event of each stream, so one long stream delays no other; the looks get rarer the longer an event takes.
class Waiter {
 public:
  /// Gets 0, or the driver's code. Runs on the waiter's thread with no lock held; must not throw nor wait.
  using Callback = std::function<void(int code)>;

  /// The waiter of a device; a forked child gets one of its own.
  static Waiter& of(Device device);

  /// Calls `done` once `event`, already recorded on `stream`, has happened. In order for each stream.
  /// Throws Error when the thread cannot be started or the process is exiting; `done` is not called then.
  void add(const std::shared_ptr<driver::Stream>& stream, std::shared_ptr<driver::Event> event, Callback done);
  /// Waits until everything added so far is over and called back. Not for the waiter's own thread.
  void drain();
  size_t pending() const;

  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

 private:
  struct State;
  explicit Waiter(Device device);
  friend void stop_waiters() noexcept;
  State* state_;  // shared with the thread, never freed
};

/// Ends every waiter's thread, for the end of the process: what is still pending is never called back. Waits a second
/// at most for callbacks that run.
void stop_waiters() noexcept;

/// Over when all work submitted to `stream` so far is. Throws CudaError, Error.
std::shared_ptr<Completion> completion_of(const std::shared_ptr<driver::Stream>& stream);

}  // namespace gpukit::runtime
