// How the blocks of w8a16_fp8x2_sm90 share the work, shared by host and device.
#pragma once

namespace gpukit {

/// What an instance is made of: two warpgroups of `columns` weights by 32 tokens, in so many blocks of a cluster.
/// `whole`: it takes the tokens apart itself, and its warpgroups stand behind each other along k. Else split_rows did,
/// and they stand side by side along the tokens.
struct Fp8x2Form {
  int columns, blocks;
  bool whole;

  /// Beside those that multiply, one warp loads and one fetches scales; registers are shared out by warpgroups.
  static constexpr int kThreads = 3 * 128;
  constexpr int ways() const { return whole ? 2 : 1; }
  constexpr int sets() const { return whole ? 1 : 2; }
  /// Of a tile.
  constexpr int tokens() const { return 32 * sets(); }
  /// Products of a warpgroup at a time: while one is made, the other is added, where there are registers for both.
  constexpr int buffers() const { return whole || columns > 128 ? 1 : 2; }
};

/// Tokens `first` to `last`; a tile has `rows` weights and `groups` of eight of them. Its row of chains is cut into
/// four segments of two pieces. Blocks of a cluster have as many segments each, neighbours to one, and the ways of a
/// block a piece each of every segment.
struct Fp8x2Tiling {
  int first, last;
  int rows, groups;
  int token_tiles, tiles;
  int chains;  // of a row: at least one for each piece
  int stages;  // of each way: at least two
  int ahead;   // chains that are asked for before the kernel before this one has ended
  int padded;  // tokens between the factors of two chains, where split_rows made these

  static constexpr int kSegments = 4, kPieces = 2 * kSegments;
  static constexpr int kChain = 128, kGroup = 8, kMaxTokens = 64;
  static constexpr int kMaxStages = 16;  // of all ways

  constexpr int first_chain(int piece) const {
    return static_cast<int>(static_cast<unsigned>(piece * chains) / kPieces);
  }
  constexpr int weight_bytes() const { return (rows + 7) / 8 * 1024; }
  constexpr int stage_bytes() const { return weight_bytes() + groups * 2048; }
  /// One sum of each token, of a group. They lie as the threads of a warp have them: pairs of each thread in turn.
  static constexpr int group_bytes(const Fp8x2Form& f) { return kGroup * f.columns * 4; }
  /// The blocks of a cluster have those of groups in turn.
  constexpr int sums_bytes(const Fp8x2Form& f) const { return (groups + f.blocks - 1) / f.blocks * group_bytes(f); }
  /// A block alone adds up its segments; in a cluster they wait for each other. So do pieces, where each way of a block
  /// has but one.
  static constexpr bool apart(const Fp8x2Form& f) { return f.whole && f.blocks == kSegments; }
  static constexpr int kept(const Fp8x2Form& f) { return apart(f) ? kPieces : f.blocks > 1 ? kSegments : 1; }
  /// The sum of a piece of each token, on its way to the other of its segment. Two ways have two places in turn, where
  /// there is room for them.
  static constexpr int piece_bytes(const Fp8x2Form& f) { return f.tokens() * f.columns * 4; }
  static constexpr int piece_places(const Fp8x2Form& f) { return apart(f) ? 0 : f.columns > 144 ? 1 : f.ways(); }
  /// A product reads as many weights and tokens as the instance has, also where the last stage has fewer.
  constexpr int slack_bytes(const Fp8x2Form& f) const {
    const int weights = f.columns * 128, operands = weight_bytes() + f.sets() * (64 * 128);
    const int most = weights > operands ? weights : operands;
    return most > stage_bytes() ? most - stage_bytes() : 0;
  }
  /// Two numbers of each weight of two tiles.
  static constexpr int end_bytes(const Fp8x2Form& f) { return 2 * f.columns * 2 * 4; }
  /// Barriers, three for a stage and one more; the factors of tokens in a stage; those numbers; and the alignment.
  static constexpr int extra_bytes(const Fp8x2Form& f) {
    return kMaxStages * (3 * 8 + kMaxTokens * 4) + 16 + end_bytes(f) + 1024;
  }
  constexpr int shared_bytes(const Fp8x2Form& f) const {
    const int sums = kept(f) * sums_bytes(f) + piece_places(f) * piece_bytes(f), slack = slack_bytes(f);
    return f.ways() * stages * stage_bytes() + (sums > slack ? sums : slack) + extra_bytes(f);
  }
};

}  // namespace gpukit
