// How the blocks of gemm90_few_codes share the work, shared by host and device.
#pragma once
#include "gpukit/ops/matmul/codes_order.cuh"

namespace gpukit {

/// A tile has `rows` weights and as many tokens as the instance has columns. `parts` warpgroups share the weights. A
/// stage is one chain of k, or two chains side by side, as the instance says.
struct FewCodes90 {
  int rows, parts, stages;
  int tokens, token_tiles;  // tokens of a box: all of them, or as many as a tile has columns
  int tiles, fills;         // stages of a tile
  int ahead;                // bytes of each weight that are asked for before the copy engine starts

  static constexpr int kSlice = 128;  // of k: what the swizzle spans
  static constexpr int kLoaders = 2, kMaxStages = 32;

  /// Weights of a warpgroup.
  static constexpr int part_rows(int chains) { return 64 / chains; }
  constexpr int threads() const { return parts * 128 + kLoaders * 32; }
  /// Of a slice: whole groups of eight, which the swizzle is made of.
  constexpr int weight_bytes() const { return (rows + 7) / 8 * 1024; }
  constexpr int slice_bytes(int columns, int chains) const { return chains * (weight_bytes() + columns * 256); }
  constexpr int stage_bytes(int columns, int chains) const {
    return kBytesChain / kSlice * slice_bytes(columns, chains);
  }
  /// Beside the stages: the alignment and barriers.
  static constexpr int kExtraBytes = 1024 + kMaxStages * 16;
  constexpr int shared_bytes(int columns, int chains) const {
    return stages * stage_bytes(columns, chains) + kExtraBytes;
  }
};

}  // namespace gpukit
