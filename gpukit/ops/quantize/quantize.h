// Quantised arrays: codes, the scales of blocks of them, and what turns numbers into them and back.
//
// A format is the dtype of its codes: float8_e4m3, float8_e5m2, int8, int4 and float4_e2m1 (nvfp4). Packed codes lie
// two to a byte along the last axis, the even column in the low nibble. The formulas are in docs/quantisation.md; every
// device gives the same bits.
#pragma once

#include "gpukit/array/array.h"

namespace gpukit {

/// Codes and what is needed to read them; a part a format does not have is not defined(). A plain float array is one
/// without scales.
struct Quantized {
  Quantized() = default;
  Quantized(const Array& codes, const Array& scales = {}, const Array& zeros = {}, const Array& whole = {})
      : data(codes), scale(scales), zero(zeros), tensor_scale(whole) {}

  Array data;          // [..., rows, columns], packed: [..., rows, columns / 2]
  Array scale;         // float32, for float4_e2m1 float8_e4m3: [], or [..., ceil(rows / r), ceil(columns / c)]
  Array zero;          // int8, of scale's shape: int4 with zero points
  Array tensor_scale;  // float32 []: float4_e2m1; of experts also [experts]
};

/// The elements that share one scale. 0: all of that axis.
struct QuantizeBlock {
  int64_t rows = 1, columns = 0;
};
inline constexpr QuantizeBlock kPerTensor = {0, 0}, kPerRow = {1, 0};

struct QuantizeOptions {
  /// float8: per tensor, per row, {1, 128} or {128, 128}. int8: per tensor or row. int4: {1, 32}, {1, 64} or {1, 128},
  /// and per tensor or row without zero points. float4_e2m1: {1, 16} or {1, 32}.
  QuantizeBlock block = kPerRow;
  bool zero_point = false;   // int4 only
  bool tensor_scale = true;  // float4_e2m1 only: false fixes the tensor's scale at 1 and gives none
};

/// The codes of `x`: float16, bfloat16 or float32, of rank 1 (one row) or more; blocks lie in its last two axes. The
/// results are row-major: new ones, or the parts of `out`, which share no memory with x. NaN stays NaN in float8 and
/// becomes 0 elsewhere; infinities saturate (float8_e5m2 has them). Throws DTypeError, ShapeError (odd number of
/// columns for packed codes), ArgumentError (a block the format does not have).
Quantized quantize(const Array& x, DType format, const QuantizeOptions& options, const Quantized* out = nullptr);

/// The numbers of `q` in float16, bfloat16 or float32, each rounded from float32 once. The block is read off the shape
/// of the scales. Throws DTypeError, ShapeError.
Array dequantize(const Quantized& q, DType dtype = DType::float32, const Array* out = nullptr);

/// What the parts of a Quantized are called in messages.
struct PartNames {
  const char *scale, *zero, *tensor_scale;
};
/// Throws DTypeError, ShapeError, ArgumentError or DeviceError when the parts of `q` do not go with its codes.
/// `experts`: data is [experts, n, k], and tensor_scale may be one number for each.
void check_parts(const char* op, const Quantized& q, const PartNames& names, bool experts = false);

}  // namespace gpukit
