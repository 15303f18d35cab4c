// whisper_advance: one thread a text.
#pragma once
#include "gpukit/ops/sampling/whisper_rules_space.cuh"

namespace gpukit {

__global__ void __launch_bounds__(128)
    whisper_advance(int32_t* texts, const int32_t* tokens, int64_t rows, const __grid_constant__ WhisperRulesSpace s) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (row < rows) whisper::advance(s, texts + row, tokens[row]);
}

}  // namespace gpukit
