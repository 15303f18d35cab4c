// What the kernels of attention share: rows of tokens and heads, masks, and what becomes of their sums.
#pragma once
#include "gpukit/ops/attention/attention_params.cuh"
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

GPUKIT_DEVICE float no_score() { return __uint_as_float(0xff800000u); }

GPUKIT_DEVICE RowState no_keys() { return {no_score(), 0.0f}; }

GPUKIT_DEVICE int64_t row_place(const AttentionParams& p, const RowStrides& s, int64_t token, int64_t head) {
  return token / p.queries * s.batch + token % p.queries * s.token + head * s.head;
}
/// Adding 0 gives zeros one sign: which masked keys were met must not show.
GPUKIT_DEVICE float row_result(float value, const RowState& state) {
  return state.sum == 0.0f ? 0.0f : value / state.sum + 0.0f;
}
GPUKIT_DEVICE float row_lse(const RowState& state) {
  return state.sum == 0.0f ? no_score() : state.most + logf(state.sum);
}

/// Tokens side by side of one sequence share what is read; mostly that is all of a block.
template <typename Seen>
struct TokenRun {
  int stop;                          // tokens [start, stop) are of one sequence
  decltype(Seen::begin) begin, end;  // the keys that some of them see; none when they are equal
};
template <typename Seen>
GPUKIT_DEVICE TokenRun<Seen> find_run(const Seen* tokens, int start, int count) {
  TokenRun<Seen> run{start, 0, 0};
  for (; run.stop < count && tokens[run.stop].sequence == tokens[start].sequence; ++run.stop) {
    const Seen& token = tokens[run.stop];
    if (token.begin >= token.end) continue;
    run.begin = run.end == 0 || token.begin < run.begin ? token.begin : run.begin;
    run.end = token.end > run.end ? token.end : run.end;
  }
  return run;
}

/// What softmax takes of a score, before masks: soft cap and slope. Each leaves scores alone where it is 0.
GPUKIT_DEVICE float capped(float score, float cap) { return cap > 0.0f ? cap * tanhf(score / cap) : score; }
GPUKIT_DEVICE float sloped(float score, float slope, float distance) {
  return slope != 0.0f ? score - slope * fabsf(distance) : score;
}

struct AttentionArrays {
  const void *k, *v;
  const float *k_scale, *v_scale;
  const int32_t *tables, *first, *second;
  const void* mask;
  const float* slopes;
};

/// What a mask adds to the score of a key; -inf: not seen.
template <typename T>
GPUKIT_DEVICE float mask_value(const AttentionParams& p, const void* mask, int64_t token, int64_t head, int64_t key) {
  const int64_t at =
      token / p.queries * p.mask_batch + head * p.mask_head + token % p.queries * p.mask_query + key * p.mask_key;
  switch (p.mask) {
    case MaskKind::boolean: return static_cast<const bool*>(mask)[at] ? 0.0f : no_score();
    case MaskKind::float32: return static_cast<const float*>(mask)[at];
    case MaskKind::data: return load(static_cast<const T*>(mask)[at]);
    default: return 0.0f;
  }
}

}  // namespace gpukit
