// Normalisation over the last axis, and the bias that usually stands beside it.
//
// Inputs have any rank above 0, any strides and a float dtype; 16-bit floats are computed in float32 and rounded once.
// gamma and beta are [input.shape(-1)] of input's dtype. A row's result depends on that row alone: its sums follow the
// tree of ops/reduce. `out` may be `input`. Throws ShapeError, DTypeError, DeviceError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// (input - mean) / sqrt(var + eps) * gamma + beta, row by row; var is the mean of squared deviations.
Array layernorm(const Array& input, const Array& gamma, const Array& beta, double eps = 1e-5,
                const Array* out = nullptr);
/// input / sqrt(mean(input^2) + eps) * gamma, row by row.
Array rmsnorm(const Array& input, const Array& gamma, double eps = 1e-5, const Array* out = nullptr);
/// input / sqrt(mean(input^2) + eps), row by row: rmsnorm without gamma.
Array l2norm(const Array& input, double eps = 1e-6, const Array* out = nullptr);
/// output[..., :] += bias.
void bias_add_inplace(const Array& output, const Array& bias);

namespace cpu {
/// beta is null for rmsnorm, gamma too for l2norm.
void normalize(const Array& out, const Array& input, const Array* gamma, const Array* beta, double eps);
}  // namespace cpu
namespace cuda {
void normalize(const Array& out, const Array& input, const Array* gamma, const Array* beta, double eps);
}  // namespace cuda

}  // namespace gpukit
