// attention, any chip and any layout: a block takes some tokens and some of the query heads of one KV head, kQueryRows
// rows in all, and walks the keys that they see in tiles. Keys, then values of a tile lie in shared memory as float32.
// Every sum is made in the order of the CPU (docs/attention.md), so the bits are the same.
//
// The block walks all pieces and merges them, or one piece only (grid z), whose sums attention_merge merges.
#pragma once
#include "gpukit/ops/attention/attention_rows.cuh"
#include "gpukit/ops/attention/exp_below.cuh"
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/float8.cuh"

namespace gpukit {

GPUKIT_DEVICE float cache_value(const void* data, CacheKind kind, int64_t at) {
  switch (kind) {
    case CacheKind::float16: return to_float(static_cast<const half*>(data)[at]);
    case CacheKind::bfloat16: return to_float(static_cast<const bfloat16*>(data)[at]);
    case CacheKind::float32: return static_cast<const float*>(data)[at];
    case CacheKind::float8_e4m3: return to_float(static_cast<const float8_e4m3*>(data)[at]);
    default: return static_cast<float>(static_cast<const int8_t*>(data)[at]);
  }
}

GPUKIT_DEVICE Merge merge_rows(RowState& total, const RowState& piece) {
  const float most = total.most < piece.most ? piece.most : total.most;
  const Merge m{total.most == no_score() ? 0.0f : exp_below(total.most - most),
                piece.most == no_score() ? 0.0f : exp_below(piece.most - most)};
  total.sum = fmaf(piece.sum, m.fresh, total.sum * m.old);
  total.most = most;
  return m;
}

template <typename T, int kDim>
struct AttentionBlock {
  // Of the products with values: a thread has some columns of every kRowGroups-th row.
  static constexpr int kPiece = key_piece(kDim);
  static constexpr int kColumns = kDim > kAttentionThreads ? kDim / kAttentionThreads : 1;
  static constexpr int kRowGroups = kDim < kAttentionThreads ? kAttentionThreads / kDim : 1;
  static constexpr int kRows = kQueryRows / kRowGroups;
  using Sums = float[kRows][kColumns];

  const AttentionParams& p;
  const AttentionGrid& g;
  const AttentionArrays& a;
  AttentionShared<kDim>& s;
  Fault* fault;
  int64_t token, sequence, kv_head;  // of the first row
  int head, rows;                    // the first query head; rows in use
  int first_query;                   // of s.queries

  GPUKIT_DEVICE int column(int j) const { return (threadIdx.x + j * kAttentionThreads) % kDim; }
  GPUKIT_DEVICE int row(int i) const { return i * kRowGroups + threadIdx.x / kDim % kRowGroups; }
  GPUKIT_DEVICE int64_t token_of(int r) const { return token + r / g.heads; }
  GPUKIT_DEVICE int64_t head_of(int r) const { return head + r % g.heads; }
  /// The last block of a KV head may have more rows than heads.
  GPUKIT_DEVICE bool in_use(int r) const { return r < rows && head_of(r) < (kv_head + 1) * p.group; }
  GPUKIT_DEVICE const Query& query_at(int r) const { return s.queries[first_query + r / g.heads]; }

  GPUKIT_DEVICE void read_queries(const T* q) const {
    for (int i = threadIdx.x; i < kQueryRows * kDim; i += kAttentionThreads) {
      const int r = i / kDim, at = i % kDim;
      s.q[r][at] = in_use(r) && at < p.dim ? load(q[row_place(p, p.q, token_of(r), head_of(r)) + at * p.q.step]) : 0.0f;
    }
  }

  /// Where keys [from, to) of the tile lie; the others are not read.
  GPUKIT_DEVICE void find_keys(int64_t tile, int64_t from, int64_t to) const {
    if (threadIdx.x >= kKeyTile) return;
    const int i = threadIdx.x;
    const int64_t key = tile + i;
    s.readable[i] = false;
    if (key < from || key >= to) return;
    const CacheSlot at = find_slot(p.cache, a.tables, sequence, key);
    if (at.limit != 0) {
      note_fault(fault, p.fault_op, at.bad, at.limit);
      return;
    }
    const CacheStrides &k = p.cache.k, &v = p.cache.v;
    s.readable[i] = true;
    s.k_at[i] = at.page * k.page + at.slot * k.slot + kv_head * k.head;
    s.v_at[i] = at.page * v.page + at.slot * v.slot + kv_head * v.head;
    s.k_scale[i] = a.k_scale == nullptr
                       ? 1.0f
                       : a.k_scale[at.page * k.scale_page + at.slot * k.scale_slot + kv_head * k.scale_head];
    s.v_scale[i] = a.v_scale == nullptr
                       ? 1.0f
                       : a.v_scale[at.page * v.scale_page + at.slot * v.scale_slot + kv_head * v.scale_head];
  }

  GPUKIT_DEVICE void read_tile(const void* data, const int64_t* places, const float* scales, int64_t step) const {
    for (int i = threadIdx.x; i < kKeyTile * kDim; i += kAttentionThreads) {
      const int key = i / kDim, at = i % kDim;
      float value = 0.0f;
      if (s.readable[key] && at < p.dim) {
        value = cache_value(data, p.cache.kind, places[key] + at * step);
        if (p.cache.kind >= CacheKind::float8_e4m3) value *= scales[key];
      }
      s.tile[key][at] = value;
    }
  }

  /// What softmax takes of the product q.k of a row and column `i` of the tile.
  GPUKIT_DEVICE float score(float product, int r, int64_t tile, int i) const {
    const Query& q = query_at(r);
    if (!s.readable[i] || tile + i < q.begin || tile + i >= q.end) return no_score();
    const float slope = a.slopes == nullptr ? 0.0f : a.slopes[head_of(r) * p.slope_step];
    const float x = sloped(capped(product * p.scale, p.softcap), slope, static_cast<float>(q.position - tile - i));
    if (p.mask == MaskKind::none) return x;
    const float bias = mask_value<T>(p, a.mask, token_of(r), head_of(r), tile + i);
    return bias == no_score() ? no_score() : x + bias;
  }

  /// A thread has one key and every second row.
  GPUKIT_DEVICE void make_scores(int64_t tile) const {
    constexpr int kEach = kQueryRows / 2;
    const int key = threadIdx.x % kKeyTile, first = threadIdx.x / kKeyTile;
    float sum[kEach] = {};
    for (int i = 0; i < p.dim; ++i) {
      const float k = s.tile[key][i];
#pragma unroll
      for (int r = 0; r < kEach; ++r) sum[r] = fmaf(s.q[2 * r + first][i], k, sum[r]);
    }
#pragma unroll
    for (int r = 0; r < kEach; ++r) {
      const int at = 2 * r + first;
      s.scores[at][key] = in_use(at) ? score(sum[r], at, tile, key) : no_score();
    }
  }

  /// Scores become exponentials below the new maximum: one warp per row. Lanes i and i + 16 do the same.
  GPUKIT_DEVICE void softmax_rows() const {
    const int lane = threadIdx.x % 16;
    for (int r = threadIdx.x / 32; r < kQueryRows; r += kAttentionThreads / 32) {
      const RowState old = s.piece[r];
      float x[4];
      float most = no_score();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = s.scores[r][lane + 16 * i];
        most = i == 0 || most < x[i] ? x[i] : most;
      }
      for (int mask = 8; mask > 0; mask /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, most, mask);
        // The lower lane's value comes first, as on the CPU, so that both agree on what is no number.
        const float low = (lane & mask) == 0 ? most : other, high = (lane & mask) == 0 ? other : most;
        most = low < high ? high : low;
      }
      most = old.most < most ? most : old.most;
      float sum = 0.0f;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[i] = x[i] == no_score() ? 0.0f : most == no_score() ? x[i] : exp_below(x[i] - most);
        sum = i == 0 ? x[i] : sum + x[i];
      }
      for (int mask = 8; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      const float factor = old.most == no_score() ? 0.0f : exp_below(old.most - most);
      __syncwarp();
      if (threadIdx.x % 32 < 16) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s.scores[r][lane + 16 * i] = x[i];
        if (lane == 0) {
          s.factor[r] = factor;
          s.piece[r] = {most, fmaf(old.sum, factor, sum)};
        }
      }
    }
  }

  GPUKIT_DEVICE void add_values(Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] *= s.factor[row(i)];
    for (int key = 0; key < kKeyTile; ++key) {
      float v[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) v[j] = s.tile[key][column(j)];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const float weight = s.scores[row(i)][key];
        if (weight == 0.0f) continue;  // 0 times infinity is no number
#pragma unroll
        for (int j = 0; j < kColumns; ++j) sums[i][j] = fmaf(weight, v[j], sums[i][j]);
      }
    }
  }

  /// The sums over keys [begin, end) of the piece that begins at `first`.
  GPUKIT_DEVICE void add_piece(int64_t first, int64_t begin, int64_t end, Sums& sums) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) sums[i][j] = 0.0f;
    if (threadIdx.x < kQueryRows) s.piece[threadIdx.x] = no_keys();
    const int64_t last = first + kPiece < end ? first + kPiece : end;
    const int64_t start = begin / kKeyTile * kKeyTile;
    for (int64_t tile = start > first ? start : first; tile < last; tile += kKeyTile) {
      __syncthreads();
      find_keys(tile, begin, last);
      __syncthreads();
      read_tile(a.k, s.k_at, s.k_scale, p.cache.k.step);
      __syncthreads();
      make_scores(tile);
      __syncthreads();
      softmax_rows();
      read_tile(a.v, s.v_at, s.v_scale, p.cache.v.step);
      __syncthreads();
      add_values(sums);
    }
    __syncthreads();
  }

  GPUKIT_DEVICE void merge_into(Sums& total, const Sums& sums) const {
    if (threadIdx.x < kQueryRows) s.merge[threadIdx.x] = merge_rows(s.total[threadIdx.x], s.piece[threadIdx.x]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        total[i][j] = fmaf(sums[i][j], s.merge[row(i)].fresh, total[i][j] * s.merge[row(i)].old);
    __syncthreads();
  }

  /// f(row, column, value) of the sums that this thread has.
  template <typename F>
  GPUKIT_DEVICE void each(const Sums& sums, F&& f) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        if (in_use(row(i)) && column(j) < p.dim) f(row(i), column(j), sums[i][j]);
  }

  GPUKIT_DEVICE void write_results(const Sums& total, T* out, float* lse) const {
    each(total, [&](int r, int at, float value) {
      out[row_place(p, p.out, token_of(r), head_of(r)) + at * p.out.step] = store<T>(row_result(value, s.total[r]));
    });
    if (lse != nullptr && threadIdx.x < kQueryRows && in_use(threadIdx.x))
      lse[row_place(p, p.lse, token_of(threadIdx.x), head_of(threadIdx.x))] = row_lse(s.total[threadIdx.x]);
  }

  /// [token, head, piece]: the sums of a piece, then its maximum and sum of exponentials.
  GPUKIT_DEVICE void write_piece(const Sums& sums, int64_t piece, float* pieces) const {
    const int64_t width = p.dim + 2;
    auto place = [&](int r) { return ((token_of(r) * p.heads + head_of(r)) * g.pieces + piece) * width; };
    each(sums, [&](int r, int at, float value) { pieces[place(r) + at] = value; });
    if (threadIdx.x < kQueryRows && in_use(threadIdx.x)) {
      pieces[place(threadIdx.x) + p.dim] = s.piece[threadIdx.x].most;
      pieces[place(threadIdx.x) + p.dim + 1] = s.piece[threadIdx.x].sum;
    }
  }
};

/// Grid: blocks of tokens, KV heads times chunks, pieces when split. Shared memory: AttentionShared<kDim>.
template <typename T, int kDim>
__global__ void __launch_bounds__(kAttentionThreads, 2)
    attention(T* out, float* lse, float* pieces, const T* q, const void* k, const void* v, const float* k_scale,
              const float* v_scale, const int32_t* tables, const int32_t* lengths_or_ids,
              const int32_t* lengths_or_positions, const void* mask, const float* slopes, Fault* fault,
              const __grid_constant__ AttentionParams p, const __grid_constant__ AttentionGrid g) {
  extern __shared__ float4 memory[];
  const AttentionArrays a{k, v, k_scale, v_scale, tables, lengths_or_ids, lengths_or_positions, mask, slopes};
  auto& s = *reinterpret_cast<AttentionShared<kDim>*>(memory);
  const int64_t first_token = static_cast<int64_t>(blockIdx.x) * g.tokens;
  const int tokens = static_cast<int>(p.tokens - first_token < g.tokens ? p.tokens - first_token : g.tokens);
  const int64_t kv_head = blockIdx.y / g.chunks;
  if (threadIdx.x < tokens) {
    const Query query = query_of(p, first_token + threadIdx.x, a.first, a.second);
    s.queries[threadIdx.x] = query;
    if (query.limit != 0) note_fault(fault, p.fault_op, query.bad, query.limit);
  }
  __syncthreads();
  for (int start = 0; start < tokens;) {
    const auto [stop, begin, end] = find_run(s.queries, start, tokens);
    const AttentionBlock<T, kDim> block{p,
                                        g,
                                        a,
                                        s,
                                        fault,
                                        first_token + start,
                                        s.queries[start].sequence,
                                        kv_head,
                                        static_cast<int>(kv_head * p.group + blockIdx.y % g.chunks * g.heads),
                                        (stop - start) * g.heads,
                                        start};
    typename AttentionBlock<T, kDim>::Sums sums, total;
    block.read_queries(q);
    if (g.split != 0) {
      const int64_t first = static_cast<int64_t>(blockIdx.z) * block.kPiece;
      if (first < end && first + block.kPiece > begin) {
        block.add_piece(first, begin, end, sums);
        block.write_piece(sums, blockIdx.z, pieces);
      }
    } else {
#pragma unroll
      for (auto& row : total)
#pragma unroll
        for (float& value : row) value = 0.0f;
      if (threadIdx.x < kQueryRows) s.total[threadIdx.x] = no_keys();
      for (int64_t first = begin / block.kPiece * block.kPiece; first < end; first += block.kPiece) {
        block.add_piece(first, begin, end, sums);
        block.merge_into(total, sums);
      }
      __syncthreads();
      block.write_results(total, out, lse);
    }
    __syncthreads();
    start = stop;
  }
}

/// One block per token and head, its threads over dims.
template <typename T>
__global__ void __launch_bounds__(64)
    attention_merge(T* out, float* lse, const float* pieces, const int32_t* first, const int32_t* second,
                    const __grid_constant__ AttentionParams p, const __grid_constant__ AttentionGrid g) {
  const int64_t width = p.dim + 2, keys = key_piece(p.dim);
  for (int64_t unit = blockIdx.x; unit < p.tokens * p.heads; unit += gridDim.x) {
    const int64_t token = unit / p.heads, head = unit % p.heads;
    const Query query = query_of(p, token, first, second);
    for (int at = threadIdx.x; at < p.dim; at += blockDim.x) {
      RowState total = no_keys();
      float sum = 0.0f;
      const int64_t stop = query.begin < query.end ? query.end : 0;
      for (int64_t piece = query.begin / keys; piece * keys < stop; ++piece) {
        const float* from = pieces + (unit * g.pieces + piece) * width;
        const Merge m = merge_rows(total, {from[p.dim], from[p.dim + 1]});
        sum = fmaf(from[at], m.fresh, sum * m.old);
      }
      out[row_place(p, p.out, token, head) + at * p.out.step] = store<T>(row_result(sum, total));
      if (lse != nullptr && at == 0) lse[row_place(p, p.lse, token, head)] = row_lse(total);
    }
  }
}

}  // namespace gpukit
