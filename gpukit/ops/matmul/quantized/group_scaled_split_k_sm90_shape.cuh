// How the blocks of few_codes share the work, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kFewChain = 2048;   // of k
inline constexpr int kFewMinStages = 3;  // two are asked for at once, while one is read

struct FewShare {
  int32_t rows;    // of a cluster: a multiple of 16, up to 256
  int32_t split;   // chains that a block walks side by side: at most few_warps / (rows / 16)
  int32_t stages;  // in shared memory, at least kFewMinStages
};

/// Warps that multiply, each 16 rows of a chain; the registers that they need limit their number. One more loads, and
/// three order the tokens.
constexpr int few_warps(int tokens, bool packed) { return packed ? 12 : tokens <= 16 ? 20 : 16; }
constexpr int few_threads(int tokens, bool packed) { return (few_warps(tokens, packed) + 4) * 32; }

/// Sums of chains in shared memory; a block that has all chains, one after the other, adds them up in one place.
constexpr int few_slots(int chains, int blocks, int split) {
  const int round = blocks * split;
  return round == 1 ? 1 : (chains + round - 1) / round * split;
}
/// 128 bytes of every row and the same k of every token, for each of the chains side by side, and three barriers.
constexpr int few_stage_bytes(FewShare share, int tokens, bool packed) {
  return share.split * (share.rows + tokens * (packed ? 4 : 2)) * 128 + 24;
}
/// Stages, at a multiple of 1024 bytes; the sums, for each row and token; a scale for each row.
constexpr int few_shared_bytes(FewShare share, int tokens, bool packed, int chains, int blocks) {
  const int sums = few_slots(chains, blocks, share.split) * tokens * (share.rows + 4) * 4;
  return 1024 + share.stages * few_stage_bytes(share, tokens, packed) + sums + share.rows * 4;
}

}  // namespace gpukit
