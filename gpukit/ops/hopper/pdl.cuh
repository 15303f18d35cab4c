// A kernel that starts while the one before it on the stream still runs (LaunchConfig::overlaps; sm_90 and later).
//
// All its threads call wait_for_previous() before they read or write memory: until then they may only ask the L2 for
// what they will read. None of it is read as constant, by __restrict__ or __ldg. Its blocks start where those of
// the kernel before have left room. So a block should take a whole multiprocessor, or its even share of one: of smaller
// ones, more would start on the first that has room.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// The kernel after this one may start when all blocks have come here.
GPUKIT_DEVICE void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Waits until the kernels before have ended, and all that they wrote can be read.
GPUKIT_DEVICE void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The first statement of a kernel that has nothing to do beforehand: it saves the time of a launch.
GPUKIT_DEVICE void start_in_turn() {
  let_next_start();
  wait_for_previous();
}

/// Asks for the first of `bytes` to be in the L2 soon, where the chip can be asked.
GPUKIT_DEVICE void prefetch_rows([[maybe_unused]] const void* from, [[maybe_unused]] int64_t bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  constexpr int64_t kMost = 32768;
  if (bytes > 0)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(static_cast<int>(min(bytes, kMost)))
                 : "memory");
#endif
}

}  // namespace gpukit
