// attention_sm80: attention of 16-bit data on the tensor cores of any chip since SM 80. A block takes some tokens and
// some of the query heads of one KV head, up to 64 rows, and walks the keys that they see in tiles of 64; the keys of
// the next tile come while exponentials and values of this one are at work.
//
// Of many rows each warp has 16 and all columns; of up to 16 (a token being decoded) the warps share the keys of a
// tile, then the dims of the result. Every sum is made in one order (docs/determinism.md), so the bits are the same.
//
// The block walks all pieces and merges them, or one piece only (grid z), whose sums attention_sm80_merge merges.
#pragma once
#include "gpukit/ops/attention/attention_sm80_tile.cuh"
#include "gpukit/ops/attention/attention_softmax.cuh"
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/hopper/pdl.cuh"

namespace gpukit {

template <typename T, int kDim>
struct MmaAttention {
  static constexpr int kTileBytes = kKeyTile * kDim * 2, kPiece = key_piece(kDim);

  const AttentionParams& p;
  const MmaGrid& g;
  const AttentionArrays& a;
  MmaShared& s;
  Fault* fault;
  int64_t token;            // of the first row
  int kv_head, head, rows;  // the first query head; rows in use
  int first_query;          // of s.queries
  uint32_t q, k, v, raw;    // in shared memory
  float* totals;
  uint32_t lane_at;

  GPUKIT_DEVICE int lane() const { return static_cast<int>(threadIdx.x) % 32; }
  GPUKIT_DEVICE int warp() const { return static_cast<int>(threadIdx.x) / 32; }
  GPUKIT_DEVICE int64_t token_of(int r) const { return token + r / g.heads; }
  GPUKIT_DEVICE int head_of(int r) const { return head + r % g.heads; }
  /// The last block of a KV head may have more rows than heads.
  GPUKIT_DEVICE bool in_use(int r) const { return r < rows && head_of(r) < (kv_head + 1) * p.group; }
  GPUKIT_DEVICE const MmaQuery& query_at(int r) const { return s.queries[first_query + r / g.heads]; }

  GPUKIT_DEVICE void read_queries(const T* from) const {
    constexpr int kChunks = kDim / 8;
    for (int unit = threadIdx.x; unit < g.rows * kChunks; unit += 32 * kMmaWarps) {
      const int r = unit / kChunks, chunk = unit % kChunks, left = in_use(r) ? p.dim - chunk * 8 : 0;
      uint32_t values[4] = {};
      if (left > 0) {
        const T* row = from + row_place(p, p.q, token_of(r), head_of(r));
        if (left >= 8 && g.aligned_q != 0) {
          const uint4 all = *reinterpret_cast<const uint4*>(row + chunk * 8);
          values[0] = all.x, values[1] = all.y, values[2] = all.z, values[3] = all.w;
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i)
            if (i < left) values[i / 2] |= uint32_t{row[(chunk * 8 + i) * p.q.step].bits} << (i % 2 * 16);
        }
      }
      store_shared(q + chunk / 8 * g.rows * 128 + chunk_offset(r, chunk % 8), values);
    }
  }

  /// Where the keys of a tile lie. Those outside of [begin, end) are not read.
  GPUKIT_DEVICE void find_keys(MmaPlaces& to, int sequence, int tile, int begin, int end) const {
    if (threadIdx.x >= kKeyTile) return;
    const int i = threadIdx.x;
    const int key = tile + i;
    bool readable = key >= begin && key < end;
    if (readable) {
      const CacheSlot at = find_slot(p.cache, a.tables, sequence, key);
      readable = at.limit == 0;
      if (!readable) note_fault(fault, p.fault_op, at.bad, at.limit);
      const CacheStrides &ks = p.cache.k, &vs = p.cache.v;
      to.k[i] = at.page * ks.page + at.slot * ks.slot + kv_head * ks.head;
      to.v[i] = at.page * vs.page + at.slot * vs.slot + kv_head * vs.head;
      if (a.k_scale != nullptr)
        to.k_scale[i] = a.k_scale[at.page * ks.scale_page + at.slot * ks.scale_slot + kv_head * ks.scale_head];
      if (a.v_scale != nullptr)
        to.v_scale[i] = a.v_scale[at.page * vs.scale_page + at.slot * vs.scale_slot + kv_head * vs.scale_head];
    }
    const uint32_t bits = __ballot_sync(0xffffffffu, readable);
    if (lane() == 0) to.readable[warp()] = bits;
  }
  GPUKIT_DEVICE const float* value_scales(const MmaPlaces& at) const {
    return a.v_scale == nullptr ? nullptr : at.v_scale;
  }
  // Keys of the next tile come while values of this one are multiplied, values while scores are made. Codes have room
  // of their own: those of values come together with those of keys.
  GPUKIT_DEVICE void read_keys(const MmaPlaces& at) const {
    if (g.copy == TileCopy::codes) {
      request_codes<kDim>(raw, a.k, at.k, at.readable, p.dim);
      commit_copies();
      request_codes<kDim>(raw + kTileBytes / 2, a.v, at.v, at.readable, p.dim);
    } else {
      read_tile<T, kDim>(k, g.copy, p.cache.kind, a.k, at.k, nullptr, at.readable, p.cache.k.step, p.dim);
    }
    commit_copies();
  }
  GPUKIT_DEVICE void wait_keys(const MmaPlaces& at) const {
    if (g.copy != TileCopy::codes) return wait_copies<0>();
    wait_copies<1>();
    widen_codes<T, kDim>(k, raw, p.cache.kind, nullptr, at.readable, p.dim);
  }
  GPUKIT_DEVICE void read_values(const MmaPlaces& at) const {
    if (g.copy == TileCopy::codes) return;
    read_tile<T, kDim>(v, g.copy, p.cache.kind, a.v, at.v, value_scales(at), at.readable, p.cache.v.step, p.dim);
    commit_copies();
  }
  GPUKIT_DEVICE void wait_values(const MmaPlaces& at) const {
    wait_copies<0>();
    if (g.copy == TileCopy::codes)
      widen_codes<T, kDim>(v, raw + kTileBytes / 2, p.cache.kind, value_scales(at), at.readable, p.dim);
  }

  /// The score of row r and a key, from their product; in powers of 2.
  GPUKIT_DEVICE float score(float product, int r, int key, float key_scale) const {
    if (a.k_scale != nullptr) product *= key_scale;
    const float slope = a.slopes == nullptr ? 0.0f : a.slopes[head_of(r) * p.slope_step];
    float x = sloped(capped(product * p.scale, p.softcap), slope, static_cast<float>(query_at(r).position - key));
    if (p.mask != MaskKind::none) {
      const float bias = mask_value<T>(p, a.mask, token_of(r), head_of(r), key);
      if (bias == no_score()) return no_score();
      x += bias;
    }
    return x * kPowerOfE;
  }

  /// Products become scores; keys that row r does not see, -inf. x: columns 8 i + 2 t and the next of the tile, from
  /// `column` on, in places `place` and place + 1.
  template <int kBlocks>
  GPUKIT_DEVICE void make_scores(float (&x)[kBlocks][4], int place, int r, int tile, int column,
                                 const MmaPlaces& at) const {
    const bool used = in_use(r);
    const MmaQuery seen = used ? query_at(r) : MmaQuery{};
    const bool all = seen.begin <= tile && tile + kKeyTile <= seen.end && (at.readable[0] & at.readable[1]) == ~0u;
    const bool plain = g.plain != 0;
    if (all && plain) return;
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        asm volatile("" ::: "memory");  // one after the other: all at once would need too many registers
        const int key = column + 8 * i + lane() % 4 * 2 + e;
        const bool visible =
            tile + key >= seen.begin && tile + key < seen.end && (at.readable[key / 32] >> key % 32 & 1) != 0;
        float& value = x[i][place + e];
        value = !visible ? no_score() : plain ? value : score(value, r, tile + key, at.k_scale[key]);
      }
    }
  }

  /// Of up to 16 rows: the warps share keys, then dims.
  template <bool kShared>
  struct Sums {
    static constexpr int kBlocks = kShared ? kDim / 32 : kDim / 8;
    float values[kBlocks][4];
    RowState rows[2];  // of row lane / 4, and 8 further; each lane has its own sum
  };
  template <bool kShared>
  GPUKIT_DEVICE int row_of(int half) const {
    return (kShared ? 0 : warp() * kMmaWarpRows) + lane() / 4 + 8 * half;
  }
  /// The first dim of block i of this lane's sums.
  template <bool kShared>
  GPUKIT_DEVICE int dim_of(int i) const {
    const int step = kShared ? i / 2 * 4 + warp() : i / 2;
    return step * 16 + i % 2 * 8 + lane() % 4 * 2;
  }
  template <bool kShared>
  GPUKIT_DEVICE static void clear(Sums<kShared>& sums) {
#pragma unroll
    for (auto& block : sums.values)
#pragma unroll
      for (float& value : block) value = 0.0f;
    sums.rows[0] = sums.rows[1] = no_keys();
  }
  GPUKIT_DEVICE void add_tile_alone(Sums<false>& sums, float (&x)[8][4], int tile, const MmaPlaces& at) const {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      make_scores(x, 2 * half, row_of<false>(half), tile, 0, at);
      factor[half] = add_scores(sums.rows[half], x, half, g.power);
    }
    scale_rows(sums.values, factor);
#pragma unroll
    for (int i = 0; i < kKeyTile / 16; ++i) {
      const uint32_t weights[4] = {pack<T>(x[2 * i][0], x[2 * i][1]), pack<T>(x[2 * i][2], x[2 * i][3]),
                                   pack<T>(x[2 * i + 1][0], x[2 * i + 1][1]),
                                   pack<T>(x[2 * i + 1][2], x[2 * i + 1][3])};
      multiply_values<T>(sums.values, weights, v, 16 * i, 0, 1, p.dim, lane_at);
    }
  }

  /// This warp has 16 keys of the tile. Ends with exponentials in s.weights.
  GPUKIT_DEVICE void find_most_shared(float (&x)[2][4], int tile, const MmaPlaces& at) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      make_scores(x, 2 * half, row_of<true>(half), tile, warp() * 16, at);
      const float most =
          most_of_four(fmaxf(fmaxf(x[0][2 * half], x[0][2 * half + 1]), fmaxf(x[1][2 * half], x[1][2 * half + 1])));
      if (lane() % 4 == 0) s.most[warp()][row_of<true>(half)] = most;
    }
  }
  GPUKIT_DEVICE void add_tile_shared(Sums<true>& sums, float (&x)[2][4], uint32_t weights) const {
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row_of<true>(half);
      RowState& state = sums.rows[half];
      const float most = fmaxf(fmaxf(s.most[0][r], s.most[1][r]), fmaxf(s.most[2][r], s.most[3][r]));
      factor[half] = raise_most(state, most, g.power);
      s.sums[warp()][r][lane() % 4] = exponentials(x, 2 * half, g.power, finite_most(state.most) * g.power);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        store_word(weights + chunk_offset(r, 2 * warp() + i) + lane() % 4 * 4,
                   pack<T>(x[i][2 * half], x[i][2 * half + 1]));
    }
    scale_rows(sums.values, factor);
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row_of<true>(half), t = lane() % 4;
      const float sum = s.sums[0][r][t] + s.sums[1][r][t] + s.sums[2][r][t] + s.sums[3][r][t];
      sums.rows[half].sum = fmaf(sums.rows[half].sum, factor[half], sum);
    }
#pragma unroll
    for (int i = 0; i < kKeyTile / 16; ++i) {
      uint32_t fragment[4];
      load_matrices(fragment, fragment_at(weights, 0, 0, i, lane_at));
      multiply_values<T>(sums.values, fragment, v, 16 * i, warp(), 4, p.dim, lane_at);
    }
  }

  GPUKIT_DEVICE bool tells_row(bool shared) const { return lane() % 4 == 0 && (!shared || warp() == 0); }
  GPUKIT_DEVICE float& total_at(int i, int e) const { return totals[(i * 4 + e) * 32 * kMmaWarps + threadIdx.x]; }

  template <bool kShared>
  GPUKIT_DEVICE void merge_piece(const Sums<kShared>& sums, RowState (&total)[2]) const {
    const Merge m[2] = {merge_powers(total[0], sums.rows[0], g.power), merge_powers(total[1], sums.rows[1], g.power)};
#pragma unroll
    for (int i = 0; i < Sums<kShared>::kBlocks; ++i) {
      asm volatile("" ::: "memory");  // all loads at once would need too many registers
#pragma unroll
      for (int e = 0; e < 4; ++e)
        total_at(i, e) = fmaf(sums.values[i][e], m[e / 2].fresh, total_at(i, e) * m[e / 2].old);
    }
  }

  template <bool kShared>
  GPUKIT_DEVICE void write_piece(const Sums<kShared>& sums, float* pieces, int piece) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row_of<kShared>(half);
      if (!in_use(r)) continue;
      float* to = piece_of(pieces, p, token_of(r), head_of(r), g.pieces, piece);
#pragma unroll
      for (int i = 0; i < Sums<kShared>::kBlocks; ++i) {
        asm volatile("" ::: "memory");
        const int dim = dim_of<kShared>(i);
        if (dim < p.dim) to[dim] = sums.values[i][2 * half];
        if (dim + 1 < p.dim) to[dim + 1] = sums.values[i][2 * half + 1];
      }
      if (!tells_row(kShared)) continue;
      to[p.dim] = sums.rows[half].most;
      to[p.dim + 1] = sums.rows[half].sum;
    }
  }

  template <bool kShared>
  GPUKIT_DEVICE void write_results(const RowState (&total)[2], T* out, float* lse) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row_of<kShared>(half);
      if (!in_use(r)) continue;
      T* to = out + row_place(p, p.out, token_of(r), head_of(r));
      const float inverse = row_inverse(total[half]);
#pragma unroll 4
      for (int i = 0; i < Sums<kShared>::kBlocks; ++i) {
        const int dim = dim_of<kShared>(i);
        if (dim < p.dim) to[dim * p.out.step] = store<T>(finish_row(total_at(i, 2 * half), inverse));
        if (dim + 1 < p.dim) to[(dim + 1) * p.out.step] = store<T>(finish_row(total_at(i, 2 * half + 1), inverse));
      }
      if (lse != nullptr && tells_row(kShared))
        lse[row_place(p, p.lse, token_of(r), head_of(r))] = power_lse(total[half], g.power);
    }
  }

  /// Keys [begin, end) of a sequence, or (split) what of them lies in one piece.
  template <bool kShared>
  GPUKIT_DEVICE void run(T* out, float* lse, float* pieces, int piece, int sequence, int begin, int end) const {
    const bool split = g.split != 0;
    if (split) {
      begin = begin > piece * kPiece ? begin : piece * kPiece;
      end = end < (piece + 1) * kPiece ? end : (piece + 1) * kPiece;
      if (begin >= end) return;
    }
    const bool works = kShared || warp() * kMmaWarpRows < rows;
    const uint32_t weights = shared_address(s.weights);
    Sums<kShared> sums;
    RowState total[2] = {no_keys(), no_keys()};
    clear(sums);
    if (!split && works)
      for (int i = 0; i < Sums<kShared>::kBlocks; ++i)
        for (int e = 0; e < 4; ++e) total_at(i, e) = 0.0f;
    if (begin < end) {
      float x[kShared ? 2 : 8][4];
      // Before the first turn there is no tile yet.
      int tile = begin / kKeyTile * kKeyTile - kKeyTile;
      int slot = 1;
      find_keys(s.places[0], sequence, tile + kKeyTile, begin, end);
      __syncthreads();
      for (bool first = true;; first = false) {
        const bool more = tile + kKeyTile < end;
        if (more) read_keys(s.places[slot ^ 1]);
        if (!first) {
          if constexpr (kShared) {
            add_tile_shared(sums, x, weights);
          } else {
            if (works) add_tile_alone(sums, x, tile, s.places[slot]);
          }
          if (!more || (tile + kKeyTile) % kPiece == 0) {
            end_piece(sums.rows);
            if (split)
              write_piece(sums, pieces, piece);
            else if (works)
              merge_piece(sums, total);
            clear(sums);
          }
        }
        if (more) wait_keys(s.places[slot ^ 1]);
        __syncthreads();
        if (!more) break;
        tile += kKeyTile;
        slot ^= 1;
        read_values(s.places[slot]);
        if (tile + kKeyTile < end) find_keys(s.places[slot ^ 1], sequence, tile + kKeyTile, begin, end);
        if (works)
          multiply_keys<T>(x, q, g.rows, kShared ? 0 : warp() * kMmaWarpRows, k, kShared ? warp() * 16 : 0, p.dim,
                           lane_at);
        if constexpr (kShared) find_most_shared(x, tile, s.places[slot]);
        wait_values(s.places[slot]);
        __syncthreads();
      }
    }
    if (!split) write_results<kShared>(total, out, lse);
  }
};

/// kShared: blocks of up to 16 rows. Grid: blocks of tokens, KV heads times chunks, pieces when split. Shared memory:
/// mma_shared_bytes().
template <typename T, int kDim, bool kShared>
__global__ void __launch_bounds__(32 * kMmaWarps, 2)
    attention_sm80(T* out, float* lse, float* pieces, const T* q, const void* k, const void* v, const float* k_scale,
                   const float* v_scale, const int32_t* tables, const int32_t* lengths_or_ids,
                   const int32_t* lengths_or_positions, const void* mask, const float* slopes, Fault* fault,
                   const __grid_constant__ AttentionParams p, const __grid_constant__ MmaGrid g) {
  extern __shared__ uint4 memory[];
  start_in_turn();
  const AttentionArrays a{k, v, k_scale, v_scale, tables, lengths_or_ids, lengths_or_positions, mask, slopes};
  auto& s = *reinterpret_cast<MmaShared*>(memory);
  char* rest = reinterpret_cast<char*>(memory) + sizeof(MmaShared);
  constexpr int kTileBytes = MmaAttention<T, kDim>::kTileBytes;
  const int q_bytes = g.rows * kDim * 2, raw_bytes = g.copy == TileCopy::codes ? kTileBytes : 0;
  // The last tokens see the most keys.
  const int64_t first_token = static_cast<int64_t>(gridDim.x - 1 - blockIdx.x) * g.tokens;
  const int tokens = static_cast<int>(p.tokens - first_token < g.tokens ? p.tokens - first_token : g.tokens);
  const int kv_head = static_cast<int>(blockIdx.y) / g.chunks;
  for (int i = threadIdx.x; i < tokens; i += 32 * kMmaWarps) {
    const Query query = query_of(p, first_token + i, a.first, a.second);
    const bool any = query.begin < query.end;  // else they may be out of the range of int32_t
    s.queries[i] = {query.position, static_cast<int32_t>(query.sequence), any ? static_cast<int32_t>(query.begin) : 0,
                    any ? static_cast<int32_t>(query.end) : 0};
    if (query.limit != 0) note_fault(fault, p.fault_op, query.bad, query.limit);
  }
  __syncthreads();
  for (int start = 0; start < tokens;) {
    const auto [stop, begin, end] = find_run(s.queries, start, tokens);
    const MmaAttention<T, kDim> block{p,
                                      g,
                                      a,
                                      s,
                                      fault,
                                      first_token + start,
                                      kv_head,
                                      kv_head * p.group + static_cast<int>(blockIdx.y) % g.chunks * g.heads,
                                      (stop - start) * g.heads,
                                      start,
                                      shared_address(rest),
                                      shared_address(rest + q_bytes),
                                      shared_address(rest + q_bytes + kTileBytes),
                                      shared_address(rest + q_bytes + 2 * kTileBytes),
                                      reinterpret_cast<float*>(rest + q_bytes + 2 * kTileBytes + raw_bytes),
                                      lane_offset()};
    block.read_queries(q);
    block.template run<kShared>(out, lse, pieces, static_cast<int>(blockIdx.z), s.queries[start].sequence, begin, end);
    __syncthreads();
    start = stop;
  }
}

/// One block per token and head, its threads over dims.
template <typename T>
__global__ void __launch_bounds__(64)
    attention_sm80_merge(T* out, float* lse, const float* pieces, const int32_t* first, const int32_t* second,
                         const __grid_constant__ AttentionParams p, int32_t num_pieces, float power) {
  start_in_turn();
  for (int64_t unit = blockIdx.x; unit < p.tokens * p.heads; unit += gridDim.x) {
    const int64_t token = unit / p.heads, head = unit % p.heads;
    const Query query = query_of(p, token, first, second);
    for (int at = threadIdx.x; at < p.dim; at += blockDim.x) {
      RowState total = no_keys();
      float sum = 0.0f;
      const int64_t stop = query.begin < query.end ? query.end : 0;
      const int64_t keys = key_piece(p.dim);
      for (int64_t piece = query.begin / keys; piece * keys < stop; ++piece) {
        const float* from = pieces + (unit * num_pieces + piece) * (p.dim + 2);
        const Merge m = merge_powers(total, {from[p.dim], from[p.dim + 1]}, power);
        sum = fmaf(from[at], m.fresh, sum * m.old);
      }
      out[row_place(p, p.out, token, head) + at * p.out.step] = store<T>(finish_row(sum, row_inverse(total)));
      if (lse != nullptr && at == 0) lse[row_place(p, p.lse, token, head)] = power_lse(total, power);
    }
  }
}

}  // namespace gpukit
