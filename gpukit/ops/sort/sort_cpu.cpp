#include <algorithm>
#include <utility>

#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/sort/sort_impl.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cpu {

namespace {

constexpr int kDigits = 256;
constexpr int64_t kShortRow = 256;  // below it a comparison sort is quicker

template <typename U, typename Place>
struct Pair {
  U key;
  Place place;
  /// No two are equal, so that any sort by it is stable.
  bool operator<(const Pair& other) const { return key < other.key || (key == other.key && place < other.place); }
};

/// Least significant digit first; digits that all keys share are passed over. The result is in `a`, or in `b`, which
/// is returned then.
template <typename P>
P* radix_sort(P* a, P* b, int64_t n) {
  using U = decltype(P::key);
  int64_t counts[sizeof(U)][kDigits] = {};
  for (int64_t i = 0; i < n; ++i) {
    for (size_t d = 0; d < sizeof(U); ++d) ++counts[d][a[i].key >> (8 * d) & 0xff];
  }
  for (size_t d = 0; d < sizeof(U); ++d) {
    int64_t* next = counts[d];
    if (next[a[0].key >> (8 * d) & 0xff] == n) continue;
    int64_t before = 0;
    for (int i = 0; i < kDigits; ++i) before += std::exchange(next[i], before);
    for (int64_t i = 0; i < n; ++i) b[next[a[i].key >> (8 * d) & 0xff]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

template <typename U, typename Place>
void argsort_row(int64_t* order, const U* x, int64_t n, const KeyRule& rule, Pair<U, Place>* a, Pair<U, Place>* b) {
  bool in_order = true;
  for (int64_t i = 0; i < n; ++i) {
    a[i] = {sort_key(x[i], rule), static_cast<Place>(i)};
    in_order = in_order && (i == 0 || a[i - 1].key <= a[i].key);
  }
  if (!in_order) {
    if (n < kShortRow)
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
    parallel_for(rows, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        argsort_row<U, Place>(out + row * n, x + row * n, n, rule, pairs + 2 * row * n, pairs + (2 * row + 1) * n);
    });
  });
}

template <typename U>
void argsort_of(const Array& order, const Array& bits, const KeyRule& rule) {
  if (bits.shape(1) <= UINT32_MAX)
    argsort_rows<U, uint32_t>(order, bits, rule);
  else
    argsort_rows<U, uint64_t>(order, bits, rule);
}

template <typename U>
void search(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
            const KeyRule& rule) {
  const int64_t n = sorted.size(), count = values.size();
  const bool ordered = sorter.defined();
  const Array& order = ordered ? sorter : sorted;
  runtime::run_host("searchsorted", out.device(), {write(out), read(sorted), read(values), read(order)},
                    [=](void* const* p) {
                      auto* places = static_cast<int64_t*>(p[0]);
                      const auto* row = static_cast<const U*>(p[1]);
                      const auto* wanted = static_cast<const U*>(p[2]);
                      const auto* by = ordered ? static_cast<const int64_t*>(p[3]) : nullptr;
                      parallel_for(count, 4096, [&](int64_t begin, int64_t end) {
                        for (int64_t i = begin; i < end; ++i)
                          places[i] = search_row(row, by, n, sort_key(wanted[i], rule), right, rule);
                      });
                    });
}

}  // namespace

void argsort(const Array& order, const Array& bits, const KeyRule& rule) {
  switch (bits.dtype()) {
    case DType::uint8: return argsort_of<uint8_t>(order, bits, rule);
    case DType::uint16: return argsort_of<uint16_t>(order, bits, rule);
    case DType::uint32: return argsort_of<uint32_t>(order, bits, rule);
    default: return argsort_of<uint64_t>(order, bits, rule);
  }
}

void searchsorted(const Array& out, const Array& sorted, const Array& values, const Array& sorter, bool right,
                  const KeyRule& rule) {
  switch (sorted.dtype()) {
    case DType::uint8: return search<uint8_t>(out, sorted, values, sorter, right, rule);
    case DType::uint16: return search<uint16_t>(out, sorted, values, sorter, right, rule);
    case DType::uint32: return search<uint32_t>(out, sorted, values, sorter, right, rule);
    default: return search<uint64_t>(out, sorted, values, sorter, right, rule);
  }
}

}  // namespace gpukit::cpu
