#include <algorithm>
#include <complex>
#include <type_traits>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/reduce/reduce_backend.h"
#include "gpukit/ops/reduce/reduce_loops.h"

namespace gpukit::cpu {

namespace {

template <typename T>
using running_t = std::conditional_t<std::is_integral_v<T>, uint64_t, compute_t<T>>;  // unsigned: sums wrap

template <typename T>
running_t<T> widen(T x) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  else
    return static_cast<running_t<T>>(load(x));
}
template <typename T>
auto narrow(running_t<T> v) {
  if constexpr (std::is_integral_v<T>)
    return v;
  else
    return store<T>(v);
}

struct Plus {
  template <typename A>
  static A merge(A left, A right) {
    return left + right;
  }
};
struct Times {
  template <typename A>
  static A merge(A left, A right) {
    return left * right;
  }
  /// Times one is no change, as in reduce_ops.cuh.
  template <typename R>
  static std::complex<R> merge(std::complex<R> left, std::complex<R> right) {
    if (right == R(1)) return left;
    if (left == R(1)) return right;
    return {left.real() * right.real() - left.imag() * right.imag(),
            left.real() * right.imag() + left.imag() * right.real()};
  }
};

/// Inside every node the left half's sum is added in front of the right half: v[i] becomes the tree sum of v[0 .. i].
template <typename Op, typename A>
void scan_leaf(A* v, int64_t n) {
  for (int64_t half = 1; half < n; half *= 2) {
    for (int64_t begin = half; begin < n; begin += 2 * half) {
      const A left = v[begin - 1];
      const int64_t end = std::min(begin + half, n);
      for (int64_t i = begin; i < end; ++i) v[i] = Op::merge(left, v[i]);
    }
  }
}

/// Sums of the whole nodes that lie before what comes next: slot k holds one of 2^k units when bit k of count is set.
template <typename Op, typename A>
struct Before {
  int64_t count = 0;
  A slots[kLevels];
  void push(A v) {
    int level = 0;
    for (int64_t n = count; n & 1; n >>= 1) v = Op::merge(slots[level++], v);
    slots[level] = v;
    ++count;
  }
  void add_to(A* v, int64_t n) const {
    for (int level = 0; count >> level != 0; ++level) {
      if (!(count >> level & 1)) continue;
      const A left = slots[level];
      for (int64_t i = 0; i < n; ++i) v[i] = Op::merge(left, v[i]);
    }
  }
};

/// Elements [begin, end), a whole node unless the row ends there. Gives the node's sum; writes when `out` is not null.
template <typename Op, typename T>
running_t<T> scan_piece(void* out, const T* x, const ScanLayout& layout, int64_t begin, int64_t end,
                        const Before<Op, running_t<T>>& earlier) {
  using A = running_t<T>;
  Before<Op, A> inside;
  for (int64_t i = begin; i < end; i += kLeaf) {
    const int64_t n = std::min<int64_t>(kLeaf, end - i);
    A v[kLeaf];
    for (int64_t j = 0; j < n; ++j) v[j] = widen(x[(i + j) * layout.in]);
    scan_leaf<Op>(v, n);
    const A total = v[n - 1];
    if (out != nullptr) {
      inside.add_to(v, n);
      earlier.add_to(v, n);
      using R = decltype(narrow<T>(A{}));
      R* to = static_cast<R*>(out) + i * layout.out;
      for (int64_t j = 0; j < n; ++j) to[j * layout.out] = narrow<T>(v[j]);
    }
    inside.push(total);
  }
  int level = 0;
  while (!(inside.count >> level & 1)) ++level;
  return inside.slots[level];  // of a whole node: its only slot
}

template <typename Op, typename T>
void scan_rows(void* out, const T* x, const ScanLayout& layout) {
  using A = running_t<T>;
  using R = decltype(narrow<T>(A{}));
  auto in_row = [&](int64_t row) { return x + offset_of(layout.other, layout.rank, row, &ReduceAxis::in); };
  auto out_row = [&](int64_t row) {
    return static_cast<R*>(out) + offset_of(layout.other, layout.rank, row, &ReduceAxis::out);
  };
  if (layout.rows >= 8 || layout.length <= 2 * kPiece) {
    parallel_for(layout.rows, std::max<int64_t>(1, kPiece / layout.length), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        scan_piece<Op, T>(out_row(row), in_row(row), layout, 0, layout.length, {});
    });
    return;
  }
  int64_t piece = kPiece;
  while (ceil_div(layout.length, piece) > kMaxPieces) piece *= 2;
  const int64_t pieces = ceil_div(layout.length, piece);
  for (int64_t row = 0; row < layout.rows; ++row) {
    A totals[kMaxPieces];
    parallel_for(pieces - 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        totals[i] = scan_piece<Op, T>(nullptr, in_row(row), layout, i * piece, (i + 1) * piece, {});
    });
    parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      Before<Op, A> earlier;
      for (int64_t i = 0; i < begin; ++i) earlier.push(totals[i]);
      for (int64_t i = begin; i < end; ++i) {
        scan_piece<Op, T>(out_row(row), in_row(row), layout, i * piece, std::min(layout.length, (i + 1) * piece),
                          earlier);
        if (i + 1 < end) earlier.push(totals[i]);
      }
    });
  }
}

}  // namespace

void scan(ReduceOp op, const Array& out, const Array& a, const ScanLayout& layout) {
  visit_arithmetic(a.dtype(), [&]<typename T>() {
    const auto run = op == ReduceOp::sum ? &scan_rows<Plus, T> : &scan_rows<Times, T>;
    runtime::run_host(op == ReduceOp::sum ? "cumsum" : "cumprod", a.device(), {write(out), read(a)},
                      [layout, run](void* const* p) { run(p[0], static_cast<const T*>(p[1]), layout); });
  });
}

}  // namespace gpukit::cpu
