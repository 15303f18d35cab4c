// Sampling: keys of a row's logits after penalties and masks.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/sampling/sampling_step.cuh"

namespace gpukit {

// sampling_keys: a block per row (x) and kKeysOfBlock tokens (y).
template <typename T>
__global__ void __launch_bounds__(256)
    sampling_keys(uint32_t* keys, const T* logits, const uint32_t* counts, const void* allowed, const float* repetition,
                  const float* frequency, const float* presence, const __grid_constant__ SamplingSpace s) {
  const int64_t row = blockIdx.x;
  const float repeated = repetition != nullptr ? repetition[row] : s.repetition;
  const float often = frequency != nullptr ? frequency[row] : s.frequency;
  const float once = presence != nullptr ? presence[row] : s.presence;
  const int64_t first = blockIdx.y * int64_t{kKeysOfBlock};
  const int64_t end = first + kKeysOfBlock < s.vocab ? first + kKeysOfBlock : s.vocab;
  for (int64_t i = first + threadIdx.x; i < end; i += 256) {
    float logit = load(logits[row * s.logits_row + i * s.logits_step]);
    if (counts != nullptr) logit = sampling::penalize(logit, counts[row * s.vocab + i], repeated, often, once);
    bool may = true;
    if (allowed != nullptr && s.allowed_bits != 0) {
      const int64_t at = row * s.allowed_row + i / 32 * s.allowed_step;
      may = (static_cast<const uint32_t*>(allowed)[at] >> (i % 32) & 1u) != 0;
    } else if (allowed != nullptr) {
      may = static_cast<const uint8_t*>(allowed)[row * s.allowed_row + i * s.allowed_step] != 0;
    }
    keys[row * s.vocab + i] = may ? sampling::key_of(logit) : sampling::kMinusInfinity;
  }
}

}  // namespace gpukit
