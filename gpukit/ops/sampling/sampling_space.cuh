// What sampling is told beside its arrays. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct SamplingSpace {
  int64_t vocab;
  int64_t logits_row, logits_step;  // strides in elements
  int64_t history_row, history_count, bias_row, bias_count;
  int64_t allowed_row, allowed_step;
  int32_t allowed_bits;  // 1: 32 tokens to a word
  int32_t top_n;
  // Numbers for all rows, where there is no array of them.
  float temperature, top_p, min_p, repetition, frequency, presence;
  int32_t top_k;
  int32_t one_seed;  // row i draws block i
  uint64_t seed, position;
  int32_t fault_op;
};

inline constexpr int kMaxTop = 256;
inline constexpr int kKeysOfBlock = 4096;
inline constexpr int kChooseThreads = 1024;  // not below kMaxTop

}  // namespace gpukit
