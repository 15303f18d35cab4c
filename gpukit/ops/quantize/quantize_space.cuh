// Sizes and strides of one quantisation, shared by host and device.
#pragma once
#include "gpukit/ops/common/divide.cuh"
#include "gpukit/ops/common/quant.cuh"

namespace gpukit {

/// Numbers [batches, rows, columns] at x's element strides into row-major codes. One scale for each block; with
/// `whole`, one for all that is known already, and the blocks only share out the work.
struct QuantizeSpace {
  int64_t batches, rows, columns;
  int64_t x_batch, x_row, x_column;
  int64_t block_rows, block_columns, blocks;
  Divisor row_blocks, column_blocks;
  Code code;
  int32_t whole;
};

/// The one scale of a tensor, from its largest magnitude.
GPUKIT_DEVICE float scale_of_tensor(Code code, float largest_magnitude) {
  return code == Code::float4_e2m1 ? nvfp4_tensor_scale(largest_magnitude) : symmetric_scale(largest_magnitude, code);
}

/// What the elements of a block are divided by, and the zero point beside it.
struct BlockScale {
  float divisor;
  int32_t zero;
};

/// The code of x in a block of scale `s`. A block of nvfp4 whose scale is 0 holds zeros.
GPUKIT_DEVICE uint32_t block_code(Code code, bool shifted, float x, const BlockScale& s) {
  const float v = s.divisor == 0.0f ? 0.0f : x / s.divisor;
  return shifted ? encode_shifted(v, s.zero) : encode(code, v);
}

/// The number of a code: code * scale, for nvfp4 (code * scale, which is exact) * tensor scale.
GPUKIT_DEVICE float dequantized(Code code, uint8_t byte, int64_t column, const void* scales, int64_t scale_index,
                                int32_t zero, float tensor_scale) {
  if (code == Code::float4_e2m1) {
    const float scale = to_float(static_cast<const float8_e4m3*>(scales)[scale_index]);
    return e2m1_value(nibble_of(byte, column)) * scale * tensor_scale;
  }
  const float scale = static_cast<const float*>(scales)[scale_index];
  switch (code) {
    case Code::float8_e4m3: return to_float(float8_e4m3{byte}) * scale;
    case Code::float8_e5m2: return to_float(float8_e5m2{byte}) * scale;
    case Code::int8: return static_cast<float>(static_cast<int8_t>(byte)) * scale;
    default: return static_cast<float>(int4_value(nibble_of(byte, column)) - zero) * scale;
  }
}

/// Codes at strides of batch, row and column (bytes; of a packed byte for packed codes) into numbers at out's strides.
struct DequantizeSpace {
  int64_t size;
  Divisor rows, columns;
  int64_t out_batch, out_row, out_column;
  int64_t batch, row, column;
  ScaleLayout scale, zero;
  Code code;
};

}  // namespace gpukit
