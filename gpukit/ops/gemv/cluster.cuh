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

/// What block `block` of the cluster has in its shared memory at the place of `p` in this one's.
GPUKIT_DEVICE float load_from_block(const float* p, int block) {
  float v;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  uint32_t at;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(at)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(p))), "r"(block));
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
    asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}

}  // namespace gpukit
