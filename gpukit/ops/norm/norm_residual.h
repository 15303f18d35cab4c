// Normalisation of a sum of two arrays, as it stands between the layers of a transformer.
//
// x and residual have one shape and float dtype. The sum is rounded to that dtype and then normalised: the same bits as
// add followed by rmsnorm or layernorm. `sum`, when given, gets it, and may be x or residual itself; so may `out`, but
// not both. Throws ShapeError, DTypeError, DeviceError, ArgumentError.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// rmsnorm(x + residual, gamma, eps).
Array rmsnorm_residual(const Array& x, const Array& residual, const Array& gamma, double eps = 1e-5,
                       const Array* out = nullptr, const Array* sum = nullptr);
/// layernorm(x + residual, gamma, beta, eps).
Array layernorm_residual(const Array& x, const Array& residual, const Array& gamma, const Array& beta,
                         double eps = 1e-5, const Array* out = nullptr, const Array* sum = nullptr);

/// Rows [rows, width] whose columns lie side by side; beta and sum may be undefined.
struct ResidualRows {
  Array out, sum, x, residual, gamma, beta;
};
namespace cpu {
void norm_residual(const ResidualRows& rows, double eps);
}  // namespace cpu
namespace cuda {
void norm_residual(const ResidualRows& rows, double eps);
}  // namespace cuda

}  // namespace gpukit
