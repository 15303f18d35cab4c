// Sizes of a block of gemv_e2m1, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Rows of a block: `share`, and one more for the first `extra` blocks. Rounds in which each warp of a block has a
/// whole tile of a row.
struct GemvE2m1Share {
  int32_t share, extra, rounds;
};

/// A warp takes tiles of a fragment's rows by 128 bytes, two chunks, and has the copies of some of them under way.
inline constexpr int kGemvE2m1Rows = 16;
inline constexpr int kGemvE2m1Bytes = 128, kGemvE2m1K = 2 * kGemvE2m1Bytes;
inline constexpr int kGemvE2m1Warps = 16, kGemvE2m1Stages = 2;
/// Rows whose sums wait in shared memory to be ended together: so many, twice, in turns; or all of a block that has no
/// more than both hold.
inline constexpr int kGemvE2m1Batch = 128;

/// Rounds of a row of `chunks`.
constexpr int gemv_e2m1_rounds(int warps, int chunks) { return chunks / (2 * warps); }
constexpr int gemv_e2m1_stage_bytes(int group) { return kGemvE2m1Rows * (kGemvE2m1Bytes + kGemvE2m1K / group); }
/// Of a block: each warp's zeros, x and stages, and sums twice.
constexpr int gemv_e2m1_shared_bytes(int warps, int chunks, int group) {
  const int x = (1 + (chunks + 2 * warps - 1) / (2 * warps)) * kGemvE2m1K * 2, sums = 2 * kGemvE2m1Batch * 4;
  return warps * (x + kGemvE2m1Stages * gemv_e2m1_stage_bytes(group)) + (warps | 1) * sums;
}

}  // namespace gpukit
