// Loops over float32 in the widest registers the processor has; every level gives the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "gpukit/ops/common/nonlinear.h"

namespace gpukit::cpu {

/// In place, but for snake. Errors are a few units in the last place; gelu_erf's grow with x^2 in its tail.
struct VectorLoops {
  void (*gelu)(float* x, int64_t count);
  void (*gelu_erf)(float* x, int64_t count);
  void (*silu)(float* x, int64_t count);
  void (*sigmoid)(float* x, int64_t count);
  void (*tanh)(float* x, int64_t count);
  /// out = x + sin(alpha x)^2 / alpha.
  void (*snake)(float* out, const float* x, const float* alpha, int64_t count);
};

const VectorLoops& vector_loops();
/// The loops of every level this processor has, the best last.
std::span<const VectorLoops> all_vector_loops();

// The same for float and double.

template <typename R>
void snake_all(R* out, const R* x, const R* alpha, int64_t count) {
  if constexpr (std::is_same_v<R, float>) {
    vector_loops().snake(out, x, alpha, count);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      const R s = std::sin(alpha[i] * x[i]);
      out[i] = x[i] + s * s / alpha[i];
    }
  }
}
template <typename R>
void gelu_all(R* x, int64_t count) {
  if constexpr (std::is_same_v<R, float>)
    vector_loops().gelu(x, count);
  else
    for (int64_t i = 0; i < count; ++i) x[i] = gelu_of(x[i]);
}
template <typename R>
void gelu_erf_all(R* x, int64_t count) {
  if constexpr (std::is_same_v<R, float>)
    vector_loops().gelu_erf(x, count);
  else
    for (int64_t i = 0; i < count; ++i) x[i] = gelu_erf_of(x[i]);
}
template <typename R>
void silu_all(R* x, int64_t count) {
  if constexpr (std::is_same_v<R, float>)
    vector_loops().silu(x, count);
  else
    for (int64_t i = 0; i < count; ++i) x[i] = silu_of(x[i]);
}
template <typename R>
void sigmoid_all(R* x, int64_t count) {
  if constexpr (std::is_same_v<R, float>)
    vector_loops().sigmoid(x, count);
  else
    for (int64_t i = 0; i < count; ++i) x[i] = R(1) / (R(1) + std::exp(-x[i]));
}
template <typename R>
void tanh_all(R* x, int64_t count) {
  if constexpr (std::is_same_v<R, float>)
    vector_loops().tanh(x, count);
  else
    for (int64_t i = 0; i < count; ++i) x[i] = std::tanh(x[i]);
}

}  // namespace gpukit::cpu
