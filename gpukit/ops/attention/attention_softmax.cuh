// The softmax of the 16-bit kernels of attention, whose scores are powers of 2: one order of sums for all of them.
//
// A lane has columns 8 i + 2 (lane % 4) and the next of its rows: the accumulators of mma.sync and of wgmma.
#pragma once
#include "gpukit/ops/attention/attention_rows.cuh"
#include "gpukit/ops/common/short_math.cuh"

namespace gpukit {

GPUKIT_DEVICE float finite_most(float most) { return most == no_score() ? 0.0f : most; }

/// `fresh` becomes part of `total`.
GPUKIT_DEVICE Merge merge_powers(RowState& total, const RowState& fresh, float power) {
  const float most = fmaxf(total.most, fresh.most), base = finite_most(most);
  const Merge m{exp2_normal((total.most - base) * power), exp2_normal((fresh.most - base) * power)};
  total = {most, fmaf(fresh.sum, m.fresh, total.sum * m.old)};
  return m;
}
GPUKIT_DEVICE float power_lse(const RowState& state, float power) {
  return state.sum == 0.0f ? no_score() : fmaf(state.most * power, kLn2, logf(state.sum));
}

/// What the sums of a row are multiplied by in the end; 0: no key was seen.
GPUKIT_DEVICE float row_inverse(const RowState& state) { return state.sum == 0.0f ? 0.0f : 1.0f / state.sum; }
/// Adding 0 gives zeros one sign: which masked keys were met must not show.
GPUKIT_DEVICE float finish_row(float value, float inverse) {
  return inverse == 0.0f ? 0.0f : fmaf(value, inverse, 0.0f);
}

/// Exponentials of one row's columns of this lane, in places `place` and place + 1; their sum, groups of 16 keys one
/// after the other.
template <int kBlocks>
GPUKIT_DEVICE float exponentials(float (&x)[kBlocks][4], int place, float power, float base) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kBlocks; i += 2) {
    float group = 0.0f;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      float& value = x[i + e / 2][place + e % 2];
      value = exp2_normal(fmaf(value, power, -base));
      group = e == 0 ? value : group + value;
    }
    sum = i == 0 ? group : sum + group;
  }
  return sum;
}

/// A row's exponentials are taken below its base, which stays until a tile's maximum is this power of 2 above it: sums
/// are then seldom scaled, and 16 bits hold 2^8 as well as they hold 1.
inline constexpr float kLag = 8.0f;
/// What sums are multiplied by for `most`, the maximum of a tile.
GPUKIT_DEVICE float raise_most(RowState& state, float most, float power) {
  if (!((most - state.most) * power > kLag)) return 1.0f;
  const float factor = exp2_normal((state.most - finite_most(most)) * power);
  state.most = most;
  return factor;
}
GPUKIT_DEVICE float most_of_four(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
/// The sums of a row's lanes become one.
GPUKIT_DEVICE void end_piece(RowState (&rows)[2]) {
#pragma unroll
  for (RowState& state : rows) {
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 1);
    state.sum += __shfl_xor_sync(0xffffffffu, state.sum, 2);
  }
}

/// Scores of 64 keys into a row's state.
GPUKIT_DEVICE float add_scores(RowState& state, float (&x)[8][4], int half, float power) {
  float most = no_score();
#pragma unroll
  for (int i = 0; i < 8; ++i) most = fmaxf(most, fmaxf(x[i][2 * half], x[i][2 * half + 1]));
  const float factor = raise_most(state, most_of_four(most), power);
  state.sum = fmaf(state.sum, factor, exponentials(x, 2 * half, power, finite_most(state.most) * power));
  return factor;
}

template <int kSize>
GPUKIT_DEVICE void scale_rows(float (&sums)[kSize][4], const float (&factor)[2]) {
  // Times 1 changes nothing.
  if (!__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f)) return;
#pragma unroll
  for (auto& block : sums)
#pragma unroll
    for (int e = 0; e < 4; ++e) block[e] *= factor[e / 2];
}

/// [token, head, piece]: the sums of a piece, then its maximum and sum of exponentials.
GPUKIT_DEVICE float* piece_of(float* pieces, const AttentionParams& p, int64_t token, int head, int num, int piece) {
  return pieces + ((token * p.heads + head) * num + piece) * (p.dim + 2);
}

}  // namespace gpukit
