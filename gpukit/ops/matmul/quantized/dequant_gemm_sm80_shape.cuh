// Sizes of a block of dequant_gemm_sm80, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kDequantGemm80Threads = 128, kDequantGemm80Rows = 64;
inline constexpr int kDequantGemm80Chain = 2048;

/// Stages of 128 `wide` bytes of every row, the same k of the tokens (16-bit floats), and the scales of groups of
/// packed quantised values; and one sum of every row and token.
constexpr int dequant_gemm_sm80_shared_bytes(int tokens, int wide, bool packed, int group, int scale_bytes,
                                             int stages) {
  const int depth = (packed ? 256 : 128) * wide;
  const int scales = packed ? depth / group * scale_bytes : 0;
  return stages * (kDequantGemm80Rows * (128 * wide + scales) + tokens * depth * 2) +
         tokens * (kDequantGemm80Rows + 4) * 4;
}

}  // namespace gpukit
