// whisper_mask: one block a text. Decides by integers (sampling_step.cuh), so no order of threads changes a token.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/sampling/whisper_rules_space.cuh"

namespace gpukit {
namespace whisper {

struct LargestKey {
  using Acc = uint32_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE uint32_t identity() { return sampling::kMinusInfinity; }
  static GPUKIT_DEVICE uint32_t merge(uint32_t a, uint32_t b) { return a > b ? a : b; }
};
struct SumOfWeights {
  using Acc = uint64_t;
  static constexpr bool kAnyOrder = true;
  static GPUKIT_DEVICE uint64_t identity() { return 0; }
  static GPUKIT_DEVICE uint64_t merge(uint64_t a, uint64_t b) { return a + b; }
};

/// Over one value of each thread; every thread gets it.
template <typename Op>
GPUKIT_DEVICE typename Op::Acc over_block(typename Op::Acc v, uint64_t* shared) {
  return warps_tree<Op>(lanes_tree<Op>(v, 32), kThreads / 32, reinterpret_cast<typename Op::Acc*>(shared));
}

}  // namespace whisper

template <typename T>
__global__ void __launch_bounds__(whisper::kThreads)
    whisper_mask(T* logits, const int32_t* texts, const uint32_t* suppressed,
                 const __grid_constant__ WhisperRulesSpace s) {
  using namespace whisper;
  __shared__ uint64_t shared[kThreads / 32];
  const T never = store<T>(sampling::logit_of(sampling::kMinusInfinity));
  logits += blockIdx.x * s.logits_row;
  texts += blockIdx.x;
  const int32_t length = texts[kLength * s.texts_row];
  const Range r = range_of(s, length, texts[kKinds * s.texts_row], texts[kLatest * s.texts_row]);
  const uint32_t* const bits = suppressed + (length > 0 ? (s.vocab + 31) / 32 : 0);
  const auto vocab = static_cast<int32_t>(s.vocab);

  uint32_t text_top = sampling::kMinusInfinity, time_top = text_top;
#pragma unroll 4
  for (int32_t i = threadIdx.x; i < vocab; i += kThreads) {
    const bool is_time = i >= s.timestamp_begin;
    const bool in_range = is_time ? i >= r.time_from && i < r.time_to : i >= r.text_from && i < r.text_to;
    const bool may = in_range && (bits[i / 32] >> (i % 32) & 1u) == 0;
    const uint32_t key = may ? sampling::key_of(load(logits[i])) : sampling::kMinusInfinity;
    if (!may) logits[i] = never;
    if (is_time && key > time_top) time_top = key;
    if (!is_time && key > text_top) text_top = key;
  }
  if (s.timestamps == 0) return;
  text_top = over_block<LargestKey>(text_top, shared);
  time_top = over_block<LargestKey>(time_top, shared);
  // Where all times together are likelier than any text, it is one of them.
  bool only_times = time_top > text_top;
  if (!only_times && time_top > sampling::kMinusInfinity) {
    uint64_t sum = 0;
    for (int32_t i = s.timestamp_begin + threadIdx.x; i < vocab; i += kThreads) {
      const bool may = i >= r.time_from && i < r.time_to && (bits[i / 32] >> (i % 32) & 1u) == 0;
      if (may) sum += sampling::weight_of(sampling::key_of(load(logits[i])), text_top, 1.0f);
    }
    only_times = over_block<SumOfWeights>(sum, shared) > sampling::kOne;
  }
  if (!only_times) return;
  for (int32_t i = threadIdx.x; i < s.timestamp_begin; i += kThreads) logits[i] = never;
}

}  // namespace gpukit
