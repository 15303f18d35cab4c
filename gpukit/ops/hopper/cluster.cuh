// Clusters of blocks that share k and add up what they have. On chips without clusters the first block of each would-be
// cluster does all the work and the others leave.
#pragma once
#include "gpukit/ops/common/types.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GPUKIT_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define GPUKIT_CLUSTER(blocks)
#endif

namespace gpukit {

/// How many of a cluster's blocks work.
template <int kBlocks>
GPUKIT_DEVICE constexpr int working_blocks() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  return 1;
#else
  return kBlocks;
#endif
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/// Where block `block` of the cluster has what this one has at `shared`.
GPUKIT_DEVICE uint32_t in_block(uint32_t shared, int block) {
  uint32_t at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared), "r"(block));
  return at;
}
/// Arrives at a barrier of another block (in_block), or of this one.
GPUKIT_DEVICE void arrive_in_block(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Stores at `at`, and counts the bytes at `barrier`, both in one block, when they are there.
GPUKIT_DEVICE void send_to_block(uint32_t at, float first, float second, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(at),
               "f"(first), "f"(second), "r"(barrier)
               : "memory");
}
GPUKIT_DEVICE void send_to_block(uint32_t at, float first, float second, float third, float fourth, uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
               "f"(first), "f"(second), "f"(third), "f"(fourth), "r"(barrier)
               : "memory");
}
/// The same with bytes of this block's shared memory, a multiple of 16: faster, where there are many.
GPUKIT_DEVICE void send_to_block(uint32_t to, uint32_t from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
/// Waits for what other blocks send.
GPUKIT_DEVICE void wait_for_blocks(uint32_t barrier, int phase) {
  asm volatile(
      "{\n.reg .pred done;\nWAIT%=:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@done "
      "bra DONE%=;\nbra WAIT%=;\nDONE%=:\n}" ::"r"(barrier),
      "r"(phase)
      : "memory");
}
/// Comes by, for wait_cluster. Others see what this thread wrote before only if they are barriers that it published.
GPUKIT_DEVICE void meet_cluster() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
/// The two halves of sync_cluster. The first waits until all memory has what this thread wrote: a microsecond.
GPUKIT_DEVICE void arrive_cluster() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
GPUKIT_DEVICE void wait_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
#endif

/// What block `block` of the cluster has in its shared memory at the place of `p` in this one's.
GPUKIT_DEVICE float load_from_block(const float* p, int block) {
  float v;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const uint32_t at = in_block(static_cast<uint32_t>(__cvta_generic_to_shared(p)), block);
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
#else
  v = *p;
#endif
  return v;
}

/// Every thread of the cluster arrives, and sees what the others wrote to shared memory before.
template <int kBlocks>
GPUKIT_DEVICE void sync_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (kBlocks > 1) {
    arrive_cluster();
    wait_cluster();
    return;
  }
#endif
  __syncthreads();
}

}  // namespace gpukit
