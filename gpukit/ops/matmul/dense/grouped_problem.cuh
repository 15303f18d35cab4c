// Rows in the order of their experts, and the tiles they are cut into: shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// Neighbours in the order of experts that one tile multiplies by one expert: from `first` up to `end`.
struct alignas(16) ExpertTile {
  int32_t expert, first, end, unused;
};

/// What stands before the tiles in their list.
struct alignas(16) ExpertTiles {
  int32_t tiles, rows;  // rows with an expert: the others come last
  int32_t unused[2];
};

inline constexpr int kOrderThreads = 1024, kOrderWarps = kOrderThreads / 32;
inline constexpr int kMaxExperts = kOrderThreads - 1;  // a thread each, and one for the rows without

/// Bytes order_rows counts in. The pitch spreads experts over the banks.
constexpr int order_bytes(int experts) { return (experts + 1) * (kOrderWarps + 1) * 4; }
/// The most tiles there can be: every expert leaves at most one tile unfilled.
constexpr int64_t most_tiles(int64_t rows, int64_t tile_rows, int64_t experts) {
  return rows / tile_rows + (rows < experts ? rows : experts);
}

/// What gather_rows moves, in elements of `a`, and the rows of the result that it clears.
struct GatherProblem {
  int32_t k, n;
  int64_t a_m, a_k, pitch;  // of the sorted rows
  int32_t scales;           // of a row, 0 where there are none
  int64_t scale_m, scale_k;
  int64_t out_m, out_n;
  int32_t pieces;     // 1: rows move by 16 bytes
  int32_t out_bytes;  // of an element
};

}  // namespace gpukit
