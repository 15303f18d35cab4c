// Layers of a network: a product with the weights of a layer, and what follows it, in one pass where the chip can.
//
// `input` is [..., k], `weight` [n, k] (one row for each output), the result [..., n]; all have one float dtype. Sums,
// bias, activation and residual are computed in float32 (float64 for float64) and rounded once.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/dense/gemm_sm90_problem.cuh"

namespace gpukit {

struct LinearOptions {
  Array bias = {};                           // [n]
  Activation activation = Activation::none;  // gelu: the tanh form
  Array residual = {};                       // of the result's shape, added last
  float alpha = 1.0f;                        // times the product
};

/// activation(alpha * input @ weight.T + bias) + residual. Throws ShapeError, DTypeError, DeviceError.
Array linear(const Array& input, const Array& weight, const LinearOptions& options = {}, const Array* out = nullptr);

/// silu(input @ gate.T) * (input @ up.T), the pair of products of a gated layer; gate and up have one shape. Throws as
/// linear does.
Array linear_swiglu(const Array& input, const Array& gate, const Array& up, const Array* out = nullptr);

/// linear with a bias and gelu, for 2-D arrays.
Array linear_bias_gelu(const Array& input, const Array& weight, const Array& bias, const Array* out = nullptr);

namespace cuda {

/// Whether a fused kernel serves these weights, of any number of rows whose elements lie densely and aligned.
bool linear_has_kernel(const Array& weight);

/// Rows and columns of the output, or of both products of a pair, that a block computes at a time.
struct LinearForm {
  int rows, columns;
  bool operator==(const LinearForm&) const = default;
};

/// The fastest for [m, n] sums of k. `loaded`: columns of weights that one column of the output takes; 2 for a pair.
LinearForm choose_linear_form(int64_t m, int64_t n, int64_t k, int loaded, int sm_count);

/// Of [m, k] by [n, k] into [m, n], which shares no memory with them: true when launched, false where the chip, the
/// dtype or the layout has no fused kernel.
bool launch_linear(const Array& out, const Array& input, const Array& weight, const LinearOptions& options);
bool launch_linear_swiglu(const Array& out, const Array& input, const Array& gate, const Array& up);

}  // namespace cuda
}  // namespace gpukit
