// The inner loops of attention on the CPU, for three levels of the processor; every level gives the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "gpukit/ops/attention/attention_params.cuh"
#include "gpukit/ops/attention/exp_below.cuh"
#include "gpukit/ops/matmul/cpu/matmul_loops.h"

namespace gpukit::cpu {

inline constexpr float kNoScore = -std::numeric_limits<float>::infinity();

/// A row of a tile: what its scores become. Columns [from, to) are seen.
struct ScoreRow {
  float scale, softcap, slope;
  int64_t distance;  // of the query's position from the tile's first key
  int from, to;
  const float* bias;  // added; -inf: not seen. Or null
};

/// The maximum and the sum of exponentials so far.
struct SoftmaxState {
  float most = kNoScore, sum = 0.0f;
};

inline constexpr int kLanes = 16;

/// Lane i takes columns i, i + 16, ...; then lanes are folded in halves.
template <typename Fold>
GPUKIT_ALWAYS_INLINE float fold_row(const float* row, Fold fold) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = row[i];
  for (int at = kLanes; at < kKeyTile; at += kLanes)
    for (int i = 0; i < kLanes; ++i) lanes[i] = fold(lanes[i], row[at + i]);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lanes[i] = fold(lanes[i], lanes[i + width]);
  return lanes[0];
}

/// Products q.k become exponentials, below the new maximum. Returns the factor of what was summed before.
GPUKIT_ALWAYS_INLINE float softmax_row(float* row, const ScoreRow& r, SoftmaxState* state) {
  for (int i = 0; i < kKeyTile; ++i) row[i] *= r.scale;
  if (r.softcap > 0)
    for (int i = 0; i < kKeyTile; ++i) row[i] = r.softcap * std::tanh(row[i] / r.softcap);
  if (r.slope != 0)
    for (int i = 0; i < kKeyTile; ++i) row[i] -= r.slope * std::fabs(static_cast<float>(r.distance - i));
  if (r.bias != nullptr)
    for (int i = 0; i < kKeyTile; ++i) row[i] = r.bias[i] == kNoScore ? kNoScore : row[i] + r.bias[i];
  for (int i = 0; i < r.from; ++i) row[i] = kNoScore;
  for (int i = r.to; i < kKeyTile; ++i) row[i] = kNoScore;
  const float most = std::max(state->most, fold_row(row, [](float a, float b) { return a < b ? b : a; }));
  if (most == kNoScore) {
    for (int i = 0; i < kKeyTile; ++i) row[i] = row[i] == kNoScore ? 0.0f : row[i];  // what is left is NaN
  } else {
    for (int i = 0; i < kKeyTile; ++i) row[i] = exp_below(row[i] - most);
  }
  const float factor = state->most == kNoScore ? 0.0f : exp_below(state->most - most);
  const float sum = fold_row(row, [](float a, float b) { return a + b; });
  state->sum = std::fma(state->sum, factor, sum);
  state->most = most;
  return factor;
}

GPUKIT_ALWAYS_INLINE void scale_row(float* row, int64_t size, float factor) {
  for (int64_t i = 0; i < size; ++i) row[i] *= factor;
}

/// total = total * old + piece * fresh
GPUKIT_ALWAYS_INLINE void merge_row(float* total, const float* piece, int64_t size, float old, float fresh) {
  for (int64_t i = 0; i < size; ++i) total[i] = std::fma(piece[i], fresh, total[i] * old);
}

template <typename T>
GPUKIT_ALWAYS_INLINE float value_of(T v) {
  if constexpr (std::is_same_v<T, float>)
    return v;
  else if constexpr (std::is_same_v<T, int8_t>)
    return static_cast<float>(v);
  else
    return to_float(v);
}

template <typename T>
GPUKIT_ALWAYS_INLINE void read_values(float* to, const T* from, int64_t size, int64_t step) {
  if (step == 1)
    for (int64_t i = 0; i < size; ++i) to[i] = value_of(from[i]);
  else
    for (int64_t i = 0; i < size; ++i) to[i] = value_of(from[i * step]);
}

/// A token's keys or values of one head: value * scale. Returns whether all are finite.
GPUKIT_ALWAYS_INLINE bool read_head(float* to, const void* from, CacheKind kind, int64_t at, int64_t size, int64_t step,
                                    float scale) {
  switch (kind) {
    case CacheKind::float16: read_values(to, static_cast<const half*>(from) + at, size, step); break;
    case CacheKind::bfloat16: read_values(to, static_cast<const bfloat16*>(from) + at, size, step); break;
    case CacheKind::float32: read_values(to, static_cast<const float*>(from) + at, size, step); break;
    case CacheKind::float8_e4m3: read_values(to, static_cast<const float8_e4m3*>(from) + at, size, step); break;
    case CacheKind::int8: read_values(to, static_cast<const int8_t*>(from) + at, size, step); break;
  }
  if (kind == CacheKind::float8_e4m3 || kind == CacheKind::int8) scale_row(to, size, scale);
  uint32_t special = 0;
  for (int64_t i = 0; i < size; ++i) {
    const uint32_t exponent = std::bit_cast<uint32_t>(to[i]) & 0x7f800000u;
    special |= exponent == 0x7f800000u ? 1u : 0u;
  }
  return special == 0;
}

struct AttentionLoops {
  Block<float> product;
  decltype(&softmax_row) softmax;
  decltype(&scale_row) scale;
  decltype(&merge_row) merge;
  decltype(&read_head) read;
};

#ifdef GPUKIT_X86_LEVELS
// The same loops, compiled for wider registers.
#define GPUKIT_ATTENTION_LOOPS(level, TARGET)                                                                  \
  namespace level {                                                                                            \
  TARGET inline float softmax(float* row, const ScoreRow& r, SoftmaxState* state) {                            \
    return softmax_row(row, r, state);                                                                         \
  }                                                                                                            \
  TARGET inline void scale(float* row, int64_t size, float factor) { scale_row(row, size, factor); }           \
  TARGET inline void merge(float* total, const float* piece, int64_t size, float old, float fresh) {           \
    merge_row(total, piece, size, old, fresh);                                                                 \
  }                                                                                                            \
  TARGET inline bool read(float* to, const void* from, CacheKind kind, int64_t at, int64_t size, int64_t step, \
                          float factor) {                                                                      \
    return read_head(to, from, kind, at, size, step, factor);                                                  \
  }                                                                                                            \
  }
GPUKIT_ATTENTION_LOOPS(avx2, GPUKIT_AVX2)
GPUKIT_ATTENTION_LOOPS(avx512, GPUKIT_AVX512)
#undef GPUKIT_ATTENTION_LOOPS
#endif

inline AttentionLoops attention_loops(MatmulLevel level) {
  const Block<float> product = choose_block<float>(level);
#ifdef GPUKIT_X86_LEVELS
  if (level == MatmulLevel::avx512) return {product, avx512::softmax, avx512::scale, avx512::merge, avx512::read};
  if (level == MatmulLevel::avx2) return {product, avx2::softmax, avx2::scale, avx2::merge, avx2::read};
#endif
  return {product, softmax_row, scale_row, merge_row, read_head};
}

}  // namespace gpukit::cpu
