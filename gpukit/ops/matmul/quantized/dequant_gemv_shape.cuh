// Sizes of a block of dequant_gemv, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Rows of a block: `share`, and one more for the first `extra` blocks. The sums of `batch` wait in shared memory to be
/// ended together, by whole warps: a multiple of 16, or of 8 where they have the order of sum_order.cuh.
struct DequantGemvRows {
  int32_t share, extra, batch;
};

/// Rounds of a block along a row, whose x stays in registers: as many as these have room for.
constexpr int dequant_gemv_max_rounds(bool packed) { return packed ? 2 : 4; }
/// Of quantised values of 8 bits in the order of sum_order.cuh: a chain in chunks of 64.
inline constexpr int kDequantGemvOrderedRounds = 4;
/// Of a block, and those of all blocks of a multiprocessor.
constexpr int dequant_gemv_max_threads(int rounds, bool ordered) { return rounds == 1 || ordered ? 640 : 512; }

/// Copies of a warp that are under way: of its 512 bytes of a group of rows, once a round.
constexpr int dequant_gemv_stages(int rounds) { return rounds < 2 ? 2 : rounds; }

/// Words of scales, and of zero points, that belong to 512 bytes of `rows` rows. group: 0 where scales do not change
/// along k.
constexpr int dequant_gemv_scale_words(bool packed, int group, bool zero, int rows) {
  if (group == 0) return 0;
  return rows * 8 * (packed ? 128 / group : 1) * (zero ? 2 : 1);
}

/// Sums of a group of rows, 8 for each warp.
constexpr int dequant_gemv_pitch(int warps, int rows, bool ordered) { return (ordered ? warps : warps | 1) * 8 * rows; }

/// The bytes of a stage of a warp, and of a block: the warps' stages, x on its way to the registers, and sums twice.
constexpr int dequant_gemv_stage_bytes(int scale_words, int rows) { return rows * 512 + scale_words * 4; }
constexpr int dequant_gemv_shared_bytes(int warps, int rounds, int rows, bool packed, bool ordered, int token_bytes,
                                        int stage_bytes, int batch) {
  const int x = rounds * 512 * (packed ? 2 : 1) * token_bytes;
  const int sums = 2 * batch / rows * dequant_gemv_pitch(warps, rows, ordered) * 4;
  return warps * (x + dequant_gemv_stages(rounds) * stage_bytes) + sums;
}

}  // namespace gpukit
