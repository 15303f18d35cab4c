// One pool of worker threads for the CPU backend.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpukit {

/// Threads used by parallel_for, the caller included: PYGPUKIT_NUM_THREADS, else the machine's.
int num_threads();
/// For tests: 0 restores the default.
void set_num_threads(int count);

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
