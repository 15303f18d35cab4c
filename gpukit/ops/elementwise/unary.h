// Elementwise functions of one argument. `out` must have the result's shape and dtype.
// All throw DTypeError for a dtype they do not take, and ShapeError, DeviceError for an `out` that does not fit.
#pragma once

#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// Integers (which wrap), floats, complex.
Array negative(const Array& a, const Array* out = nullptr);
Array square(const Array& a, const Array* out = nullptr);
/// A copy of a number array.
Array positive(const Array& a, const Array* out = nullptr);
/// Integers, floats; complex gives the magnitude in the real dtype.
Array absolute(const Array& a, const Array* out = nullptr);
/// Integers, floats: a copy; complex: the imaginary part's sign turned.
Array conj(const Array& a, const Array* out = nullptr);
/// Integers and floats: -1, 0 or 1; NaN stays. Complex: a / |a|, 0 for 0.
Array sign(const Array& a, const Array* out = nullptr);
/// Integers and floats: max(a, 0), and its square. NaN stays.
Array relu(const Array& a, const Array* out = nullptr);
Array relu2(const Array& a, const Array* out = nullptr);
/// Floats and complex.
Array reciprocal(const Array& a, const Array* out = nullptr);
/// Floats; integers are copied. round takes halves to the even neighbour, and each part of a complex number by itself.
Array floor(const Array& a, const Array* out = nullptr);
Array ceil(const Array& a, const Array* out = nullptr);
Array round(const Array& a, const Array* out = nullptr);
Array trunc(const Array& a, const Array* out = nullptr);

/// Floats; integers and bool count as float64. 2 ulp or better in float32 and float64, 1 ulp in the 16-bit floats.
/// exp to atanh, but rsqrt, take complex numbers too: principal values, branch cuts and special values of the C
/// standard.
Array exp(const Array& a, const Array* out = nullptr);
Array expm1(const Array& a, const Array* out = nullptr);
Array log(const Array& a, const Array* out = nullptr);
Array log1p(const Array& a, const Array* out = nullptr);
Array log2(const Array& a, const Array* out = nullptr);
Array log10(const Array& a, const Array* out = nullptr);
Array sqrt(const Array& a, const Array* out = nullptr);
Array rsqrt(const Array& a, const Array* out = nullptr);
Array sin(const Array& a, const Array* out = nullptr);
Array cos(const Array& a, const Array* out = nullptr);
Array tan(const Array& a, const Array* out = nullptr);
Array asin(const Array& a, const Array* out = nullptr);
Array acos(const Array& a, const Array* out = nullptr);
Array atan(const Array& a, const Array* out = nullptr);
Array sinh(const Array& a, const Array* out = nullptr);
Array cosh(const Array& a, const Array* out = nullptr);
Array asinh(const Array& a, const Array* out = nullptr);
Array acosh(const Array& a, const Array* out = nullptr);
Array atanh(const Array& a, const Array* out = nullptr);
Array tanh(const Array& a, const Array* out = nullptr);
Array erf(const Array& a, const Array* out = nullptr);
Array sigmoid(const Array& a, const Array* out = nullptr);
/// a * sigmoid(a)
Array silu(const Array& a, const Array* out = nullptr);
/// The tanh approximation: 0.5 a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3))).
Array gelu(const Array& a, const Array* out = nullptr);

/// bool results for every arithmetic dtype; integers and bool are always finite.
Array isnan(const Array& a, const Array* out = nullptr);
Array isinf(const Array& a, const Array* out = nullptr);
Array isfinite(const Array& a, const Array* out = nullptr);
/// Floats: whether the sign bit is set, of -0 and NaN too.
Array signbit(const Array& a, const Array* out = nullptr);
/// a == 0, as bool.
Array logical_not(const Array& a, const Array* out = nullptr);
/// Integers: every bit; bool: not.
Array bitwise_invert(const Array& a, const Array* out = nullptr);

/// min(max(a, min_val), max_val) in a's promoted dtype; NaN in any argument comes through. Bounds may be absent.
Array clamp(const Array& a, const Operand* min_val, const Operand* max_val, const Array* out = nullptr);

}  // namespace gpukit
