// rope and qkv_rope_append: one warp per head of a token. What it must sum or turn lies in shared memory of its own.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/quant.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/rope/qkv_params.cuh"

namespace gpukit {

template <typename T>
GPUKIT_DEVICE void turn_pair(T& first, T& second, float c, float s) {
  const float a = load(first), b = load(second);
  first = store<T>(fmaf(a, c, -(b * s)));
  second = store<T>(fmaf(b, c, a * s));
}

template <typename T>
__global__ void __launch_bounds__(32 * kRopeWarps)
    rope(T* a, T* b, const void* cos, const void* sin, const int32_t* positions, Fault* fault,
         const __grid_constant__ RopeParams p) {
  const int lane = threadIdx.x & 31;
  const int64_t heads = p.heads_a + p.heads_b;
  for (int64_t unit = blockIdx.x * static_cast<int64_t>(kRopeWarps) + (threadIdx.x >> 5); unit < p.tokens * heads;
       unit += static_cast<int64_t>(gridDim.x) * kRopeWarps) {
    const int64_t token = unit / heads, head = unit % heads;
    const int64_t position = positions == nullptr ? token : positions[token * p.position_step];
    if (position < 0 || position >= p.num_positions) {
      if (lane == 0 && head == 0) note_fault(fault, p.fault_op, position, p.num_positions);
      continue;
    }
    const bool in_a = head < p.heads_a;
    T* x = in_a ? a + token * p.a_token + head * p.a_head : b + token * p.b_token + (head - p.heads_a) * p.b_head;
    const int64_t step = in_a ? p.a_step : p.b_step;
    for (int i = lane; i < p.pairs; i += 32) {
      const int64_t at_cos = position * p.cos_row + i * p.cos_step, at_sin = position * p.sin_row + i * p.sin_step;
      const float c =
          p.short_table != 0 ? load(static_cast<const T*>(cos)[at_cos]) : static_cast<const float*>(cos)[at_cos];
      const float s =
          p.short_table != 0 ? load(static_cast<const T*>(sin)[at_sin]) : static_cast<const float*>(sin)[at_sin];
      turn_pair(x[(p.interleaved != 0 ? 2 * i : i) * step], x[(p.interleaved != 0 ? 2 * i + 1 : i + p.pairs) * step], c,
                s);
    }
  }
}

/// The sum of a warp's squares[0, size) in pairs: the tree of the CPU. `size` is a power of two.
GPUKIT_DEVICE float tree_sum(float* squares, int size, int lane) {
  for (int step = 1; step < size; step *= 2) {
    __syncwarp();
    for (int i = 2 * step * lane; i < size; i += 64 * step) squares[i] += squares[i + step];
  }
  __syncwarp();
  return squares[0];
}

/// A head of keys or values, x[0, dim), into the cache.
GPUKIT_DEVICE void store_head(const QkvParams& p, const CacheStrides& s, const CacheSlot& at, int64_t head,
                              const float* x, int lane, void* cache, float* scales) {
  const int64_t base = at.page * s.page + at.slot * s.slot + head * s.head;
  float scale = 1.0f;
  if (p.cache.kind == CacheKind::float8_e4m3) scale = scales[head * s.scale_head];
  if (p.cache.kind == CacheKind::int8) {
    float most = 0.0f;
    for (int i = lane; i < p.dim; i += 32) most = fmaxf(most, finite_magnitude(x[i]));
    for (int mask = 16; mask > 0; mask /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, mask));
    scale = symmetric_scale(most, Code::int8);
    if (lane == 0) scales[at.page * s.scale_page + at.slot * s.scale_slot + head * s.scale_head] = scale;
  }
  for (int i = lane; i < p.dim; i += 32) {
    const int64_t to = base + i * s.step;
    switch (p.cache.kind) {
      case CacheKind::float16: static_cast<half*>(cache)[to] = to_half(x[i]); break;
      case CacheKind::bfloat16: static_cast<bfloat16*>(cache)[to] = to_bfloat16(x[i]); break;
      case CacheKind::float32: static_cast<float*>(cache)[to] = x[i]; break;
      case CacheKind::float8_e4m3: static_cast<float8_e4m3*>(cache)[to] = to_float8_e4m3(x[i] / scale); break;
      case CacheKind::int8:
        static_cast<int8_t*>(cache)[to] = static_cast<int8_t>(integer_code(x[i] / scale, -127, 127));
        break;
    }
  }
}

// qkv_find_overtaken: one thread per token, told apart from later tokens in tiles of a block.
__global__ void __launch_bounds__(kFewTokens)
    qkv_find_overtaken(uint8_t* overtaken, const int32_t* tables, const int32_t* ids, const int32_t* positions,
                       const __grid_constant__ QkvParams p) {
  __shared__ int64_t places[kFewTokens];
  __shared__ uint32_t taken[kFewTokens];  // a bit for each place of this block, modulo their number
  const int64_t first = blockIdx.x * int64_t{kFewTokens};
  const auto place_of = [&](int64_t token) {
    return token < p.tokens ? cache_place(p, tables, ids[token * p.id_step], positions[token * p.position_step]) : -1;
  };
  const int64_t mine = place_of(first + threadIdx.x);
  bool found = false;
  taken[threadIdx.x] = 0;
  places[threadIdx.x] = mine;
  __syncthreads();
  if (mine >= 0) {
    atomicOr(&taken[mine / 32 % kFewTokens], 1u << (mine % 32));
    for (int i = threadIdx.x + 1; i < kFewTokens; ++i) found = found || places[i] == mine;
  }
  __syncthreads();
  for (int64_t base = first + kFewTokens; base < p.tokens; base += kFewTokens) {
    const int64_t other = place_of(base + threadIdx.x);
    if (!__syncthreads_or(other >= 0 && (taken[other / 32 % kFewTokens] >> (other % 32) & 1) != 0)) continue;
    places[threadIdx.x] = other;
    __syncthreads();
    if (mine >= 0)
      for (int i = 0; i < kFewTokens; ++i) found = found || places[i] == mine;
  }
  if (first + threadIdx.x < p.tokens) overtaken[first + threadIdx.x] = found ? 1 : 0;
}

/// Shared memory: a head and its squares (`padded`, a power of two) for every warp.
template <typename T>
__global__ void __launch_bounds__(32 * kRopeWarps, 4)
    qkv_rope_append(T* q_out, const T* qkv, void* k, void* v, float* k_scale, float* v_scale, const int32_t* tables,
                    const int32_t* ids, const int32_t* positions, const T* bias, const T* q_norm, const T* k_norm,
                    const float* cos, const float* sin, const uint8_t* overtaken, Fault* fault,
                    const __grid_constant__ QkvParams p, int32_t padded) {
  extern __shared__ float memory[];
  start_in_turn();
  const int lane = threadIdx.x & 31;
  float* const x = memory + (threadIdx.x >> 5) * (p.dim + padded);
  float* const squares = x + p.dim;
  const int64_t heads = p.heads + 2 * static_cast<int64_t>(p.kv_heads);
  for (int64_t unit = blockIdx.x * static_cast<int64_t>(kRopeWarps) + (threadIdx.x >> 5); unit < p.tokens * heads;
       unit += static_cast<int64_t>(gridDim.x) * kRopeWarps) {
    const int64_t token = unit / heads, head = unit % heads;
    const bool is_q = head < p.heads, is_v = head >= p.heads + p.kv_heads, notes = lane == 0 && head == 0;
    const int64_t sequence = ids[token * p.id_step];
    int64_t position = positions[token * p.position_step];
    bool kept = sequence != -1, turned = p.pairs > 0;
    CacheSlot at{};
    if (kept) {
      at = in_range(sequence, p.cache.sequences) ? find_slot(p.cache, tables, sequence, position)
                                                 : bad_slot(sequence, p.cache.sequences);
      kept = at.limit == 0;
      if (!kept && notes) note_fault(fault, p.fault_op, at.bad, at.limit);
    }
    if (turned && !in_range(position, p.num_positions)) {
      if (sequence >= 0 && notes) note_fault(fault, p.fault_op, position, p.num_positions);
      kept = turned = false;
      position = 0;
    }
    if (!is_q && kept) {
      bool later = overtaken != nullptr && overtaken[token] != 0;
      if (overtaken == nullptr) {
        const int64_t place = at.page * p.cache.page_size + at.slot;
        for (int64_t i = token + 1 + lane; i < p.tokens; i += 32)
          later = later || cache_place(p, tables, ids[i * p.id_step], positions[i * p.position_step]) == place;
        later = __any_sync(0xffffffffu, later) != 0;
      }
      kept = !later;
    }
    if (!is_q && !kept) continue;
    __syncwarp();
    for (int i = lane; i < p.dim; i += 32) {
      x[i] = load(qkv[token * p.qkv_row + (head * p.dim + i) * p.qkv_step]);
      if (bias != nullptr) x[i] += load(bias[(head * p.dim + i) * p.bias_step]);
    }
    const T* gamma = is_q ? q_norm : is_v ? nullptr : k_norm;
    if (gamma != nullptr) {
      const int64_t step = is_q ? p.q_norm_step : p.k_norm_step;
      for (int i = lane; i < padded; i += 32) squares[i] = i < p.dim ? x[i] * x[i] : 0.0f;
      const float sum = tree_sum(squares, padded, lane);
      const float scale = 1.0f / sqrtf(sum / static_cast<float>(p.dim) + p.eps);
      for (int i = lane; i < p.dim; i += 32) x[i] = x[i] * scale * load(gamma[i * step]);
    }
    __syncwarp();
    if (turned && !is_v)
      for (int i = lane; i < p.pairs; i += 32)
        turn_pair(x[p.interleaved != 0 ? 2 * i : i], x[p.interleaved != 0 ? 2 * i + 1 : i + p.pairs],
                  cos[position * p.cos_row + i * p.cos_step], sin[position * p.sin_row + i * p.sin_step]);
    __syncwarp();
    if (is_q) {
      for (int i = lane; i < p.dim; i += 32) q_out[token * p.q_row + head * p.q_head + i * p.q_step] = store<T>(x[i]);
    } else if (is_v) {
      store_head(p, p.cache.v, at, head - p.heads - p.kv_heads, x, lane, v, v_scale);
    } else {
      store_head(p, p.cache.k, at, head - p.heads, x, lane, k, k_scale);
    }
  }
}

}  // namespace gpukit
