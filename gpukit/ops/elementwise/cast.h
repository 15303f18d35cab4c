// Conversion between dtypes.
//
// Real to integer truncates towards zero, saturates at the integer's range and maps NaN to 0. Integer to integer keeps
// the low bits. Anything to bool is `x != 0`. Real to real rounds once to nearest even; float8_e4m3 saturates at 448,
// float8_e5m2 at 57344. Packed dtypes take part in no cast. Every backend gives the same bits, but for the payload of a
// NaN.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit {

/// `input` itself when it has `dtype` already and `copy` is false, else a new row-major array.
/// A complex input to a real dtype throws DTypeError: use real(x), imag(x) or abs(x).
Array astype(const Array& input, DType dtype, bool copy = false);
/// The same into `out`, or a new array: never `input` itself. `op` names the caller in errors.
Array cast(const char* op, const Array& input, DType dtype, const Array* out = nullptr);
/// `input` itself where it has the dtype, else a cast that the caller uses up.
Array astype(const Array& input, DType dtype, Temporaries& into);

/// Views of a complex array's parts, no copy; real() of a real array is the array itself. imag throws DTypeError for
/// one.
Array real(const Array& input);
Array imag(const Array& input);

/// The 0.2 names; each checks the dtype it is named for.
Array cast_f32_to_bf16(const Array& src, const Array* out = nullptr);
Array cast_f32_to_f16(const Array& src, const Array* out = nullptr);
Array cast_bf16_to_f32(const Array& src, const Array* out = nullptr);
Array cast_f16_to_f32(const Array& src, const Array* out = nullptr);

}  // namespace gpukit
