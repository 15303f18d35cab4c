#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "gpukit/base/fork.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"

#if defined(__x86_64__) && !defined(_WIN32)
#include <immintrin.h>
#define GPUKIT_HAS_AVX2_SCALED 1
#endif

namespace gpukit::cpu {
namespace {

constexpr int kTile = 64;                // rows and columns that one task makes
constexpr int kRows = 4, kColumns = 16;  // of the block of sums in registers
constexpr int64_t kDepth = 128;  // steps of k that are numbers at a time: no group is longer unless it is a chain

/// Every 8-bit float as a number.
template <typename Float8>
const std::array<float, 256>& numbers_of() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> t;
    for (unsigned i = 0; i < 256; ++i) t[i] = to_float(Float8{static_cast<uint8_t>(i)});
    return t;
  }();
  return table;
}
const std::array<float, 16>& numbers_of_e2m1() {
  static const std::array<float, 16> table = [] {
    std::array<float, 16> t;
    for (uint32_t i = 0; i < 16; ++i) t[i] = e2m1_value(i);
    return t;
  }();
  return table;
}

[[maybe_unused]] const bool g_made_at_load = made_at_load<numbers_of<float8_e4m3>>() &&
                                             made_at_load<numbers_of<float8_e5m2>>() && made_at_load<numbers_of_e2m1>();

struct Source {
  const ScaledOperand* layout;
  const void* data;
  const void* scale;
  const int8_t* zero;
};

/// to[i * pitch] = number(row, k + i) for i < depth.
template <typename Sum>
void decode(Sum* to, int64_t pitch, const Source& from, int64_t batch, int64_t row, int64_t k, int64_t depth) {
  const ScaledOperand& o = *from.layout;
  const int64_t start = batch * o.batch + row * o.row;
  const auto each = [&](auto number) {
    for (int64_t i = 0; i < depth; ++i) to[i * pitch] = number(k + i);
  };
  const auto* bytes = static_cast<const uint8_t*>(from.data) + start;
  const auto nibble = [&](int64_t step) { return nibble_of(bytes[(step >> 1) * o.k], step); };
  if constexpr (std::is_integral_v<Sum>) {
    if (o.code == Code::int8)
      each([&](int64_t c) { return static_cast<Sum>(static_cast<int8_t>(bytes[c * o.k])); });
    else
      each([&](int64_t c) { return static_cast<Sum>(int4_value(nibble(c))); });
  } else {
    switch (o.code) {
      case Code::float32: each([&](int64_t c) { return static_cast<const float*>(from.data)[start + c * o.k]; }); break;
      case Code::float16:
        each([&](int64_t c) { return to_float(static_cast<const half*>(from.data)[start + c * o.k]); });
        break;
      case Code::bfloat16:
        each([&](int64_t c) { return to_float(static_cast<const bfloat16*>(from.data)[start + c * o.k]); });
        break;
      case Code::float8_e4m3: {
        const auto& table = numbers_of<float8_e4m3>();
        each([&](int64_t c) { return table[bytes[c * o.k]]; });
        break;
      }
      case Code::float8_e5m2: {
        const auto& table = numbers_of<float8_e5m2>();
        each([&](int64_t c) { return table[bytes[c * o.k]]; });
        break;
      }
      case Code::int8: each([&](int64_t c) { return static_cast<float>(static_cast<int8_t>(bytes[c * o.k])); }); break;
      case Code::int4:
        if (from.zero == nullptr)
          each([&](int64_t c) { return static_cast<float>(int4_value(nibble(c))); });
        else
          each([&](int64_t c) {
            return static_cast<float>(int4_value(nibble(c)) - from.zero[scale_at(o.zero, batch, row, c)]);
          });
        break;
      default: {
        const auto& table = numbers_of_e2m1();
        const auto& scales = numbers_of<float8_e4m3>();
        const auto* scale = static_cast<const uint8_t*>(from.scale);
        each([&](int64_t c) { return table[nibble(c)] * scales[scale[scale_at(o.scale, batch, row, c)]]; });
      }
    }
  }
}

/// sums[r][c] += a[k][r] * b[k][c] for k = 0, 1, ...; rows of `sums` are kTile apart.
void accumulate_plain(float* sums, const float* a, const float* b, int64_t depth) {
  for (int row = 0; row < kRows; ++row)
    for (int64_t k = 0; k < depth; ++k)
      for (int c = 0; c < kColumns; ++c)
        sums[row * kTile + c] = std::fma(a[k * kRows + row], b[k * kColumns + c], sums[row * kTile + c]);
}

/// chains[c] += sums[c] * (a_by * b_by[c]) for one row of a tile, whose sums start anew.
void end_group_plain(float* chains, float* sums, float a_by, const float* b_by) {
  for (int c = 0; c < kTile; ++c) {
    chains[c] = std::fma(sums[c], a_by * b_by[c], chains[c]);
    sums[c] = 0.0f;
  }
}

#ifdef GPUKIT_HAS_AVX2_SCALED
bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return found;
}
[[maybe_unused]] const bool g_found_at_load = made_at_load<has_avx2>();

__attribute__((target("avx2,fma"))) void end_group_avx2(float* chains, float* sums, float a_by, const float* b_by) {
  const __m256 factor = _mm256_set1_ps(a_by);
  for (int c = 0; c < kTile; c += 8) {
    const __m256 by = _mm256_mul_ps(factor, _mm256_load_ps(b_by + c));
    _mm256_store_ps(chains + c, _mm256_fmadd_ps(_mm256_load_ps(sums + c), by, _mm256_load_ps(chains + c)));
    _mm256_store_ps(sums + c, _mm256_setzero_ps());
  }
}

__attribute__((target("avx2,fma"))) void accumulate_avx2(float* sums, const float* a, const float* b, int64_t depth) {
  __m256 s[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < 2; ++c) s[r][c] = _mm256_load_ps(sums + r * kTile + 8 * c);
  for (int64_t k = 0; k < depth; ++k, a += kRows, b += kColumns) {
    const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
    for (int r = 0; r < kRows; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a + r);
      s[r][0] = _mm256_fmadd_ps(factor, b0, s[r][0]);
      s[r][1] = _mm256_fmadd_ps(factor, b1, s[r][1]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < 2; ++c) _mm256_store_ps(sums + r * kTile + 8 * c, s[r][c]);
}
#endif

void accumulate(float* sums, const float* a, const float* b, int64_t depth) {
#ifdef GPUKIT_HAS_AVX2_SCALED
  if (has_avx2()) return accumulate_avx2(sums, a, b, depth);
#endif
  accumulate_plain(sums, a, b, depth);
}
void end_group(float* chains, float* sums, float a_by, const float* b_by) {
#ifdef GPUKIT_HAS_AVX2_SCALED
  if (has_avx2()) return end_group_avx2(chains, sums, a_by, b_by);
#endif
  end_group_plain(chains, sums, a_by, b_by);
}
void accumulate(uint32_t* sums, const uint32_t* a, const uint32_t* b, int64_t depth) {
  for (int row = 0; row < kRows; ++row) {
    uint32_t block[kColumns];
    for (int c = 0; c < kColumns; ++c) block[c] = sums[row * kTile + c];
    for (int64_t k = 0; k < depth; ++k)
      for (int c = 0; c < kColumns; ++c) block[c] += a[k * kRows + row] * b[k * kColumns + c];
    for (int c = 0; c < kColumns; ++c) sums[row * kTile + c] = block[c];
  }
}

/// One thread's room: a slice of numbers in strips of kRows and kColumns, and the three levels of sums.
template <typename Sum>
struct Room {
  alignas(64) Sum a[kTile * kDepth];
  alignas(64) Sum b[kTile * kDepth];
  alignas(64) Sum sums[kTile * kTile];
  alignas(64) float chains[kTile * kTile], totals[kTile * kTile];
};

struct Pointers {
  void* out;
  Source a, b;
  const float *a_tensor_scale, *b_tensor_scale;
  const void* bias;
  const float* out_scale;
  const int32_t* ids;
};

/// Rows `rows` (`count` of them) of a by columns from `column` on of matrix `expert`.
template <typename Sum>
class Tile {
 public:
  Tile(const ScaledProblem& problem, const Pointers& pointers, const int64_t* rows, int count, int64_t column,
       int64_t expert)
      : s_(problem),
        p_(pointers),
        rows_(rows),
        count_(count),
        column_(column),
        columns_(static_cast<int>(std::min<int64_t>(kTile, problem.n - column))),
        expert_(expert) {}

  void run() {
    std::fill(std::begin(room_.sums), std::end(room_.sums), Sum{});
    std::fill(std::begin(room_.chains), std::end(room_.chains), 0.0f);
    std::fill(std::begin(room_.totals), std::end(room_.totals), 0.0f);
    const int64_t slice = std::min(s_.group, kDepth);
    for (int64_t k = 0; k < s_.k; k += slice) {
      const int64_t depth = std::min(slice, s_.k - k), done = k + depth;
      pack<kRows>(
          room_.a, p_.a, 0, count_, [&](int i) { return rows_[i]; }, k, depth);
      pack<kColumns>(
          room_.b, p_.b, expert_, columns_, [&](int i) { return column_ + i; }, k, depth);
      for (int row = 0; row < count_; row += kRows)
        for (int c = 0; c < columns_; c += kColumns)
          accumulate(room_.sums + row * kTile + c, room_.a + row * depth, room_.b + c * depth, depth);
      if constexpr (!std::is_integral_v<Sum>) {
        if (done == s_.k || done % s_.group == 0) scale_group(k);
        if (done == s_.k || done % s_.chain == 0) end_chain();
      }
    }
    store();
  }

 private:
  template <int kLanes, typename RowOf>
  void pack(Sum* to, const Source& from, int64_t batch, int lanes, RowOf row_of, int64_t k, int64_t depth) {
    for (int strip = 0; strip < lanes; strip += kLanes, to += kLanes * depth)
      for (int lane = 0; lane < kLanes; ++lane) {
        if (strip + lane < lanes)
          decode(to + lane, kLanes, from, batch, row_of(strip + lane), k, depth);
        else
          for (int64_t i = 0; i < depth; ++i) to[i * kLanes + lane] = Sum{};
      }
  }

  void scale_group(int64_t k) {
    alignas(64) float by[kTile] = {};
    for (int c = 0; c < columns_; ++c) by[c] = group_scale(s_.b, p_.b.scale, expert_, column_ + c, k);
    for (int i = 0; i < count_; ++i)
      end_group(room_.chains + i * kTile, room_.sums + i * kTile, group_scale(s_.a, p_.a.scale, 0, rows_[i], k), by);
  }

  void end_chain() {
    for (int i = 0; i < count_; ++i)
      for (int at = i * kTile; at < i * kTile + columns_; ++at) {
        room_.totals[at] += room_.chains[at];
        room_.chains[at] = 0.0f;
      }
  }

  void store() {
    for (int i = 0; i < count_; ++i) {
      const float a_by = row_scale(s_.a, p_.a.scale, p_.a_tensor_scale, 0, rows_[i]);
      for (int c = 0; c < columns_; ++c) {
        const int64_t column = column_ + c, at = rows_[i] * s_.out_m + column * s_.out_n;
        float total = room_.totals[i * kTile + c];
        if constexpr (std::is_integral_v<Sum>) {
          const auto exact = static_cast<int32_t>(room_.sums[i * kTile + c]);
          if (s_.out == Code::int32) {
            static_cast<int32_t*>(p_.out)[at] = exact;
            continue;
          }
          total = static_cast<float>(exact);
        }
        float v = total * (a_by * row_scale(s_.b, p_.b.scale, p_.b_tensor_scale, expert_, column) * s_.alpha);
        if (p_.bias != nullptr) v += load_bias(p_.bias, s_.bias, column * s_.bias_n);
        if (p_.out_scale != nullptr) v /= *p_.out_scale;
        store_number(p_.out, s_.out, at, v);
      }
    }
  }

  const ScaledProblem& s_;
  const Pointers& p_;
  const int64_t* rows_;
  const int count_;
  const int64_t column_;
  const int columns_;
  const int64_t expert_;
  Room<Sum> room_;
};

/// An id that is neither an expert nor none is noted.
bool has_expert(const ScaledProblem& s, int64_t id, runtime::FaultWord* fault) {
  if (id >= 0 && id < s.experts) return true;
  if (id != -1) runtime::note_fault(fault, s.fault_op, id, s.experts);
  return false;
}

void clear(const ScaledProblem& s, void* out, int64_t row, int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; ++column) {
    const int64_t at = row * s.out_m + column * s.out_n;
    if (s.out == Code::int32)
      static_cast<int32_t*>(out)[at] = 0;
    else
      store_number(out, s.out, at, 0.0f);
  }
}

/// Few rows by plain matrices: row by row, as matmul makes them, with the bits of a tile.
bool is_few_plain_rows(const ScaledProduct& p) {
  constexpr int64_t kFewRows = 16;
  const DType input = p.a.data.dtype(), result = p.out.dtype();
  return p.ids.defined() && p.b.data.dtype() == input && !p.of_integers() && !p.a.scale.defined() &&
         is_floating(input) && p.problem.m <= kFewRows && p.problem.alpha == 1.0f && !p.bias.defined() &&
         !p.out_scale.defined() && (result == input || result == DType::float32);
}

void submit_rows(const ScaledProduct& product) {
  runtime::FaultWord* fault = runtime::fault_word(product.out.device());
  runtime::run_host(
      "scaled_matmul", product.out.device(),
      {write(product.out), read(product.a.data), read(product.b.data), read(product.ids)},
      [=, s = product.problem, input = product.a.data.dtype(), result = product.out.dtype()](void* const* p) {
        MatmulProblem row_problem = {};
        row_problem.m = row_problem.batches = 1;
        row_problem.n = s.n;
        row_problem.k = s.k;
        row_problem.a_k = s.a.k;
        row_problem.b_k = s.b.k;
        row_problem.b_n = s.b.row;
        row_problem.out_n = s.out_n;
        const auto at = [](void* base, DType dtype, int64_t element) {
          return static_cast<std::byte*>(base) + element * itemsize(dtype);
        };
        for (int64_t row = 0; row < s.m; ++row) {
          const int64_t id = static_cast<const int32_t*>(p[3])[row * s.id_m];
          if (!has_expert(s, id, fault))
            clear(s, p[0], row, 0, s.n);
          else
            multiply_floats(input, result, row_problem, at(p[0], result, row * s.out_m), at(p[1], input, row * s.a.row),
                            at(p[2], input, id * s.b.batch));
        }
      });
}

/// The rows of a tile, expert by expert; rows without one become 0.
template <typename Sum>
void run_tile(const ScaledProblem& s, const Pointers& p, int64_t row, int64_t column, runtime::FaultWord* fault) {
  const int count = static_cast<int>(std::min<int64_t>(kTile, s.m - row));
  int64_t rows[kTile];
  if (p.ids == nullptr) {
    for (int i = 0; i < count; ++i) rows[i] = row + i;
    Tile<Sum>(s, p, rows, count, column, 0).run();
    return;
  }
  const auto id_of = [&](int i) { return int64_t{p.ids[(row + i) * s.id_m]}; };
  for (int i = 0; i < count; ++i)
    if (!has_expert(s, id_of(i), fault)) clear(s, p.out, row + i, column, std::min(s.n, column + kTile));
  for (int64_t last = -1;;) {
    int64_t expert = s.experts;
    for (int i = 0; i < count; ++i)
      if (id_of(i) > last) expert = std::min(expert, id_of(i));
    if (expert == s.experts) return;
    int members = 0;
    for (int i = 0; i < count; ++i)
      if (id_of(i) == expert) rows[members++] = row + i;
    Tile<Sum>(s, p, rows, members, column, expert).run();
    last = expert;
  }
}

template <typename Sum>
void submit(const ScaledProduct& product) {
  const Quantized &a = product.a, &b = product.b;
  const Array& some = a.data;
  // A use that is not there repeats one that is, and its address is not passed on.
  const Array* optional[] = {&a.scale,        &a.tensor_scale, &b.scale,           &b.zero,
                             &b.tensor_scale, &product.bias,   &product.out_scale, &product.ids};
  constexpr int kOptional = 8;
  std::array<memory::Use, 3 + kOptional> uses = {write(product.out), read(a.data), read(b.data)};
  std::array<bool, kOptional> there = {};
  for (int i = 0; i < kOptional; ++i) {
    there[static_cast<size_t>(i)] = optional[i]->defined();
    uses[static_cast<size_t>(3 + i)] = read(optional[i]->defined() ? *optional[i] : some);
  }
  runtime::FaultWord* fault = runtime::fault_word(product.out.device());
  runtime::run_host("scaled_matmul", product.out.device(), uses, [=, s = product.problem](void* const* p) {
    const auto address_of = [&](int i) { return there[static_cast<size_t>(i)] ? p[3 + i] : nullptr; };
    const Pointers pointers{p[0],
                            {&s.a, p[1], address_of(0), nullptr},
                            {&s.b, p[2], address_of(2), static_cast<const int8_t*>(address_of(3))},
                            static_cast<const float*>(address_of(1)),
                            static_cast<const float*>(address_of(4)),
                            address_of(5),
                            static_cast<const float*>(address_of(6)),
                            static_cast<const int32_t*>(address_of(7))};
    const int64_t column_tiles = (s.n + kTile - 1) / kTile, tiles = (s.m + kTile - 1) / kTile * column_tiles;
    // Small products are not worth a second thread.
    const int64_t area = std::min<int64_t>(s.m, kTile) * std::min<int64_t>(s.n, kTile);
    parallel_for(tiles, std::max<int64_t>(1, (1 << 16) / area / std::max<int64_t>(s.k, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     run_tile<Sum>(s, pointers, i / column_tiles * kTile, i % column_tiles * kTile, fault);
                 });
  });
}

}  // namespace

void scaled_matmul(const ScaledProduct& product) {
  if (is_few_plain_rows(product)) return submit_rows(product);
  if (product.of_integers())
    submit<uint32_t>(product);
  else
    submit<float>(product);
}

}  // namespace gpukit::cpu
