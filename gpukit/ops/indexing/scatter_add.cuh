// scatter_add over rows whose places are sorted: the thread at the first of equal places adds them all, in order. Any
// grid.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

/// Integers wrap.
template <typename C>
GPUKIT_DEVICE C plus(C a, C b) {
  return static_cast<C>(a + b);
}
GPUKIT_DEVICE int32_t plus(int32_t a, int32_t b) {
  return static_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
GPUKIT_DEVICE int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <typename T>
__global__ void scatter_add_rows(T* out, const int64_t* sorted, const int64_t* order, const T* values, int64_t rows,
                                 int64_t count, int64_t width) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * count; i += stride) {
    const int64_t place = sorted[i], row = i / count, end = (row + 1) * count;
    if (place < 0 || (i != row * count && sorted[i - 1] == place)) continue;
    compute_t<T> sum = load(out[row * width + place]);
    for (int64_t at = i; at < end && sorted[at] == place; ++at) sum = plus(sum, load(values[row * count + order[at]]));
    out[row * width + place] = store<T>(sum);
  }
}

}  // namespace gpukit
