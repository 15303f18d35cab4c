#include <algorithm>
#include <utility>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/sort/sort_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

constexpr int64_t kGrain = 4096;
constexpr int kDigits = 256;

/// f(first element of the row) for every row of `n`, on all threads.
template <typename F>
void each_row(int64_t rows, int64_t n, const F& f) {
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) f(row * n);
  });
}

/// Below it a comparison sort is quicker: a digit costs as much as some hundred comparisons.
template <typename U>
constexpr int64_t kShortRow = sizeof(U) <= 2 ? 32 : 256;

template <typename U, typename Place>
struct Pair {
  U key;
  Place place;
  /// No two are equal, so that any sort by it is stable.
  bool operator<(const Pair& other) const { return key < other.key || (key == other.key && place < other.place); }
};

template <typename U>
U key_of(U key) {
  return key;
}
template <typename U, typename Place>
U key_of(const Pair<U, Place>& pair) {
  return pair.key;
}

/// Least significant digit first; digits that all keys share are passed over. The result is in `a`, or in `b`, which
/// is returned then.
template <typename P>
P* radix_sort(P* a, P* b, int64_t n) {
  using U = decltype(key_of(*a));
  int64_t counts[sizeof(U)][kDigits] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < sizeof(U); ++d) ++counts[d][key_of(a[i]) >> (8 * d) & 0xff];
  }
  for (size_t d = 0; d < sizeof(U); ++d) {
    int64_t* next = counts[d];
    if (next[key_of(a[0]) >> (8 * d) & 0xff] == n) continue;
    int64_t before = 0;
    for (int i = 0; i < kDigits; ++i) before += std::exchange(next[i], before);
    for (int64_t i = 0; i < n; ++i) b[next[key_of(a[i]) >> (8 * d) & 0xff]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

/// How often each key of one byte comes. Four counters of each, which equal neighbours do not wait for.
void count_keys(int64_t* counts, const uint8_t* x, int64_t n, const KeyRule& rule) {
  int64_t parts[4][kDigits] = {};
  for (int64_t i = 0; i < n; ++i) ++parts[i % 4][sort_key(x[i], rule)];
  for (int i = 0; i < kDigits; ++i) counts[i] = parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i];
}

void argsort_bytes(int64_t* order, const uint8_t* x, int64_t n, const KeyRule& rule) {
  int64_t next[kDigits], before = 0;
  count_keys(next, x, n, rule);
  for (int64_t& count : next) before += std::exchange(count, before);
  for (int64_t i = 0; i < n; ++i) order[next[sort_key(x[i], rule)]++] = i;
}

void sort_bytes(uint8_t* out, const uint8_t* x, int64_t n, const KeyRule& rule) {
  int64_t counts[kDigits];
  count_keys(counts, x, n, rule);
  for (int key = 0; key < kDigits; ++key)
    out = std::fill_n(out, counts[key], bits_of_key(static_cast<uint8_t>(key), rule));
}

/// All elements of `key` look alike in sorted `out`: gives them the bits that they have in x, in their order there.
template <typename U, typename Match>
void restore(U* out, const U* x, int64_t n, U key, const KeyRule& rule, const Match& match) {
  U* to = out + search_row(out, static_cast<const int64_t*>(nullptr), n, key, false, rule);
  for (int64_t i = 0; i < n; ++i)
    if (match(x[i])) *to++ = x[i];
}

template <typename U>
void sort_row(U* out, const U* x, int64_t n, const KeyRule& rule, U* scratch) {
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) out[i] = sort_key(x[i], rule);
  for (int64_t i = 1; i < n; ++i) in_order = in_order && out[i - 1] <= out[i];
  const U* sorted = out;
  if (!in_order && n < kShortRow<U>)
    std::sort(out, out + n);
  else if (!in_order)
    sorted = radix_sort(out, scratch, n);
  for (int64_t i = 0; i < n; ++i) out[i] = bits_of_key(sorted[i], rule);
  if (rule.kind != KeyKind::real) return;
  const auto infinity = static_cast<U>(rule.infinity);
  const auto is_zero = [](U bits) { return static_cast<U>(bits << 1) == 0; };
  const auto is_nan = [=](U bits) { return static_cast<U>(bits << 1) > static_cast<U>(infinity << 1); };
  int64_t zeros = 0, nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    zeros += is_zero(x[i]) ? 1 : 0;
    nans += is_nan(x[i]) ? 1 : 0;
  }
  if (zeros > 0) restore(out, x, n, sort_key(U{0}, rule), rule, is_zero);
  if (nans > 0) restore(out, x, n, sort_key(static_cast<U>(infinity + 1), rule), rule, is_nan);
}

template <typename U>
void sort_rows(const Array& out, const Array& bits, const KeyRule& rule) {
  const int64_t rows = bits.shape(0), n = bits.shape(1);
  Temporaries temporaries("sort");
  const Array scratch = temporaries.empty({sizeof(U) == 1 ? 1 : rows * n}, bits.dtype(), bits.device());
  runtime::run_host("sort", bits.device(), {write(out), read(bits), write(scratch)}, [=](void* const* p) {
    auto* to = static_cast<U*>(p[0]);
    const auto* x = static_cast<const U*>(p[1]);
    auto* room = static_cast<U*>(p[2]);
    each_row(rows, n, [&](int64_t at) {
      if constexpr (sizeof(U) == 1)
        sort_bytes(to + at, x + at, n, rule);
      else
        sort_row(to + at, x + at, n, rule, room + at);
    });
  });
}

template <typename U, typename Place>
void argsort_row(int64_t* order, const U* x, int64_t n, const KeyRule& rule, Pair<U, Place>* a, Pair<U, Place>* b) {
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) {
    a[i] = {sort_key(x[i], rule), static_cast<Place>(i)};
    in_order = in_order && (i == 0 || a[i - 1].key <= a[i].key);
  }
  if (!in_order) {
    if (n < kShortRow<U>)
      std::sort(a, a + n);
    else
      a = radix_sort(a, b, n);
  }
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int64_t>(a[i].place);
}

template <typename U, typename Place>
void argsort_rows(const Array& order, const Array& bits, const KeyRule& rule) {
  using P = Pair<U, Place>;
  const int64_t rows = bits.shape(0), n = bits.shape(1);
  Temporaries temporaries("sort");
  const Array scratch =
      temporaries.empty({2 * rows * n * static_cast<int64_t>(sizeof(P))}, DType::uint8, bits.device());
  runtime::run_host("sort", bits.device(), {write(order), read(bits), write(scratch)}, [=](void* const* p) {
    auto* out = static_cast<int64_t*>(p[0]);
    const auto* x = static_cast<const U*>(p[1]);
    auto* pairs = static_cast<P*>(p[2]);
    each_row(rows, n,
             [&](int64_t at) { argsort_row<U, Place>(out + at, x + at, n, rule, pairs + 2 * at, pairs + 2 * at + n); });
  });
}

template <typename U>
void argsort_of(const Array& order, const Array& bits, const KeyRule& rule) {
  const int64_t n = bits.shape(1);
  if constexpr (sizeof(U) == 1) {
    runtime::run_host("sort", bits.device(), {write(order), read(bits)}, [=, rows = bits.shape(0)](void* const* p) {
      auto* out = static_cast<int64_t*>(p[0]);
      const auto* x = static_cast<const U*>(p[1]);
      each_row(rows, n, [&](int64_t at) { argsort_bytes(out + at, x + at, n, rule); });
    });
    return;
  }
  if (n <= UINT32_MAX)
    argsort_rows<U, uint32_t>(order, bits, rule);
  else
    argsort_rows<U, uint64_t>(order, bits, rule);
}

/// search_row among keys, without branches that depend on them.
template <bool kRight, typename U>
int64_t search_keys(const U* keys, int64_t n, U key) {
  const U* base = keys;
  for (int64_t left = n; left > 1;) {
    const int64_t half = left / 2;
    base += half * static_cast<int64_t>(kRight ? base[half - 1] <= key : base[half - 1] < key);
    left -= half;
  }
  return base - keys + static_cast<int64_t>(kRight ? *base <= key : *base < key);
}

template <typename U>
void search(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
            const KeyRule& rule) {
  const int64_t n = sorted.size(), count = values.size();
  const bool ordered = sorter.defined();
  const bool by_keys = !ordered && n > 0 && count >= n / 8;  // enough to make them once
  const Array& order = ordered ? sorter : sorted;
  Temporaries temporaries("searchsorted");
  const Array room = temporaries.empty({by_keys ? n : 1}, sorted.dtype(), sorted.device());
  runtime::run_host("searchsorted", out.device(), {write(out), read(sorted), read(values), read(order), write(room)},
                    [=](void* const* p) {
                      auto* places = static_cast<int64_t*>(p[0]);
                      const auto* row = static_cast<const U*>(p[1]);
                      const auto* wanted = static_cast<const U*>(p[2]);
                      const auto* by = ordered ? static_cast<const int64_t*>(p[3]) : nullptr;
                      auto* keys = static_cast<U*>(p[4]);
                      if (by_keys)
                        parallel_for(n, 4 * kGrain, [&](int64_t begin, int64_t end) {
                          for (int64_t i = begin; i < end; ++i) keys[i] = sort_key(row[i], rule);
                        });
                      parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i) {
                          const U key = sort_key(wanted[i], rule);
                          places[i] = !by_keys ? search_row(row, by, n, key, right, rule)
                                      : right  ? search_keys<true>(keys, n, key)
                                               : search_keys<false>(keys, n, key);
                        }
                      });
                    });
}

/// Calls f.operator()<U>() with the unsigned integer of `bits`.
template <typename F>
void visit_bits(const Array& bits, const F& f) {
  switch (bits.dtype()) {
    case DType::uint8: return f.template operator()<uint8_t>();
    case DType::uint16: return f.template operator()<uint16_t>();
    case DType::uint32: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

}  // namespace

void sort(const Array& out, const Array& bits, const KeyRule& rule) {
  visit_bits(bits, [&]<typename U>() { sort_rows<U>(out, bits, rule); });
}

void argsort(const Array& order, const Array& bits, const KeyRule& rule) {
  visit_bits(bits, [&]<typename U>() { argsort_of<U>(order, bits, rule); });
}

void searchsorted(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
                  const KeyRule& rule) {
  visit_bits(sorted, [&]<typename U>() { search<U>(out, sorted, values, sorter, right, rule); });
}

}  // namespace gpukit::cpu
