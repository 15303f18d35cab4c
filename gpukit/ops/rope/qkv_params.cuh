// What the kernels of rope and qkv_rope_append are told. Strides are in elements. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/cache.cuh"

namespace gpukit {

struct QkvParams {
  int64_t tokens;
  int32_t heads, kv_heads, dim, pairs;  // pairs: rotary_dim / 2, 0 without RoPE
  int32_t interleaved;
  int32_t log2_lanes;  // threads of one head
  int64_t qkv_row, qkv_step;
  int64_t q_row, q_head, q_step;
  CacheLayout cache;
  int64_t id_step, position_step;
  int64_t bias_step, q_norm_step, k_norm_step;
  int64_t num_positions, cos_row, cos_step, sin_row, sin_step;
  float eps;
  int32_t fault_op;
};

struct RopeParams {
  int64_t tokens, num_positions;
  int32_t heads_a, heads_b, pairs, interleaved;
  int64_t a_token, a_head, a_step, b_token, b_head, b_step;
  int64_t position_step, cos_row, cos_step, sin_row, sin_step;
  int32_t log2_lanes;  // threads of one head
  int32_t fault_op;
};

/// Elements of pair p of a head: (first, second). Dims past the turned ones are paired too, and stay as they are.
struct PairOfDims {
  int32_t first, second;
};
GPUKIT_DEVICE PairOfDims pair_of_dims(int p, int pairs, int dim, bool interleaved) {
  if (p >= pairs) {
    const int rest = dim / 2 - pairs;
    return {2 * pairs + (p - pairs), 2 * pairs + rest + (p - pairs)};
  }
  return interleaved ? PairOfDims{2 * p, 2 * p + 1} : PairOfDims{p, p + pairs};
}

}  // namespace gpukit
