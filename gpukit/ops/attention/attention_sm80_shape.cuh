// The shared memory of attention_sm80 and how its blocks divide the work. Shared by host and kernels.
#pragma once
#include "gpukit/ops/attention/attention_params.cuh"

namespace gpukit {

/// Of a block of attention_sm80: rows (tokens times query heads of one KV head), and rows of one instruction.
inline constexpr int kMmaRows = 64, kMmaWarps = 4, kMmaWarpRows = 16;
inline constexpr int kPanelDims = 64;                          // 128 bytes: what lies side by side in shared memory
inline constexpr int kPanelBytes = kKeyTile * kPanelDims * 2;  // of keys or values

/// Keys that a token sees, of fewer than 2^31.
struct MmaQuery {
  int64_t position;
  int32_t sequence, begin, end;
};

/// Where the keys of a tile lie: offsets of a head's first element. Two tiles are known at a time.
struct MmaPlaces {
  int64_t k[kKeyTile], v[kKeyTile];
  float k_scale[kKeyTile], v_scale[kKeyTile];
  uint32_t readable[2];  // a bit a key
};

struct alignas(16) MmaShared {
  MmaPlaces places[2];
  MmaQuery queries[kMmaRows];
  // Of up to 16 rows, whose keys the warps share: each warp's maximum, and the sums of its lanes.
  float most[kMmaWarps][kMmaWarpRows];
  float sums[kMmaWarps][kMmaWarpRows][4];
  alignas(16) uint32_t weights[kMmaWarpRows * kKeyTile / 2];  // 16-bit exponentials
};

/// How a tile comes into shared memory.
enum class TileCopy : int32_t {
  chunks,   // 16 bytes at a time, behind the threads' back
  codes,    // 8 codes of 8 bits at a time, behind the threads' back, which widen them when they are there
  elements  // of any strides
};

/// Behind MmaShared: queries, keys, values, codes of a tile's keys and values, and (not split) the sums of the pieces
/// before.
constexpr int mma_shared_bytes(int padded_dim, int rows, bool split, TileCopy copy) {
  return static_cast<int>(sizeof(MmaShared)) + rows * padded_dim * 2 + 2 * kKeyTile * padded_dim * 2 +
         (copy == TileCopy::codes ? 2 * kKeyTile * padded_dim : 0) + (split ? 0 : rows * padded_dim * 4);
}

struct MmaGrid {
  int32_t rows;           // of a block: 16 or 64
  int32_t heads, chunks;  // query heads of a block, and blocks that a KV head needs for all of its own
  int32_t tokens;         // of a block
  int32_t split, pieces;  // split: a block takes one piece and leaves its sums in memory
  TileCopy copy;
  int32_t aligned_q;  // q can be read 16 bytes at a time
  int32_t plain;      // scores are products times p.scale, nothing else
  float power;        // what scores are multiplied by to become powers of 2
};

inline constexpr float kPowerOfE = 1.4426950408889634f;  // log2(e)

}  // namespace gpukit
