// Elementwise functions of two arguments.
//
// Arguments are arrays or numbers (one at least is an array); they broadcast, and mixed dtypes are promoted
// (base/dtype.h), which casts the array that differs. `out` must have the result's shape and dtype. All throw
// ShapeError, DTypeError, DeviceError. What the functions do at the edges of their domain is in arithmetic.cuh.
#pragma once

#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// add, subtract, multiply take every arithmetic dtype but subtract of bool; bool add is `or`, multiply is `and`.
Array add(const Operand& a, const Operand& b, const Array* out = nullptr);
Array subtract(const Operand& a, const Operand& b, const Array* out = nullptr);
Array multiply(const Operand& a, const Operand& b, const Array* out = nullptr);
/// True division: integers and bool give float64.
Array divide(const Operand& a, const Operand& b, const Array* out = nullptr);
/// Real dtypes. NaN in either argument comes through.
Array minimum(const Operand& a, const Operand& b, const Array* out = nullptr);
Array maximum(const Operand& a, const Operand& b, const Array* out = nullptr);
/// Integers and floats; the sign of the divisor, rounding towards minus infinity. Integer division by zero gives 0.
Array remainder(const Operand& a, const Operand& b, const Array* out = nullptr);
Array floor_divide(const Operand& a, const Operand& b, const Array* out = nullptr);
/// Integers, floats, complex. Integers wrap; a negative integer exponent gives the power cut to an integer (0, 1 or
/// -1).
Array power(const Operand& a, const Operand& b, const Array* out = nullptr);
/// Floats. logaddexp is log(exp(a) + exp(b)); nextafter the neighbour of a on the side of b.
Array atan2(const Operand& a, const Operand& b, const Array* out = nullptr);
Array hypot(const Operand& a, const Operand& b, const Array* out = nullptr);
Array copysign(const Operand& a, const Operand& b, const Array* out = nullptr);
Array logaddexp(const Operand& a, const Operand& b, const Array* out = nullptr);
Array nextafter(const Operand& a, const Operand& b, const Array* out = nullptr);

/// bool results. The first two take every arithmetic dtype, the others no complex ones.
Array equal(const Operand& a, const Operand& b, const Array* out = nullptr);
Array not_equal(const Operand& a, const Operand& b, const Array* out = nullptr);
Array less(const Operand& a, const Operand& b, const Array* out = nullptr);
Array less_equal(const Operand& a, const Operand& b, const Array* out = nullptr);
Array greater(const Operand& a, const Operand& b, const Array* out = nullptr);
Array greater_equal(const Operand& a, const Operand& b, const Array* out = nullptr);

/// Any arithmetic dtype, taken as `x != 0`; bool results.
Array logical_and(const Operand& a, const Operand& b, const Array* out = nullptr);
Array logical_or(const Operand& a, const Operand& b, const Array* out = nullptr);
Array logical_xor(const Operand& a, const Operand& b, const Array* out = nullptr);

/// Integers and bool.
Array bitwise_and(const Operand& a, const Operand& b, const Array* out = nullptr);
Array bitwise_or(const Operand& a, const Operand& b, const Array* out = nullptr);
Array bitwise_xor(const Operand& a, const Operand& b, const Array* out = nullptr);
/// Integers. Counts that are negative or not below the width shift everything out; right shifts of signed integers keep
/// the sign.
Array bitwise_left_shift(const Operand& a, const Operand& b, const Array* out = nullptr);
Array bitwise_right_shift(const Operand& a, const Operand& b, const Array* out = nullptr);

/// a op= b, written into a: b broadcasts to a's shape and is cast to a's dtype where promotion allows it.
void add_inplace(const Array& a, const Operand& b);
void multiply_inplace(const Array& a, const Operand& b);

}  // namespace gpukit
