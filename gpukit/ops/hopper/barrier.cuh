// Barriers of sm_90: mbarriers in shared memory, which count arrivals and bytes of copies, and named barriers. One
// instruction a function.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

GPUKIT_DEVICE void barrier_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
/// Makes initialised barriers visible to the copy engine.
GPUKIT_DEVICE void barrier_publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
GPUKIT_DEVICE void barrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and makes the phase wait for `bytes` of copies as well.
GPUKIT_DEVICE void barrier_expect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
GPUKIT_DEVICE void barrier_wait(uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra "
      "DONE%=;\nbra WAIT%=;\nDONE%=:\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
/// Waits for the `threads` threads that name the same barrier `id` (1 to 15).
GPUKIT_DEVICE void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Counts as one of them without waiting.
GPUKIT_DEVICE void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace gpukit
