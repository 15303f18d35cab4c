// Between distributions.cpp and the two backends: `out` is row-major, not empty, float32, float64 or int64.
#pragma once

#include "gpukit/ops/random/distributions.cuh"
#include "gpukit/ops/random/random.h"

namespace gpukit {
namespace cpu {
void random_distribution(const Array& out, random::State state, const random::Distribution& distribution);
}
namespace cuda {
void random_distribution(const Array& out, random::State state, const random::Distribution& distribution);
}
}  // namespace gpukit
