// What the kernels of rope and qkv_rope_append are told. Strides are in elements. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/cache.cuh"

namespace gpukit {

inline constexpr int kRopeWarps = 4;  // of a block

struct QkvParams {
  int64_t tokens;
  int32_t heads, kv_heads, dim, pairs;  // pairs: rotary_dim / 2, 0 without RoPE
  int32_t interleaved;
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
  int32_t short_table;  // cos and sin are of the data's dtype, not float32
  int32_t fault_op;
};

}  // namespace gpukit
