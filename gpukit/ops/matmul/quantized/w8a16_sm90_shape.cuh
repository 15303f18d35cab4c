// How the blocks of w8a16_sm90 share the work, shared by host and device.
#pragma once
#include "gpukit/ops/matmul/quantized/sum_order.cuh"

namespace gpukit {

/// A tile has `rows` weights and as many tokens as the instance has columns. A stage is one chain of k, or two chains
/// side by side, as the instance says. Stages go to `ways` in turn, each `warpgroups` warpgroups that share the weights
/// and a warp that loads. A tile has at least one stage for each way.
struct W8A16Tiling {
  int rows, warpgroups, ways;
  int stages;               // of each way: at least two
  int tokens, token_tiles;  // tokens of a box: all of them, or as many as a tile has columns
  int tiles, fills;         // stages of a tile
  int ahead;                // bytes of each weight that are asked for before the kernel before this one has ended

  static constexpr int kSlice = 128;                   // of k: what the swizzle spans
  static constexpr int kMaxStages = 32, kMaxWays = 4;  // stages of all ways
  static constexpr int kMaxHands = 2 * (kMaxWays - 1);

  /// Weights of a warpgroup.
  static constexpr int warpgroup_rows(int chains) { return 64 / chains; }
  /// The warps that load are a warpgroup too.
  constexpr int threads() const { return (ways * warpgroups + 1) * 128; }
  /// Of a slice: whole groups of eight, which the swizzle is made of.
  constexpr int weight_bytes() const { return (rows + 7) / 8 * 1024; }
  constexpr int slice_bytes(int columns, int chains) const { return chains * (weight_bytes() + columns * 256); }
  constexpr int stage_bytes(int columns, int chains) const {
    return kBytesChain / kSlice * slice_bytes(columns, chains);
  }
  /// Places where ways hand chains to the first, two for each other way, and the bytes of all.
  constexpr int hands() const { return 2 * (ways - 1); }
  constexpr int handed_bytes(int columns) const { return hands() * warpgroups * 128 * columns / 2 * 4; }
  /// Beside these and the stages: barriers, three for a stage and two for a hand, and the alignment.
  static constexpr int kExtraBytes = (3 * kMaxStages + 2 * kMaxHands) * 8 + 1024;
  constexpr int shared_bytes(int columns, int chains) const {
    return ways * stages * stage_bytes(columns, chains) + handed_bytes(columns) + kExtraBytes;
  }
};

}  // namespace gpukit
