// Sequences: element i is start + i * step, in int64 (modulo 2^64) or in float64 rounded once. Row-major output, any
// size, any grid.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

template <typename T>
struct FromDouble {
  static GPUKIT_DEVICE T of(double value) { return static_cast<T>(value); }
};
/// The float toward zero with its last bit set when inexact: rounding it again rounds the double once.
GPUKIT_DEVICE float round_to_odd(double value) {
  float f = __double2float_rz(value);
  return static_cast<double>(f) == value || value != value ? f : __uint_as_float(__float_as_uint(f) | 1u);
}
template <>
struct FromDouble<half> {
  static GPUKIT_DEVICE half of(double value) { return to_half(round_to_odd(value)); }
};
template <>
struct FromDouble<bfloat16> {
  static GPUKIT_DEVICE bfloat16 of(double value) { return to_bfloat16(round_to_odd(value)); }
};

template <typename T>
__global__ void sequence_real(T* out, int64_t size, double start, double step, double last, bool exact_last) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride) {
    double value = __dadd_rn(start, __dmul_rn(static_cast<double>(i), step));
    if (exact_last && i == size - 1) value = last;
    out[i] = FromDouble<T>::of(value);
  }
}

template <typename T>
__global__ void sequence_whole(T* out, int64_t size, uint64_t start, uint64_t step) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size; i += stride)
    out[i] = static_cast<T>(start + static_cast<uint64_t>(i) * step);
}

}  // namespace gpukit
