// Rows in the order of their experts.
#pragma once
#include "gpukit/ops/common/fault.cuh"

namespace gpukit {

// moe_order_by_expert: one block. A thread finds the rows of its expert in ascending order, twice: to count them and to
// place them. Thread `experts` has the rows that go nowhere.
__global__ void __launch_bounds__(1024)
    moe_order_by_expert(int32_t* counts, int32_t* offsets, int32_t* permute, int32_t* reverse, const int32_t* ids,
                        int64_t rows, int32_t experts, Fault* fault, int32_t fault_op) {
  const auto is_mine = [&](int64_t i, int expert) {
    const int32_t id = ids[i];
    return expert == experts ? id < 0 || id >= experts : id == expert;
  };
  for (int expert = threadIdx.x; expert < experts; expert += blockDim.x) {
    int32_t count = 0;
    for (int64_t i = 0; i < rows; ++i) count += is_mine(i, expert) ? 1 : 0;
    counts[expert] = count;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t before = 0;
    for (int expert = 0; expert < experts; ++expert) {
      offsets[expert] = before;
      before += counts[expert];
    }
    offsets[experts] = before;
  }
  __syncthreads();
  for (int expert = threadIdx.x; expert <= experts; expert += blockDim.x) {
    int32_t place = offsets[expert];
    for (int64_t i = 0; i < rows; ++i) {
      if (!is_mine(i, expert)) continue;
      if (expert == experts && ids[i] != -1) note_fault(fault, fault_op, ids[i], experts);
      permute[place] = static_cast<int32_t>(i);
      reverse[i] = place++;
    }
  }
}

// moe_expand_offsets: a thread per row finds the first offset above its place.
__global__ void __launch_bounds__(256)
    moe_expand_offsets(int32_t* ids, const int32_t* offsets, int64_t rows, int32_t count) {
  for (int64_t row = blockIdx.x * 256ll + threadIdx.x; row < rows; row += 256ll * gridDim.x) {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (offsets[middle] > row)
        high = middle;
      else
        low = middle + 1;
    }
    ids[row] = low == count ? -1 : low - 1;
  }
}

}  // namespace gpukit
