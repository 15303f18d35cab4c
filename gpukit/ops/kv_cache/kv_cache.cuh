// store_tokens: one block per token, its threads over heads and dims. T stands for any type of its size. Of tokens
// for the same slot the last one stays.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/kv_cache/store_params.cuh"

namespace gpukit {

template <typename T>
__global__ void __launch_bounds__(256) store_tokens(T* cache, const T* __restrict__ tokens, const int32_t* slots,
                                                    Fault* fault, const __grid_constant__ StoreParams p) {
  const int64_t limit = p.pages * p.page_size;
  for (int64_t token = blockIdx.x; token < p.tokens; token += gridDim.x) {
    const int64_t slot = p.sequential != 0 ? slots[0] + token : slots[token * p.slot_step];
    if (slot == -1 && p.sequential == 0) continue;
    if (slot < 0 || slot >= limit) {
      if (threadIdx.x == 0) note_fault(fault, p.fault_op, slot, limit);
      continue;
    }
    bool later = false;
    if (p.sequential == 0)
      for (int64_t i = token + 1 + threadIdx.x; i < p.tokens; i += blockDim.x)
        later = later || slots[i * p.slot_step] == slot;
    if (__syncthreads_or(later)) continue;
    T* to = cache + slot / p.page_size * p.page + slot % p.page_size * p.slot;
    const T* from = tokens + token * p.from_token;
    for (int64_t i = threadIdx.x; i < p.heads * p.dim; i += blockDim.x) {
      const int64_t head = i / p.dim, at = i % p.dim;
      to[head * p.head + at * p.step] = from[head * p.from_head + at * p.from_step];
    }
  }
}

}  // namespace gpukit
