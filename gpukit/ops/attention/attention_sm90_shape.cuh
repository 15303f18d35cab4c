// The shared memory of attention_sm90 and how its blocks divide the work. Shared by host and kernels.
#pragma once
#include "gpukit/ops/attention/attention_params.cuh"

namespace gpukit {

/// Two warpgroups multiply, 64 rows (tokens times query heads of one KV head) each; a warp of a third one loads.
inline constexpr int kSm90Rows = 128, kSm90GroupRows = 64, kSm90Threads = 384;
inline constexpr int kSm90PanelDims = 64;
inline constexpr int kSm90KeyPanel = kKeyTile * kSm90PanelDims * 2;     // bytes of 64 dims of a tile
inline constexpr int kSm90QueryPanel = kSm90Rows * kSm90PanelDims * 2;  // and of the queries

constexpr int sm90_panels(int dim) { return (dim + kSm90PanelDims - 1) / kSm90PanelDims; }
/// Of so many dims queries stay in shared memory, and the sums of the pieces before lie in device memory.
constexpr bool sm90_is_wide(int dim) { return dim > 128; }
/// Tiles of keys, and of values, under way.
inline constexpr int kSm90MaxStages = 4;
constexpr int sm90_stages(int dim) { return dim > 192 ? 2 : dim > 128 ? 3 : kSm90MaxStages; }

struct Sm90Token {
  int32_t sequence, begin, end, position;
};

/// Tokens [start, stop) of a unit, which are of one sequence, and the keys that they see.
struct Sm90Job {
  int64_t first_token;                   // of the unit
  int32_t start, stop, kv_head, head;    // head: the first one
  int32_t begin, end;                    // keys
  int32_t group_begin[2], group_end[2];  // those of a warpgroup's rows
  int32_t piece;
  int32_t last;  // no work: the end
};

struct Sm90Shared {
  uint64_t q_full, q_empty;
  uint64_t k_full[kSm90MaxStages], k_empty[kSm90MaxStages], v_full[kSm90MaxStages], v_empty[kSm90MaxStages];
  uint32_t readable[kSm90MaxStages][2];  // a bit a key
  Sm90Job job;
  Sm90Token tokens[kSm90Rows];
};

/// In this order: queries, keys, values, sums of the pieces before (not wide), Sm90Shared.
struct Sm90Places {
  int k, v, totals, shared, bytes;
};
constexpr Sm90Places sm90_places(int dim) {
  const int tile = sm90_panels(dim) * kSm90KeyPanel;
  Sm90Places at{};
  at.k = sm90_panels(dim) * kSm90QueryPanel;
  at.v = at.k + sm90_stages(dim) * tile;
  at.totals = at.v + sm90_stages(dim) * tile;
  at.shared = at.totals + (sm90_is_wide(dim) ? 0 : kSm90Rows * dim * 4);
  at.bytes = at.shared + static_cast<int>(sizeof(Sm90Shared));
  return at;
}

/// Units of work: token blocks of a batch by "columns" (batches times KV heads times chunks of their heads) by pieces.
/// Columns are taken in bands, whose keys and values the L2 holds; within a band the last tokens come first, since they
/// see the most keys.
struct Sm90Grid {
  int32_t heads, chunks;  // query heads of a unit, and units that a KV head needs for all of its own
  int32_t tokens;         // of a unit
  int32_t token_blocks, columns, pieces;
  int32_t band;
  int32_t split;        // units take one piece and leave its sums in memory
  int32_t box_keys;     // keys of a box: a tile, or a page where that is smaller
  int32_t aligned_out;  // rows of the result are whole chunks of 16 bytes
  float power;          // what scores are multiplied by to become powers of 2
};

struct Sm90Unit {
  int32_t token_block, column, piece;
};
GPUKIT_DEVICE Sm90Unit sm90_unit(const Sm90Grid& g, int64_t unit) {
  const int64_t of_band = int64_t{g.token_blocks} * g.band * g.pieces;
  const int32_t band = static_cast<int32_t>(unit / of_band);
  const int32_t rest = static_cast<int32_t>(unit - band * of_band);
  const int32_t left = g.columns - band * g.band;
  const int32_t side = (left < g.band ? left : g.band) * g.pieces;
  const int32_t at = rest % side;
  return {g.token_blocks - 1 - rest / side, band * g.band + at / g.pieces, at % g.pieces};
}

}  // namespace gpukit
