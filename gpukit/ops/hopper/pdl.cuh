// A kernel that starts while the one before it on the stream still runs (LaunchConfig::overlaps; sm_90 and later).
//
// All its threads call wait_for_previous() before they read or write memory: until then they may only ask the L2 for
// what they will read. Its blocks start where those of the kernel before have left room. So a block should take a
// whole multiprocessor, or its even share of one: of smaller ones, more would start on the first that has room.
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

}  // namespace gpukit
