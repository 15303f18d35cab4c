#include <algorithm>
#include <vector>

#include "gpukit/ops/attention/attention_impl.h"
#include "gpukit/ops/attention/attention_loops.h"
#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

// The order of the uses in run_host.
enum Argument {
  arg_out,
  arg_lse,
  arg_q,
  arg_k,
  arg_v,
  arg_k_scale,
  arg_v_scale,
  arg_tables,
  arg_first,
  arg_second,
  arg_mask,
  arg_slopes
};

/// Tokens side by side of one sequence.
struct Run {
  int64_t token, count, sequence;
};

constexpr int64_t kBlockRows = 128;  // about so many queries share what is read of the keys
constexpr int64_t kDimGrain = 32;    // rows of results are padded to whole registers

/// One call: runs of tokens by KV heads. All that a query meets is added in an order of its own.
template <typename T>
class Attention {
 public:
  Attention(const AttentionParams& p, const AttentionLoops& loops, void* const* a, runtime::FaultWord* fault)
      : p_(p), loops_(loops), a_(a), fault_(fault), width_(round_up(p.dim, kDimGrain)) {}

  void run() const {
    std::vector<Query> queries(static_cast<size_t>(p_.tokens));
    for (int64_t token = 0; token < p_.tokens; ++token) {
      Query& q = queries[static_cast<size_t>(token)];
      q = query_of(p_, token, pointer<int32_t>(arg_first), pointer<int32_t>(arg_second));
      if (q.limit != 0) runtime::note_fault(fault_, p_.fault_op, q.bad, q.limit);
    }
    const std::vector<Run> runs = cut(queries);
    const int64_t kv_heads = p_.heads / p_.group;
    parallel_for(static_cast<int64_t>(runs.size()) * kv_heads, 1, [&](int64_t begin, int64_t end) {
      Scratch scratch(*this);
      for (int64_t i = begin; i < end; ++i)
        attend(runs[static_cast<size_t>(i / kv_heads)], i % kv_heads, queries.data(), &scratch);
    });
  }

 private:
  /// What one thread works in. A row is one query head of one token.
  struct Scratch {
    explicit Scratch(const Attention& a)
        : rows(std::max<int64_t>(kBlockRows, a.p_.group)),
          q(size(round_up(rows, a.loops_.product.rows) * a.p_.dim)),
          piece(size(rows * a.width_)),
          total(size(rows * a.width_)),
          k_rows(size(int64_t{kKeyTile} * a.p_.dim)),
          k(size(int64_t{kKeyTile} * a.p_.dim)),
          v(size(kKeyTile * a.width_)),
          piece_state(size(rows)),
          total_state(size(rows)) {}
    static size_t size(int64_t n) { return static_cast<size_t>(n); }

    int64_t rows;
    std::vector<float> q, piece, total, k_rows, k, v;
    std::vector<SoftmaxState> piece_state, total_state;
    bool readable[kKeyTile];
    bool all_readable, finite;  // of the tile
    alignas(64) float scores[kMaxBlockRows * kKeyTile], packed[kMaxBlockRows * kKeyTile], bias[kKeyTile];
  };

  template <typename V>
  const V* pointer(Argument i) const {
    return static_cast<const V*>(a_[i]);
  }

  std::vector<Run> cut(const std::vector<Query>& queries) const {
    const int64_t most = std::max<int64_t>(1, kBlockRows / p_.group);
    std::vector<Run> runs;
    for (int64_t token = 0; token < p_.tokens; ++token) {
      const int64_t sequence = queries[static_cast<size_t>(token)].sequence;
      if (!runs.empty() && runs.back().sequence == sequence && runs.back().count < most)
        ++runs.back().count;
      else
        runs.push_back({token, 1, sequence});
    }
    return runs;
  }

  int64_t head_of(int64_t row, int64_t kv_head) const { return kv_head * p_.group + row % p_.group; }

  int64_t place(const RowStrides& s, int64_t token, int64_t head) const {
    return token / p_.queries * s.batch + token % p_.queries * s.token + head * s.head;
  }

  void attend(const Run& run, int64_t kv_head, const Query* all_queries, Scratch* s) const {
    const Query* const queries = all_queries + run.token;
    const int64_t rows = run.count * p_.group;
    int64_t begin = INT64_MAX, end = 0;
    for (int64_t i = 0; i < run.count; ++i)
      if (queries[i].begin < queries[i].end) {
        begin = std::min(begin, queries[i].begin);
        end = std::max(end, queries[i].end);
      }
    std::fill_n(s->total.begin(), rows * width_, 0.0f);
    std::fill_n(s->total_state.begin(), rows, SoftmaxState{});
    if (begin < end) {
      pack_queries(run, kv_head, s);
      const int64_t keys = key_piece(p_.dim);
      for (int64_t first = begin / keys * keys; first < end; first += keys) {
        std::fill_n(s->piece.begin(), rows * width_, 0.0f);
        std::fill_n(s->piece_state.begin(), rows, SoftmaxState{});
        const int64_t last = std::min(first + keys, end);
        for (int64_t tile = std::max(first, begin / kKeyTile * kKeyTile); tile < last; tile += kKeyTile) {
          if (!work_wanted()) return;
          read_tile(run.sequence, kv_head, tile, std::max(begin, tile), std::min(last, tile + kKeyTile), s);
          for (int64_t row = 0; row < rows; row += loops_.product.rows)
            add_tile(run, kv_head, queries, tile, row, std::min<int64_t>(loops_.product.rows, rows - row), s);
        }
        for (int64_t row = 0; row < rows; ++row) merge(row, s);
      }
    }
    for (int64_t row = 0; row < rows; ++row) write_row(run, row, kv_head, s);
  }

  void pack_queries(const Run& run, int64_t kv_head, Scratch* s) const {
    const int64_t rows = run.count * p_.group;
    float* const staged = s->piece.data();
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = pointer<T>(arg_q) + place(p_.q, run.token + row / p_.group, head_of(row, kv_head));
      for (int64_t i = 0; i < p_.dim; ++i) staged[row * width_ + i] = load(from[i * p_.q.step]);
    }
    loops_.product.pack_rows(s->q.data(), staged, rows, width_, p_.dim, 1);
  }

  /// Keys [from, to) of the tile; the others are 0.
  void read_tile(int64_t sequence, int64_t kv_head, int64_t tile, int64_t from, int64_t to, Scratch* s) const {
    s->all_readable = s->finite = true;
    auto clear = [&](int64_t begin, int64_t end) {
      std::fill(s->k_rows.begin() + (begin - tile) * p_.dim, s->k_rows.begin() + (end - tile) * p_.dim, 0.0f);
      std::fill(s->v.begin() + (begin - tile) * width_, s->v.begin() + (end - tile) * width_, 0.0f);
    };
    clear(tile, from);
    clear(to, tile + kKeyTile);
    std::fill_n(s->readable, kKeyTile, true);
    bool packed = false;  // the keys, straight from the cache
    for (int64_t key = from; key < to;) {
      const CacheSlot at = find_slot(p_.cache, pointer<int32_t>(arg_tables), sequence, key);
      const int64_t stop = std::min(to, key + p_.cache.page_size - key % p_.cache.page_size);
      if (at.limit != 0) {
        runtime::note_fault(fault_, p_.fault_op, at.bad, at.limit);
        clear(key, stop);
        std::fill(s->readable + (key - tile), s->readable + (stop - tile), false);
        s->all_readable = false;
      } else {
        if (stop - key == kKeyTile && p_.cache.kind == CacheKind::float32 && p_.cache.k.step == 1) {
          const CacheStrides& k = p_.cache.k;
          loops_.product.pack_columns(s->k.data(),
                                      pointer<float>(arg_k) + at.page * k.page + at.slot * k.slot + kv_head * k.head,
                                      kKeyTile, k.slot, p_.dim, 1);
          packed = true;
        } else {
          for (int64_t i = key; i < stop; ++i)
            read_head(p_.cache.k, arg_k, arg_k_scale, at.page, at.slot + (i - key), kv_head,
                      s->k_rows.data() + (i - tile) * p_.dim);
        }
        for (int64_t i = key; i < stop; ++i)
          if (!read_head(p_.cache.v, arg_v, arg_v_scale, at.page, at.slot + (i - key), kv_head,
                         s->v.data() + (i - tile) * width_))
            s->finite = false;
      }
      key = stop;
    }
    if (!packed) loops_.product.pack_columns(s->k.data(), s->k_rows.data(), kKeyTile, p_.dim, p_.dim, 1);
  }

  bool read_head(const CacheStrides& c, Argument data, Argument scales, int64_t page, int64_t slot, int64_t head,
                 float* to) const {
    const auto* scale = pointer<float>(scales);
    return loops_.read(
        to, a_[data], p_.cache.kind, page * c.page + slot * c.slot + head * c.head, p_.dim, c.step,
        scale == nullptr ? 1.0f : scale[page * c.scale_page + slot * c.scale_slot + head * c.scale_head]);
  }

  /// One tile of keys for up to loops_.product.rows rows from `first`.
  void add_tile(const Run& run, int64_t kv_head, const Query* queries, int64_t tile, int64_t first, int64_t count,
                Scratch* s) const {
    auto query = [&](int64_t row) -> const Query& { return queries[(first + row) / p_.group]; };
    auto sees = [&](int64_t row) {
      return std::max(query(row).begin, tile) < std::min(query(row).end, tile + kKeyTile);
    };
    bool any = false;
    for (int64_t row = 0; row < count; ++row) any = any || sees(row);
    if (!any) return;
    const auto accumulate = loops_.product.accumulate[static_cast<size_t>(count - 1)];
    for (int64_t c = 0; c < kKeyTile; c += loops_.product.columns)
      accumulate(s->scores + c, kKeyTile, s->q.data() + first * p_.dim, s->k.data() + c * p_.dim,
                 loops_.product.columns, p_.dim, true);
    float* const sums = s->piece.data() + first * width_;
    for (int64_t row = 0; row < count; ++row) {
      const int64_t head = head_of(first + row, kv_head);
      const Query& q = query(row);
      ScoreRow r{.scale = p_.scale,
                 .softcap = p_.softcap,
                 .slope = a_[arg_slopes] == nullptr ? 0.0f : pointer<float>(arg_slopes)[head * p_.slope_step],
                 .distance = q.position - tile,
                 .from = static_cast<int>(std::clamp<int64_t>(q.begin - tile, 0, kKeyTile)),
                 .to = static_cast<int>(std::clamp<int64_t>(q.end - tile, 0, kKeyTile)),
                 .bias = nullptr};
      if (p_.mask != MaskKind::none || !s->all_readable) {
        fill_bias(run.token + (first + row) / p_.group, head, tile, r.from, r.to, s);
        r.bias = s->bias;
      }
      const float factor =
          loops_.softmax(s->scores + row * kKeyTile, r, &s->piece_state[static_cast<size_t>(first + row)]);
      if (factor != 1.0f) loops_.scale(sums + row * width_, width_, factor);
    }
    if (!s->finite) {
      add_values_one_by_one(count, sums, s);
      return;
    }
    loops_.product.pack_rows(s->packed, s->scores, count, kKeyTile, kKeyTile, 1);
    for (int64_t c = 0; c < width_; c += loops_.product.columns)
      accumulate(sums + c, width_, s->packed, s->v.data() + c, width_, kKeyTile, false);
  }

  /// What has no weight is left out: 0 times infinity is no number.
  void add_values_one_by_one(int64_t count, float* sums, Scratch* s) const {
    for (int64_t row = 0; row < count; ++row)
      for (int64_t key = 0; key < kKeyTile; ++key) {
        const float weight = s->scores[row * kKeyTile + key];
        if (weight == 0.0f) continue;
        for (int64_t i = 0; i < p_.dim; ++i)
          sums[row * width_ + i] =
              std::fma(weight, s->v[static_cast<size_t>(key * width_ + i)], sums[row * width_ + i]);
      }
  }

  /// Columns [from, to) of the mask; what cannot be read is not seen.
  void fill_bias(int64_t token, int64_t head, int64_t tile, int from, int to, Scratch* s) const {
    const int64_t row = token / p_.queries * p_.mask_batch + head * p_.mask_head + token % p_.queries * p_.mask_query;
    for (int i = from; i < to; ++i) {
      const int64_t at = row + (tile + i) * p_.mask_key;
      float value = 0.0f;
      switch (p_.mask) {
        case MaskKind::none: break;
        case MaskKind::boolean: value = pointer<bool>(arg_mask)[at] ? 0.0f : kNoScore; break;
        case MaskKind::float32: value = pointer<float>(arg_mask)[at]; break;
        case MaskKind::data: value = load(pointer<T>(arg_mask)[at]); break;
      }
      s->bias[i] = s->readable[i] ? value : kNoScore;
    }
    std::fill(s->bias, s->bias + from, kNoScore);
    std::fill(s->bias + to, s->bias + kKeyTile, kNoScore);
  }

  void merge(int64_t row, Scratch* s) const {
    const SoftmaxState& piece = s->piece_state[static_cast<size_t>(row)];
    SoftmaxState& total = s->total_state[static_cast<size_t>(row)];
    const float most = std::max(total.most, piece.most);
    const float old = total.most == kNoScore ? 0.0f : exp_below(total.most - most);
    const float fresh = piece.most == kNoScore ? 0.0f : exp_below(piece.most - most);
    total.sum = std::fma(piece.sum, fresh, total.sum * old);
    total.most = most;
    loops_.merge(s->total.data() + row * width_, s->piece.data() + row * width_, width_, old, fresh);
  }

  void write_row(const Run& run, int64_t row, int64_t kv_head, Scratch* s) const {
    const int64_t token = run.token + row / p_.group, head = head_of(row, kv_head);
    const SoftmaxState& state = s->total_state[static_cast<size_t>(row)];
    const bool none = state.sum == 0.0f;
    T* to = static_cast<T*>(a_[arg_out]) + place(p_.out, token, head);
    // Adding 0 gives zeros one sign: which masked keys were met must not show.
    for (int64_t i = 0; i < p_.dim; ++i)
      to[i * p_.out.step] = store<T>(none ? 0.0f : s->total[static_cast<size_t>(row * width_ + i)] / state.sum + 0.0f);
    if (a_[arg_lse] != nullptr)
      static_cast<float*>(a_[arg_lse])[place(p_.lse, token, head)] = none ? kNoScore : state.most + std::log(state.sum);
  }

  const AttentionParams& p_;
  const AttentionLoops& loops_;
  void* const* a_;
  runtime::FaultWord* fault_;
  const int64_t width_;
};

}  // namespace

void attention(const AttentionCall& c) {
  const AttentionParams p = c.params;
  runtime::FaultWord* const fault = runtime::fault_word(c.out.device());
  const AttentionLoops loops = attention_loops(matmul_level());
  visit_floating(c.q.dtype(), [&]<typename T>() {
    if constexpr (!std::is_same_v<T, double>)
      runtime::run_host(c.op, c.out.device(),
                        {write(c.out), write_if(c.lse), read(c.q), read(c.cache.k), read(c.cache.v),
                         read_if(c.cache.k_scale), read_if(c.cache.v_scale), read_if(c.cache.block_tables),
                         read_if(c.first), read_if(c.second), read_if(c.mask), read_if(c.slopes)},
                        [p, loops, fault](void* const* a) { Attention<T>(p, loops, a, fault).run(); });
  });
}

}  // namespace gpukit::cpu
