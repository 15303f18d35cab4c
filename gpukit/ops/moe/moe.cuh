// Routing of tokens to experts, and what comes back from them. Sums are float32 in a fixed order; a token's result
// depends on that token alone.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/ordered.cuh"
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/moe/moe_space.cuh"

namespace gpukit {

/// The place of a logit among others as one number, the larger the earlier: NaN last, among equal ones the lowest
/// index first.
GPUKIT_DEVICE uint64_t rank_of(float logit, int index) {
  const uint32_t key = logit == logit ? ordered_bits(logit) : 0u;
  return static_cast<uint64_t>(key) << 32 | (0xffffffffu - static_cast<uint32_t>(index));
}

struct LatestRank {
  using Acc = uint64_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE uint64_t identity() { return 0; }
  static GPUKIT_DEVICE uint64_t merge(uint64_t a, uint64_t b) { return a > b ? a : b; }
};

// moe_route: one warp per token. In each turn the lanes find the largest rank below the last one found.
template <typename T>
__global__ void __launch_bounds__(256) moe_route(int32_t* indices, T* values, float* gates, const T* logits,
                                                 const int32_t* ids, const __grid_constant__ RouteSpace s) {
  start_in_turn();
  const int lane = threadIdx.x & 31;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x >> 5);
  for (int64_t token = blockIdx.x * static_cast<int64_t>(blockDim.x >> 5) + (threadIdx.x >> 5); token < s.tokens;
       token += warps) {
    const T* row = logits + token * s.row;
    int32_t* to = indices + token * s.k;
    float* gate = gates == nullptr ? nullptr : gates + token * s.k;
    if (ids != nullptr && ids[token * s.id_step] < 0) {
      for (int j = lane; j < s.k; j += 32) {
        to[j] = -1;
        gate[j] = 0.0f;
      }
      continue;
    }
    uint64_t last = ~uint64_t{0};
    float largest = 0.0f, sum = 0.0f;
    for (int j = 0; j < s.k; ++j) {
      uint64_t best = 0;
      for (int e = lane; e < s.experts; e += 32) {
        const uint64_t rank = rank_of(load(row[e * s.column]), e);
        if (rank < last && rank > best) best = rank;
      }
      last = lanes_tree<LatestRank>(best, 32);
      const int expert = static_cast<int>(0xffffffffu - static_cast<uint32_t>(last));
      const float logit = load(row[expert * s.column]);
      if (j == 0) largest = logit;
      const float share = expf(logit - largest);
      sum += share;
      if (lane == 0) {
        to[j] = expert;
        if (values != nullptr) values[token * s.k + j] = row[expert * s.column];
        if (gate != nullptr) gate[j] = share;
      }
    }
    if (gate == nullptr) continue;
    if (s.softmax_first != 0 && s.normalize == 0) {
      sum = 0.0f;
      for (int e = lane; e < s.experts; e += 32) sum += expf(load(row[e * s.column]) - largest);
      sum = lanes_tree<TreeSum<float>>(sum, 32);
    }
    __syncwarp();
    for (int j = lane; j < s.k; j += 32) gate[j] /= sum;
  }
}

// moe_combine: one block per token and 256 columns; see Combine.
template <typename T>
__global__ void __launch_bounds__(256)
    moe_combine(T* out, const T* rows, const float* weights, const int32_t* reverse, const T* shared,
                const T* shared_gate, const int32_t* ids, Fault* fault, const __grid_constant__ CombineSpace s) {
  start_in_turn();
  const int64_t token = blockIdx.x;
  const int64_t i = blockIdx.y * int64_t{256} + threadIdx.x;
  if (i >= s.width) return;
  float sum = 0.0f;
  for (int j = 0; j < s.k; ++j) {
    const int64_t slot = token * s.k + j;
    const int64_t row = reverse != nullptr ? reverse[slot * s.reverse_step] : slot;
    const bool good = row >= 0 && row < s.rows;
    if (!good && i == 0) note_fault(fault, s.fault_op, row, s.rows);
    const float weight = good ? weights[token * s.weights_row + j * s.weights_column] : 0.0f;
    if (weight != 0.0f) sum = fmaf(weight, load(rows[row * s.rows_row + i * s.rows_column]), sum);
  }
  if (shared != nullptr && (ids == nullptr || ids[token * s.id_step] >= 0)) {
    const float gate = shared_gate != nullptr ? 1.0f / (1.0f + expf(-load(shared_gate[token]))) : 1.0f;
    sum = fmaf(gate, load(shared[token * s.shared_row + i]), sum);
  }
  out[token * s.out_row + i * s.out_column] = store<T>(sum);
}

}  // namespace gpukit
