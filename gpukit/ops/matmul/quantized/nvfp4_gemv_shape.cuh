// Sizes of a block of nvfp4_gemv, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Rows of a block: `share`, and one more for the first `extra` blocks. Rounds in which each warp of a block has a
/// whole tile of a row.
struct Nvfp4GemvShare {
  int32_t share, extra, rounds;
};

/// A warp takes tiles of a fragment's rows by 128 bytes, two chunks, and has the copies of some of them under way.
inline constexpr int kNvfp4GemvRows = 16;
inline constexpr int kNvfp4GemvBytes = 128, kNvfp4GemvK = 2 * kNvfp4GemvBytes;
inline constexpr int kNvfp4GemvWarps = 16, kNvfp4GemvStages = 2;
/// Rows whose sums wait in shared memory to be ended together: so many, twice, in turns; or all of a block that has no
/// more than both hold.
inline constexpr int kNvfp4GemvBatch = 128;

/// Rounds of a row of `chunks`.
constexpr int nvfp4_gemv_rounds(int warps, int chunks) { return chunks / (2 * warps); }
constexpr int nvfp4_gemv_stage_bytes(int group) { return kNvfp4GemvRows * (kNvfp4GemvBytes + kNvfp4GemvK / group); }
/// Of a block: each warp's zeros, x and stages, and sums twice.
constexpr int nvfp4_gemv_shared_bytes(int warps, int chunks, int group) {
  const int x = (1 + (chunks + 2 * warps - 1) / (2 * warps)) * kNvfp4GemvK * 2, sums = 2 * kNvfp4GemvBatch * 4;
  return warps * (x + kNvfp4GemvStages * nvfp4_gemv_stage_bytes(group)) + (warps | 1) * sums;
}

}  // namespace gpukit
