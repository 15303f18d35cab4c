// Sizes and element strides of one batched product, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// How an operand lies in memory: contiguous along k, contiguous along its rows or columns, or anyhow.
enum class Major : uint8_t { k, mn, any };

struct MatmulProblem {
  static constexpr int kMaxBatchRank = 6;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, out_m, out_n;
  int64_t batches;
  int32_t batch_rank;
  int32_t subtracts;  // the output is the first term of its sum, the products are taken from it
  int64_t batch_shape[kMaxBatchRank];
  int64_t batch_a[kMaxBatchRank], batch_b[kMaxBatchRank], batch_out[kMaxBatchRank];
};

/// A difference is the sum of products that starts at minus its first term, with the sign turned at the end. A
/// difference of 0 is positive, as that of equal numbers.
template <typename Sum>
GPUKIT_DEVICE Sum negated(Sum sum) {
  return Sum(0) - sum;
}

struct MatmulOffsets {
  int64_t a, b, out;
};

/// Where batch number `batch` starts.
GPUKIT_DEVICE MatmulOffsets batch_offsets(const MatmulProblem& s, int64_t batch) {
  MatmulOffsets at = {0, 0, 0};
  for (int axis = s.batch_rank - 1; axis >= 0; --axis) {
    const int64_t i = batch % s.batch_shape[axis];
    batch /= s.batch_shape[axis];
    at.a += i * s.batch_a[axis];
    at.b += i * s.batch_b[axis];
    at.out += i * s.batch_out[axis];
  }
  return at;
}

struct GemmPlace {
  uint32_t batch, row_tile, column_tile;
};

/// The tile of block `block`. Blocks that run together share bands of 8 tiles of rows, so that what they read stays in
/// the L2 cache.
GPUKIT_DEVICE GemmPlace place_of(uint32_t block, uint32_t row_tiles, uint32_t column_tiles) {
  constexpr uint32_t kBand = 8;
  const uint32_t tiles = row_tiles * column_tiles, batch = block / tiles, tile = block % tiles;
  const uint32_t first = tile / (kBand * column_tiles) * kBand, in_band = tile % (kBand * column_tiles);
  const uint32_t height = row_tiles - first < kBand ? row_tiles - first : kBand;
  return {batch, first + in_band % height, in_band / height};
}

}  // namespace gpukit
