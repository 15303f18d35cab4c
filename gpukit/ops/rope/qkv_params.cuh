// What the kernels of rope and qkv_rope_append are told. Strides are in elements. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/cache.cuh"

namespace gpukit {

inline constexpr int kRopeWarps = 4;  // of a block
/// Of so many tokens each head looks for later ones at its place; of more, qkv_find_overtaken does so before.
inline constexpr int kFewTokens = 256;

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

/// Where a token's keys and values go, as one number of the cache's places; negative: nowhere.
GPUKIT_DEVICE int64_t cache_place(const QkvParams& p, const int32_t* tables, int64_t sequence, int64_t position) {
  if (!in_range(sequence, p.cache.sequences) || (p.pairs > 0 && !in_range(position, p.num_positions))) return -1;
  const CacheSlot at = find_slot(p.cache, tables, sequence, position);
  return at.limit != 0 ? -1 : at.page * p.cache.page_size + at.slot;
}

struct RopeParams {
  int64_t tokens, num_positions;
  int32_t heads_a, heads_b, pairs, interleaved;
  int64_t a_token, a_head, a_step, b_token, b_head, b_step;
  int64_t position_step, cos_row, cos_step, sin_row, sin_step;
  int32_t short_table;  // cos and sin are of the data's dtype, not float32
  int32_t fault_op;
};

}  // namespace gpukit
