// What the attention of both backends is told, and which keys a query sees. Strides are in elements. Shared by host and
// kernels.
#pragma once
#include "gpukit/ops/common/cache.cuh"

namespace gpukit {

/// Keys are taken in tiles at multiples of kKeyTile, and tiles in pieces at multiples of key_piece(). Each piece is a
/// softmax of its own; pieces are merged in ascending order.
inline constexpr int kKeyTile = 64;
constexpr int key_piece(int dim) { return dim > 128 ? 1024 : 512; }
inline constexpr int kMaxHeadDim = 256;
/// Of a block of the plain kernel.
inline constexpr int kAttentionThreads = 128, kQueryRows = 16;

enum class MaskKind : int32_t { none, boolean, float32, data };  // data: of q's dtype

struct RowStrides {
  int64_t batch, token, head, step;
};

struct AttentionParams {
  CacheLayout cache;        // attention(): contiguous, its batches the sequences
  int64_t tokens, queries;  // token t is query t % queries of batch t / queries
  int64_t first_step, second_step;
  RowStrides q, out, lse;
  int64_t mask_batch, mask_head, mask_query, mask_key;
  int64_t slope_step;
  int64_t first_position;
  int64_t window, chunk;  // 0: none
  int32_t heads, group;   // query heads of one KV head
  int32_t dim;
  int32_t over_cache;  // first and second are a token's sequence id and position; else a batch's lengths, or null
  int32_t causal, positioned;  // positioned: queries begin at first_position, not at keys - queries
  MaskKind mask;
  float scale, softcap;  // 0: no cap
  int32_t fault_op;
};

/// How the kernels divide the work; see attention.cuh.
struct AttentionGrid {
  int32_t heads, chunks;  // query heads of a block, and blocks that a KV head needs for all of its own
  int32_t tokens;         // of a block
  int32_t split, pieces;  // split: a block takes one piece and leaves its sums in memory
};

/// A token's sequence, position and keys [begin, end); none when end <= begin. Where limit is not 0, `bad` is a value
/// out of range.
struct Query {
  int64_t sequence, position, begin, end;
  int64_t bad, limit;
};

GPUKIT_DEVICE Query no_query(int64_t bad, int64_t limit) { return {0, 0, 0, 0, bad, limit}; }

GPUKIT_DEVICE Query query_of(const AttentionParams& p, int64_t token, const int32_t* first, const int32_t* second) {
  const int64_t capacity = p.cache.max_pages * p.cache.page_size;
  Query q{};
  if (p.over_cache != 0) {
    q.sequence = first[token * p.first_step];
    if (q.sequence == -1) return no_query(0, 0);
    if (!in_range(q.sequence, p.cache.sequences))
      return no_query(q.sequence, p.cache.sequences > 0 ? p.cache.sequences : 1);
    q.position = second[token * p.second_step];
    if (!in_range(q.position, capacity)) return no_query(q.position, capacity > 0 ? capacity : 1);
    q.end = q.position + 1;
  } else {
    q.sequence = token / p.queries;
    const int64_t query = token % p.queries;
    const int64_t queries = first == nullptr ? p.queries : first[q.sequence * p.first_step];
    const int64_t keys = second == nullptr ? capacity : second[q.sequence * p.second_step];
    if (!in_range(queries, p.queries + 1)) return no_query(queries, p.queries + 1);
    if (!in_range(keys, capacity + 1)) return no_query(keys, capacity + 1);
    if (query >= queries) return no_query(0, 0);
    q.position = (p.positioned != 0 ? p.first_position : keys - queries) + query;
    q.end = p.causal != 0 && q.position < keys ? q.position + 1 : keys;
    if (p.window > 0 && q.position + p.window < q.end) q.end = q.position + p.window;
  }
  if (p.window > 0 && q.position - p.window + 1 > 0) q.begin = q.position - p.window + 1;
  if (p.chunk > 0) {
    const int64_t first_of_chunk = q.position / p.chunk * p.chunk;
    if (first_of_chunk > q.begin) q.begin = first_of_chunk;
  }
  return q;
}

/// The maximum and the sum of exponentials of a row so far.
struct RowState {
  float most, sum;
};
/// How a row's sums over some keys, and those over the next piece, become one.
struct Merge {
  float old, fresh;
};

/// The shared memory of a block. kDim: the head dim rounded up to 64, 128 or 256.
template <int kDim>
struct alignas(16) AttentionShared {
  float q[kQueryRows][kDim];
  float tile[kKeyTile][kDim + 1];  // odd, so that a warp's keys lie in different banks
  float scores[kQueryRows][kKeyTile];
  float factor[kQueryRows];
  RowState piece[kQueryRows], total[kQueryRows];
  Merge merge[kQueryRows];
  Query queries[kQueryRows];
  int64_t k_at[kKeyTile], v_at[kKeyTile];
  float k_scale[kKeyTile], v_scale[kKeyTile];
  bool readable[kKeyTile];
};

}  // namespace gpukit
