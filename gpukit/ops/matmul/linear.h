// Layers of a network: a product with the weights of a layer, and what follows it, in one pass where the chip can.
//
// `input` is [..., k], `weight` [n, k] (one row for each output), the result [..., n] of input's dtype. Sums, bias,
// activation and residual are computed in float32 (float64 for float64) and rounded once. The product is that of
// matmul, or of scaled_matmul for quantised weights: with no step after it linear(x, w) has the bits of
// matmul(x, w.T). With `out` nothing is allocated: every call can be captured. `out` may be `residual` itself; where it
// shares memory with an input in another way the result is made apart and copied.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/weight.h"

namespace gpukit {

/// gelu is the tanh form, gelu_erf the exact one.
enum class Activation : int32_t { none, relu, gelu, silu, gelu_erf };

struct LinearOptions {
  Array bias = {};  // [n]
  Activation activation = Activation::none;
  Array residual = {};  // of the result's shape, added last
  float alpha = 1.0f;   // times the product
};

/// activation(alpha * input @ weight.T + bias) + residual. A dense weight has input's dtype; beside a quantised one
/// input is float16, bfloat16 or float32. Throws ShapeError, DTypeError, DeviceError.
Array linear(const Array& input, const Weight& weight, const LinearOptions& options = {}, const Array* out = nullptr);
/// A dense matrix as it lies, with any strides.
Array linear(const Array& input, const Array& weight, const LinearOptions& options = {}, const Array* out = nullptr);

/// silu(input @ gate.T) * (input @ up.T), the pair of products of a gated layer; gate and up have one shape. Throws as
/// linear does.
Array linear_swiglu(const Array& input, const Weight& gate, const Weight& up, const Array* out = nullptr);
Array linear_swiglu(const Array& input, const Array& gate, const Array& up, const Array* out = nullptr);

/// linear with a bias and gelu, for 2-D arrays.
Array linear_bias_gelu(const Array& input, const Array& weight, const Array& bias, const Array* out = nullptr);

}  // namespace gpukit
