// How the blocks of dequant_gemm_sm90 share the work, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// A tile is `rows` weights by as many tokens as the instance has columns. Each of `warpgroups` warpgroups multiplies
/// 64 of the weights; one more warpgroup loads. Quantised values and tokens have rings of their own, of 128 bytes of
/// every row. With two `ways` both warpgroups have the same weights, and take the chains of k in turn, each from its
/// own rings.
struct DequantGemm {
  int32_t rows, warpgroups, ways;
  int32_t tokens, token_tiles;  // tokens of a box: all of them, or as many as a tile has columns
  int32_t tiles;
  int32_t weight_stages, token_stages;
  int32_t slots;       // chains whose sums lie in shared memory until the end; one where a warpgroup has all of k
  int32_t kept_bytes;  // of 64 weights, for the slots and for results on their way out
  int32_t tma_store;   // results leave in boxes
  int32_t ahead;       // bytes of each weight that are asked for before the kernel before this one has ended

  static constexpr int kTokenK = 64, kMaxStages = 32, kMaxWarpgroups = 2, kMaxBlocks = 4;
  static constexpr int kMostColumnsOfWays = 64;  // ways bring more tokens, and their results leave one by one
  static constexpr int kChain = 2048;            // of k, where scales change along it

  /// k of a stage of quantised values, and of the straight warpgroup of the loop.
  static constexpr int weight_k(bool packed) { return packed ? 256 : 128; }
  static constexpr int loop_k(int group) { return group == 0 ? 256 : 128; }
  constexpr int threads() const { return (warpgroups + 1) * 128; }
  constexpr int weight_bytes() const { return rows * 128; }
  static constexpr int token_bytes(int columns) { return columns * 128; }
  /// Sums of a warpgroup.
  static constexpr int slot_bytes(int columns) { return 64 * columns * 4; }
  /// Barriers of a way, four for a stage of each ring at most.
  static constexpr int kBarrierBytes = 4 * kMaxStages * 8;
  constexpr int ring_bytes(int columns) const {
    return weight_stages * weight_bytes() + token_stages * token_bytes(columns);
  }
  constexpr int shared_bytes(int columns) const {
    constexpr int kAlignment = 1024;
    return kAlignment + ways * (kBarrierBytes + ring_bytes(columns)) + rows / 64 * kept_bytes;
  }
};

}  // namespace gpukit
