#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/reduce/reduce_compare.h"
#include "gpukit/ops/reduce/reduce_loops.h"

namespace gpukit::cpu {

namespace {

template <typename T>
inline constexpr bool kComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// `later` beats `earlier`: NaN wins, the first of them where `first_nan`.
template <bool kLeast, typename V>
GPUKIT_ALWAYS_INLINE bool beats(V later, V earlier, bool first_nan) {
  // Without branches, for registers.
  const bool better = kLeast ? later < earlier : later > earlier;
  const bool nan = later != later, kept = first_nan & (earlier != earlier);
  return better | (nan & !kept);
}

/// The extreme of some neighbours without order: any zero for zero, and whether there is a NaN.
template <bool kLeast, typename T>
GPUKIT_ALWAYS_INLINE bool extreme_of(const T* x, int64_t n, compute_t<T>* extreme) {
  using C = compute_t<T>;
  constexpr int kLanes = 256 / sizeof(C);
  C lanes[kLanes];
  // Of the width of a lane, for registers.
  std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t> unordered[kLanes] = {};
  for (int l = 0; l < kLanes; ++l) lanes[l] = load(x[0]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const C v = load(x[i + l]);
      lanes[l] = (kLeast ? v < lanes[l] : v > lanes[l]) ? v : lanes[l];
      unordered[l] |= v != v ? 1 : 0;
    }
  for (int l = 0; i + l < n; ++l) {
    const C v = load(x[i + l]);
    lanes[l] = (kLeast ? v < lanes[l] : v > lanes[l]) ? v : lanes[l];
    unordered[l] |= v != v ? 1 : 0;
  }
  bool nan = false;
  C best = lanes[0];
  for (int l = 0; l < kLanes; ++l) {
    best = (kLeast ? lanes[l] < best : lanes[l] > best) ? lanes[l] : best;
    nan = nan || unordered[l] != 0;
  }
  *extreme = best;
  return nan;
}

/// The first of some neighbours that is `wanted`, or NaN.
template <typename T>
GPUKIT_ALWAYS_INLINE int64_t first_place(const T* x, int64_t n, compute_t<T> wanted, bool nan) {
  using C = compute_t<T>;
  constexpr int64_t kBlock = 64;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    uint32_t any = 0;
    for (int64_t j = 0; j < kBlock; ++j) {
      const C v = load(x[i + j]);
      any |= (nan ? v != v : v == wanted) ? 1u : 0u;
    }
    if (any != 0) break;
  }
  for (; i < n; ++i)
    if (const C v = load(x[i]); nan ? v != v : v == wanted) return i;
  return n;
}

/// The template argument keeps the choice out of the inner loop.
template <typename T, bool kLeast>
struct Extreme {
  using Element = T;
  using Acc = compute_t<T>;
  // Floats go by the tree, whose loops vectorise; a chain of comparisons would wait for each.
  static constexpr bool kAnyOrder = std::is_integral_v<T>;
  Acc load(T x, int64_t) const { return cpu::load(x); }
  static Acc merge(Acc a, Acc b) { return beats<kLeast>(b, a, false) ? b : a; }
  GPUKIT_ALWAYS_INLINE void add_dense(Acc& acc, const T* x, int64_t, int64_t n, bool first) const {
    Acc v;
    if (extreme_of<kLeast>(x, n, &v))
      for (int64_t i = n; v == v; --i) v = cpu::load(x[i - 1]);  // the last NaN
    else if (!std::is_integral_v<T> && v == Acc(0))
      v = cpu::load(x[first_place(x, n, v, false)]);  // the sign of the first zero
    acc = first ? v : merge(acc, v);
  }
  GPUKIT_ALWAYS_INLINE void walk_columns(const T* x, int64_t stride, int64_t first, int64_t last, int columns,
                                         Acc* best) const {
    const T* p = x + first * stride;
    for (int c = 0; c < columns; ++c) best[c] = cpu::load(p[c]);
    for (int64_t row = first + 1; row < last; ++row) {
      p += stride;
      for (int c = 0; c < columns; ++c) {
        const Acc v = cpu::load(p[c]);
        best[c] = beats<kLeast>(v, best[c], false) ? v : best[c];
      }
      if ((row & (kLook - 1)) == 0 && !work_wanted()) return;
    }
  }
  void finish(void* out, int64_t at, Acc v) const { static_cast<T*>(out)[at] = store<T>(v); }
};

template <typename V>
struct Found {
  V value;
  int64_t index;
};

template <typename T, bool kLeast>
struct ExtremeIndex {
  using Element = T;
  using Acc = Found<compute_t<T>>;
  static constexpr bool kAnyOrder = true;
  Acc load(T x, int64_t index) const { return {cpu::load(x), index}; }
  // `a` comes first in the array, so it stays when they are equal.
  static Acc merge(Acc a, Acc b) { return beats<kLeast>(b.value, a.value, true) ? b : a; }
  GPUKIT_ALWAYS_INLINE void add_dense(Acc& acc, const T* x, int64_t begin, int64_t n, bool first) const {
    compute_t<T> v;
    const bool nan = extreme_of<kLeast>(x, n, &v);
    if (!first && (acc.value != acc.value || (!nan && !beats<kLeast>(v, acc.value, true)))) return;
    const int64_t place = first_place(x, n, v, nan);
    acc = {cpu::load(x[place]), begin + place};
  }
  /// Rows [first, last) of columns side by side: values and rows apart, of one width.
  GPUKIT_ALWAYS_INLINE void walk_columns(const T* x, int64_t stride, int64_t first, int64_t last, int columns,
                                         Acc* found) const {
    using C = compute_t<T>;
    using Index = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;
    C best[kTile];
    Index place[kTile];
    for (int64_t begin = first; begin < last; begin += kLook) {
      const Index rows = static_cast<Index>(std::min(kLook, last - begin));
      const T* p = x + begin * stride;
      for (int c = 0; c < columns; ++c) {
        best[c] = cpu::load(p[c]);
        place[c] = 0;
      }
      for (Index row = 1; row < rows; ++row) {
        p += stride;
        for (int c = 0; c < columns; ++c) {
          const C v = cpu::load(p[c]);
          const bool better = beats<kLeast>(v, best[c], true);
          best[c] = better ? v : best[c];
          place[c] = better ? row : place[c];
        }
      }
      for (int c = 0; c < columns; ++c) {
        const Acc v{best[c], begin + place[c]};
        found[c] = begin == first ? v : merge(found[c], v);
      }
      if (!work_wanted()) return;
    }
  }
  void finish(void* out, int64_t at, Acc v) const { static_cast<int64_t*>(out)[at] = v.index; }
};

/// all(x) is not any(not x).
template <typename T>
struct Any {
  using Element = T;
  using Acc = uint8_t;
  static constexpr bool kAnyOrder = true;
  bool flip;
  Acc load(T x, int64_t) const {
    using C = compute_t<T>;
    return static_cast<Acc>((cpu::load(x) != C(0)) != flip);
  }
  static Acc merge(Acc a, Acc b) { return a | b; }
  GPUKIT_ALWAYS_INLINE void add_dense(Acc& acc, const T* x, int64_t, int64_t n, bool first) const {
    if (!first && acc != 0) return;
    Acc v = 0;
    for (int64_t i = 0; i < n; ++i) v |= load(x[i], i);
    acc = v;
  }
  void finish(void* out, int64_t at, Acc v) const { static_cast<bool*>(out)[at] = (v != 0) != flip; }
};

template <template <typename, bool> typename Op>
void submit_extreme(const char* name, bool least, const Array& out, const Array& a, const ReduceLayout& layout) {
  visit_arithmetic(a.dtype(), [&]<typename T>() {
    if constexpr (!kComplex<T>) {
      if (least)
        submit_reduce(name, Op<T, true>{}, out, a, layout);
      else
        submit_reduce(name, Op<T, false>{}, out, a, layout);
    }
  });
}

}  // namespace

void reduce_compare(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout) {
  switch (op) {
    case ReduceOp::max: return submit_extreme<Extreme>("max", false, out, a, layout);
    case ReduceOp::min: return submit_extreme<Extreme>("min", true, out, a, layout);
    case ReduceOp::argmax: return submit_extreme<ExtremeIndex>("argmax", false, out, a, layout);
    case ReduceOp::argmin: return submit_extreme<ExtremeIndex>("argmin", true, out, a, layout);
    default: {
      const bool flip = op == ReduceOp::all;
      visit_arithmetic(a.dtype(),
                       [&]<typename T>() { submit_reduce(flip ? "all" : "any", Any<T>{flip}, out, a, layout); });
    }
  }
}

}  // namespace gpukit::cpu
