// Fills of other distributions: one thread an element. Row-major output, any size, any grid.
#pragma once
#include "gpukit/ops/random/distributions.cuh"

namespace gpukit {

template <typename T>
__global__ void random_distribution(T* out, int64_t size, uint64_t seed, uint64_t offset,
                                    random::Distribution distribution) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride)
    out[i] = static_cast<T>(random::draw(distribution, {seed, offset, static_cast<uint64_t>(i)}));
}

}  // namespace gpukit
