// One pool of worker threads for the CPU backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace gpukit {

/// Threads used by parallel_for, the caller included: PYGPUKIT_NUM_THREADS, else the machine's.
int num_threads();
/// 0 restores the default. Throws ArgumentError for less.
void set_num_threads(int count);

/// Work of this thread that may be ended early. While one lives, parallel_for and work_wanted on the thread that made
/// it call `check` about every 50 ms. What that throws ends the work: all that is left is skipped, its result is
/// garbage, and rethrow() throws it again.
class Interruptible {
 public:
  explicit Interruptible(void (*check)()) noexcept;
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  void rethrow() {
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  /// On the thread that made it: looks at the clock and calls `check` when it is time. False: the work has ended.
  bool look() noexcept;
  bool wanted() const { return !ended_.load(std::memory_order_relaxed); }

 private:
  void (*const check_)();
  Interruptible* const outer_;
  int64_t checked_ns_ = 0;  // 0: not looked at the clock yet
  std::atomic<bool> ended_{false};
  std::exception_ptr error_;
};

/// For loops inside one index of parallel_for that may take long: to be called every few thousand elements. False:
/// leave, nobody wants the result.
bool work_wanted() noexcept;

namespace detail {
using RangeFunction = void (*)(void* context, int64_t begin, int64_t end);
void parallel_for(int64_t size, int64_t grain, RangeFunction function, void* context);
}  // namespace detail

/// Calls f(begin, end) over disjoint ranges that cover [0, size). The cuts are multiples of `grain` and depend on size
/// and grain alone, never on the number of threads. Runs inline when one range suffices or inside another parallel_for.
/// `f` must not throw.
template <typename F>
void parallel_for(int64_t size, int64_t grain, F&& f) {
  if (size <= 0) return;
  if (size <= grain) {
    f(int64_t{0}, size);
    return;
  }
  detail::parallel_for(
      size, grain,
      [](void* context, int64_t begin, int64_t end) {
        (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace gpukit
