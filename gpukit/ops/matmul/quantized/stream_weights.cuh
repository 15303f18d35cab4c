// Copies to shared memory: of weights, which are read once, and of what all blocks read.
#pragma once
#include "gpukit/ops/common/mma.cuh"

namespace gpukit {

/// What the copies of weights tell the L2: that these are read once, so that x and the code stay there.
GPUKIT_DEVICE uint64_t streamed_policy() {
  uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// Copies 16 aligned bytes if they are `inside`.
GPUKIT_DEVICE void copy_streamed_if(bool inside, uint32_t shared, const void* global, uint64_t policy) {
  asm volatile(
      "{\n.reg .pred inside;\nsetp.ne.b32 inside, %2, 0;\n"
      "@inside cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %3;\n}" ::"r"(shared),
      "l"(global), "r"(static_cast<int>(inside)), "l"(policy)
      : "memory");
}
/// Copies the first `bytes` (0 to 16) of 16 aligned bytes that other blocks read as well, and fills the rest with
/// zeros.
GPUKIT_DEVICE void copy_cached_async(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
}  // namespace gpukit
