// Kernels of the functions of complex numbers: one thread per element of contiguous arrays.
#pragma once
#include "gpukit/ops/common/map_layout.cuh"
#include "gpukit/ops/elementwise/complex_math.cuh"

namespace gpukit {

template <typename T>
GPUKIT_DEVICE Complex widened(complex<T> z) {
  return {static_cast<double>(z.re), static_cast<double>(z.im)};
}
template <typename C>
GPUKIT_DEVICE C narrowed(Complex z) {
  return {static_cast<decltype(C::re)>(z.re), static_cast<decltype(C::im)>(z.im)};
}

/// The functions of one element, for programs that have several (ops/fuse).
template <typename C>
struct ComplexFunction {
  using A = C;
  using Out = C;
  static GPUKIT_DEVICE C apply(C z, const MapArgs& args) {
    return narrowed<C>(complex_function(static_cast<UnaryOp>(args.code), widened(z)));
  }
};
template <typename C>
struct ComplexPower {
  using A = C;
  using B = C;
  using Out = C;
  static GPUKIT_DEVICE C apply(C a, C b, const MapArgs&) { return narrowed<C>(complex_power(widened(a), widened(b))); }
};

template <typename C>
__global__ void __launch_bounds__(256) complex_map(C* out, const C* a, int32_t op, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = narrowed<C>(complex_function(static_cast<UnaryOp>(op), widened(a[i])));
}

template <typename C>
__global__ void __launch_bounds__(256) complex_powers(C* out, const C* a, const C* b, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < size) out[i] = narrowed<C>(complex_power(widened(a[i]), widened(b[i])));
}

}  // namespace gpukit
