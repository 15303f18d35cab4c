// Between sampling.cpp and the two backends: everything is checked, nothing overlaps what is written.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/sampling/sampling_space.cuh"

namespace gpukit {

/// What is not there is not defined(). Arrays of one axis are row-major, those of two dense along the last but for
/// `logits` and `allowed`.
struct SamplingWork {
  Array out, logprobs, top_ids, top_logprobs;
  Array logits;
  Array temperature, top_k, top_p, min_p;
  Array repetition, frequency, presence;
  Array history, history_lengths, prompt_lengths;
  Array bias_ids, bias_values, allowed;
  Array seed, position, uniform;
  SamplingSpace space;
};

namespace cpu {
void sample(const SamplingWork& work);
}
namespace cuda {
void sample(const SamplingWork& work);
}

}  // namespace gpukit
