#include "gpukit/base/thread.h"

#include <atomic>
#include <string>
#include <system_error>
#include <utility>

#include "gpukit/base/error.h"
#ifdef __linux__
#include <sys/prctl.h>
#endif
#ifndef _WIN32
#include <pthread.h>
#include <signal.h>
#endif

namespace gpukit {
namespace {

std::atomic<int> g_failures{0};

bool must_fail() {
  int left = g_failures.load(std::memory_order_relaxed);
  while (left > 0)
    if (g_failures.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) return true;
  return false;
}

/// A new thread inherits the mask of the one that starts it.
class SignalsBlocked {
 public:
#ifdef _WIN32
  SignalsBlocked() = default;
#else
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_;
#endif
};

}  // namespace

std::thread start_thread(std::function<void()> body) {
  try {
    if (must_fail()) throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    [[maybe_unused]] const SignalsBlocked blocked;
    return std::thread(std::move(body));
  } catch (const std::system_error& error) {
    throw Error(std::string("a thread could not be started: ") + error.what());
  }
}

void wake_on_time() noexcept {
#ifdef __linux__
  constexpr unsigned long kSlackNs = 1000;
  prctl(PR_SET_TIMERSLACK, kSlackNs, 0, 0, 0);
#endif
}

void fail_thread_starts(int count) { g_failures.store(count, std::memory_order_relaxed); }

}  // namespace gpukit
