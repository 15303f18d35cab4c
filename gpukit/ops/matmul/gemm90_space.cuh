// Sizes of a product on sm_90a, and of the tiles it is cut into: shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct Gemm90Space {
  int32_t m, n, k, batches;
  int32_t a_step, b_step;  // 0 where one matrix serves every batch, else 1
  int32_t group;           // row tiles that are walked together, for the L2
  int64_t out_m, out_n, out_batch;
};

/// How a tile leaves: as boxes with N or with M dense in memory, or element by element with any strides.
enum class Gemm90Store { boxes, turned_boxes, elements };

/// One kernel instance. A tile is 64 rows for each consumer warpgroup; one more warpgroup loads. A slice of K is 128
/// bytes, one row of the swizzle.
struct Gemm90Tile {
  int rows, columns;
  int element_bytes;
  Gemm90Store store;

  static constexpr int kSliceBytes = 128, kBarrierBytes = 256, kMaxStages = 16;
  static constexpr int kShared = 227 * 1024 - 1024;  // what a block may have, less the alignment of the tiles

  constexpr int slice() const { return kSliceBytes / element_bytes; }
  constexpr int consumers() const { return rows / 64; }
  constexpr int threads() const { return 128 * (consumers() + 1); }
  constexpr int a_bytes() const { return rows * kSliceBytes; }
  constexpr int b_bytes() const { return columns * kSliceBytes; }
  /// Columns of one box on its way out.
  constexpr int box_columns() const { return columns % 64 == 0 ? 64 : columns % 32 == 0 ? 32 : 16; }
  /// Boxes on their way out, of one consumer: two in turns, or the whole of a turned tile.
  constexpr int store_bytes() const {
    return store == Gemm90Store::boxes          ? 2 * 64 * box_columns() * 2
           : store == Gemm90Store::turned_boxes ? columns * kSliceBytes
                                                : 0;
  }
  constexpr int stages() const {
    const int fit = (kShared - kBarrierBytes - consumers() * store_bytes()) / (a_bytes() + b_bytes());
    return fit < kMaxStages ? fit : kMaxStages;
  }
  constexpr int shared_bytes() const {
    return 1024 + stages() * (a_bytes() + b_bytes()) + consumers() * store_bytes() + kBarrierBytes;
  }
};

}  // namespace gpukit
