#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/reduce/reduce_compare.h"
#include "gpukit/ops/reduce/reduce_loops.h"

namespace gpukit::cpu {

namespace {

template <typename T>
inline constexpr bool kComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

/// `later` beats `earlier`: NaN wins, the first of them where `first_nan`.
template <bool kLeast, typename V>
bool beats(V later, V earlier, bool first_nan) {
  return (kLeast ? later < earlier : later > earlier) || (later != later && !(first_nan && earlier != earlier));
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
