// How the blocks of gemm90_parts share the work, shared by host and device.
#pragma once

namespace gpukit {

/// What an instance is made of: warpgroups of `columns` weights by 32 tokens, so many of them side by side along the
/// weights (`halves`) and the tokens (`sets`) and behind each other along k (`ways`), in so many blocks of a cluster.
/// `whole`: it takes the tokens apart itself; else split_rows did.
struct PartsForm90 {
  int columns, halves, sets, ways, blocks;
  bool whole;

  static constexpr int kSegments = 4;  // of a row
  constexpr int warpgroups() const { return halves * sets * ways; }
  /// Weights and tokens of a tile.
  constexpr int weights() const { return columns * halves; }
  constexpr int tokens() const { return 32 * sets; }
  /// Warps that take tokens apart: as many as leave those that multiply their registers. One more warp loads.
  constexpr int splitters() const { return !whole ? 3 : warpgroups() == 2 && columns > 80 ? 7 : 11; }
  constexpr int threads() const { return (warpgroups() * 4 + splitters() + 1) * 32; }
  /// Products of a warpgroup at a time: while one is made, the other is added, where there are registers for both.
  constexpr int buffers() const { return warpgroups() == 2 && columns > 128 ? 1 : 2; }
  /// Who has a share of k, and the segments of each.
  constexpr int units() const { return ways * blocks; }
  constexpr int segments() const { return kSegments / units(); }
  /// Sums of a token that wait in shared memory to be added last. A block alone adds up those of its first unit before.
  constexpr int kept() const { return blocks > 1 ? kSegments : kSegments + 1 - segments(); }
};

/// Tokens `first` to `last`; a tile has `rows` weights and `groups` of eight of them. Its row of chains is cut into
/// four segments, as many for each unit, neighbours to one.
struct Parts90 {
  int first, last;
  int rows, groups;
  int token_tiles, tiles;
  int chains;  // of a row: at least one for each segment
  int stages;  // of each way: at least two
  int ahead;   // bytes that are asked for of each way of a weight before the copy engine starts
  int padded;  // tokens between the factors of two chains, where split_rows made these

  static constexpr int kSegments = PartsForm90::kSegments;
  static constexpr int kChain = 128, kGroup = 8, kMaxTokens = 64, kMaxStages = 32;  // of all ways

  constexpr int first_chain(int segment) const { return segment * chains / kSegments; }
  constexpr int weight_bytes() const { return (rows + 7) / 8 * 1024; }
  constexpr int stage_bytes() const { return weight_bytes() + groups * 2048; }
  /// Floats between the sums of two tokens, so that no two threads of half a warp meet at a bank.
  static constexpr int pitch(int weights) { return weights + 8; }
  /// One sum of each token. The blocks of a cluster have those of groups in turn.
  constexpr int sums_bytes(const PartsForm90& f) const {
    return (groups + f.blocks - 1) / f.blocks * kGroup * pitch(f.weights()) * 4;
  }
  /// A product reads as many weights and tokens as the instance has, also where the last stage has fewer.
  constexpr int slack_bytes(const PartsForm90& f) const {
    const int weights = f.weights() * 128, parts = weight_bytes() + f.sets * (64 * 128);
    const int most = weights > parts ? weights : parts;
    return most > stage_bytes() ? most - stage_bytes() : 0;
  }
  /// Barriers, four for a stage; the factor of each token in it; and the alignment.
  static constexpr int kExtraBytes = kMaxStages * (4 * 8 + kMaxTokens * 4) + 1024;
  constexpr int shared_bytes(const PartsForm90& f) const {
    return f.ways * stages * stage_bytes() + f.kept() * sums_bytes(f) + slack_bytes(f) + kExtraBytes;
  }
};

}  // namespace gpukit
