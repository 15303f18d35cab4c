// Sizes of a product on sm_90a, and of the tiles it is cut into: shared by host and device.
#pragma once
#include "gpukit/ops/matmul/dense/linear_steps.cuh"

namespace gpukit {

struct Gemm90Problem {
  int32_t m, n, k, batches;
  int32_t a_step, b_step;  // 0 where one matrix serves every batch, else 1
  int32_t group;           // row tiles that are walked together, for the L2
  int64_t out_m, out_n, out_batch;
};

/// What happens to a sum before it is rounded and stored: times alpha, scale_m of its row and scale_n of its column,
/// plus bias, through an activation, plus residual. What an array is missing for is left out.
struct Gemm90Epilogue {
  float alpha;
  ActivationCode activation;
  int32_t scale_m, scale_n;  // 0 where one scale serves all rows or columns, else 1
};

/// How a tile leaves: as boxes with N or with M dense in memory, or element by element with any strides.
enum class Gemm90Store { tma, transposed_tma, elements };

/// One kernel instance. A tile is 64 rows for each consumer warpgroup; one more warpgroup loads. A slice of K is 128
/// bytes, one row of the swizzle.
struct Gemm90Tile {
  int rows, columns;
  int element_bytes, out_bytes;
  Gemm90Store store;

  static constexpr int kSliceBytes = 128, kBarrierBytes = 256, kMaxStages = 16;
  static constexpr int kShared = 227 * 1024 - 1024;  // what a block may have, less the alignment of the tiles

  constexpr int slice() const { return kSliceBytes / element_bytes; }
  constexpr int consumers() const { return rows / 64; }
  constexpr int threads() const { return 128 * (consumers() + 1); }
  constexpr int a_bytes() const { return rows * kSliceBytes; }
  constexpr int b_bytes() const { return columns * kSliceBytes; }
  /// Bytes of a row of one box on its way out: 128, or what divides the columns.
  constexpr int box_bytes() const {
    const int row = columns * out_bytes;
    return row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : 32;
  }
  /// Columns of one transposed box: all of them, 32 of four bytes, or what leaves room for stages beside many.
  constexpr int transposed_columns() const {
    if (out_bytes == 4) return columns > 32 ? 32 : columns;
    return columns <= 176 ? columns : columns % 64 == 0 ? 64 : 32;
  }
  /// Boxes on their way out, of one consumer: two in turns, or the whole of a small transposed tile.
  constexpr int store_bytes() const {
    if (store == Gemm90Store::elements) return 0;
    if (store == Gemm90Store::tma) return 2 * 64 * box_bytes();
    return (transposed_columns() < columns ? 2 : 1) * transposed_columns() * 64 * out_bytes;
  }
  constexpr int stages() const {
    const int fit = (kShared - kBarrierBytes - consumers() * store_bytes()) / (a_bytes() + b_bytes());
    return fit < kMaxStages ? fit : kMaxStages;
  }
  constexpr int shared_bytes() const {
    return 1024 + stages() * (a_bytes() + b_bytes()) + consumers() * store_bytes() + kBarrierBytes;
  }
};

/// How few rows by many weights (gemm_sm90_swap_ab.cuh), all along K, are cut up: a tile has `rows` weights, and
/// all rows of the other operand as columns. A stage is `depth` slices of K, as its instance says.
struct Gemm90SwapAB {
  int32_t rows, depth, stages;
  int32_t tiles;        // of one matrix of weights
  int32_t fills;        // stages of a tile
  int32_t ahead;        // bytes of each weight that are asked for before the copy engine starts
  bool by_warps;        // warps multiply 16 weights each instead of a warpgroup 64
  int64_t line, batch;  // elements from one weight to the next, and from one matrix of them

  static constexpr int kLoaders = 2, kDeep = 4, kMaxRows = 128, kMaxStages = 32, kShared = 227 * 1024;
  static constexpr int kMaxThreads = kMaxRows / 64 * 128 + kLoaders * 32;

  static constexpr int slice(int element_bytes) { return 128 / element_bytes; }
  constexpr int consumers() const { return (rows + 63) / 64; }
  constexpr int threads() const { return (by_warps ? (rows + 15) / 16 * 32 : consumers() * 128) + kLoaders * 32; }
  /// Of a slice: whole groups of eight, which the swizzle is made of.
  constexpr int weight_bytes() const { return (rows + 7) / 8 * 1024; }
  constexpr int stage_bytes(int columns) const { return depth * (weight_bytes() + columns * 128); }
  /// Beside the stages: the alignment, barriers, and what the last warpgroup reads beyond the weights.
  constexpr int extra_bytes() const { return 1024 + kMaxStages * 16 + consumers() * 8192 - weight_bytes(); }
  constexpr int shared_bytes(int columns) const { return stages * stage_bytes(columns) + extra_bytes(); }
};

}  // namespace gpukit
