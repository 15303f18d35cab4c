// Between fft.cpp and its backends: one transform along one axis, everything checked.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit::fft {

enum class Elements : int32_t { complex, real, hermitian };

/// out = post(transform(pre(x))) along `axis`: a forward transform of length n, scaled.
struct Transform {
  int64_t n = 1;
  Elements input = Elements::complex;   // hermitian: the upper half of the n inputs mirrors the lower, conjugated
  Elements output = Elements::complex;  // real: imaginary parts are dropped
  bool conjugate_input = false;
  bool conjugate_output = false;
  double scale = 1.0;
};

}  // namespace gpukit::fft

namespace gpukit::cpu {
/// x has any length along the axis, zeros follow; out has the first outputs. dtypes are of one precision.
void fourier(const char* op, const Array& out, const Array& x, int axis, const fft::Transform& transform);
}  // namespace gpukit::cpu
namespace gpukit::cuda {
void fourier(const char* op, const Array& out, const Array& x, int axis, const fft::Transform& transform);
}  // namespace gpukit::cuda
