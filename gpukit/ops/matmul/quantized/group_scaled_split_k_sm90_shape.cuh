// How the blocks of group_scaled_split_k_sm90 share the work, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kSplitKChain = 2048;   // of k
inline constexpr int kSplitKMinStages = 3;  // two are asked for at once, while one is read

struct SplitKShare {
  int32_t rows;    // of a cluster: a multiple of 16, up to 256
  int32_t split;   // chains that a block walks side by side: at most split_k_warps / (rows / 16)
  int32_t stages;  // in shared memory, at least kSplitKMinStages
};

/// Warps that multiply, each 16 rows of a chain; the registers that they need limit their number. One more loads, and
/// three order the tokens.
constexpr int split_k_warps(int tokens, bool packed) { return packed ? 12 : tokens <= 16 ? 20 : 16; }
constexpr int split_k_threads(int tokens, bool packed) { return (split_k_warps(tokens, packed) + 4) * 32; }

/// Sums of chains in shared memory; a block that has all chains, one after the other, adds them up in one place.
constexpr int split_k_slots(int chains, int blocks, int split) {
  const int round = blocks * split;
  return round == 1 ? 1 : (chains + round - 1) / round * split;
}
/// 128 bytes of every row and the same k of every token, for each of the chains side by side, and three barriers.
constexpr int split_k_stage_bytes(SplitKShare share, int tokens, bool packed) {
  return share.split * (share.rows + tokens * (packed ? 4 : 2)) * 128 + 24;
}
/// Stages, at a multiple of 1024 bytes; the sums, for each row and token; a scale for each row.
constexpr int split_k_shared_bytes(SplitKShare share, int tokens, bool packed, int chains, int blocks) {
  const int sums = split_k_slots(chains, blocks, share.split) * tokens * (share.rows + 4) * 4;
  return 1024 + share.stages * split_k_stage_bytes(share, tokens, packed) + sums + share.rows * 4;
}

}  // namespace gpukit
