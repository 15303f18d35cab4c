// Sums, products and variances on the CPU.
#include <cmath>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/reduce/reduce_backend.h"
#include "gpukit/ops/reduce/reduce_compare.h"
#include "gpukit/ops/reduce/reduce_loops.h"

namespace gpukit::cpu {

namespace {

template <typename T>
inline constexpr bool kExact = std::is_integral_v<T>;
template <typename T>
using accumulate_t = std::conditional_t<
    kExact<T>, std::conditional_t<std::is_unsigned_v<T> && !std::is_same_v<T, bool>, uint64_t, int64_t>, compute_t<T>>;

template <typename A>
A divide(A a, double n) {
  return static_cast<A>(static_cast<double>(a) / n);
}
template <typename R>
std::complex<R> divide(std::complex<R> a, double n) {
  return {divide(a.real(), n), divide(a.imag(), n)};
}
template <typename A>
A multiply(A a, A b) {
  // Signed overflow wraps.
  if constexpr (std::is_same_v<A, int64_t>)
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return a * b;
}
/// Times one is no change, also of infinities and signed zeros, as in the kernels.
template <typename R>
std::complex<R> multiply(std::complex<R> a, std::complex<R> b) {
  if (b.real() == R(1) && b.imag() == R(0)) return a;
  if (a.real() == R(1) && a.imag() == R(0)) return b;
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <typename T>
void put(void* out, int64_t at, accumulate_t<T> v) {
  if constexpr (kExact<T>)
    static_cast<accumulate_t<T>*>(out)[at] = v;
  else
    static_cast<T*>(out)[at] = store<T>(v);
}

template <typename T>
struct Sum {
  using Element = T;
  using Acc = accumulate_t<T>;
  static constexpr bool kAnyOrder = kExact<T>;
  bool mean;
  double length;
  Acc load(T x, int64_t) const { return static_cast<Acc>(cpu::load(x)); }
  static Acc merge(Acc a, Acc b) {
    if constexpr (std::is_same_v<Acc, int64_t>)
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  GPUKIT_ALWAYS_INLINE void add_dense(Acc& acc, const T* x, int64_t, int64_t n, bool first) const requires kExact<T> {
    uint64_t total = first ? 0 : static_cast<uint64_t>(acc);
    for (int64_t i = 0; i < n; ++i) total += static_cast<uint64_t>(static_cast<Acc>(cpu::load(x[i])));
    acc = static_cast<Acc>(total);
  }
  void finish(void* out, int64_t at, Acc v) const {
    if (!mean) return put<T>(out, at, v);
    if constexpr (kExact<T>)
      static_cast<double*>(out)[at] = static_cast<double>(v) / length;
    else
      put<T>(out, at, divide(v, length));
  }
};

template <typename T>
struct Prod {
  using Element = T;
  using Acc = accumulate_t<T>;
  static constexpr bool kAnyOrder = kExact<T>;
  Acc load(T x, int64_t) const { return static_cast<Acc>(cpu::load(x)); }
  static Acc merge(Acc a, Acc b) { return multiply(a, b); }
  GPUKIT_ALWAYS_INLINE void add_dense(Acc& acc, const T* x, int64_t, int64_t n, bool first) const requires kExact<T> {
    uint64_t product = first ? 1 : static_cast<uint64_t>(acc);
    for (int64_t i = 0; i < n; ++i) product *= static_cast<uint64_t>(static_cast<Acc>(cpu::load(x[i])));
    acc = static_cast<Acc>(product);
  }
  void finish(void* out, int64_t at, Acc v) const { put<T>(out, at, v); }
};

/// Count, mean and sum of squared deviations of a node.
template <typename R>
struct Moments {
  R count, mean, m2;
};

template <typename T>
struct Variance {
  using Element = T;
  using Real = std::conditional_t<std::is_same_v<compute_t<T>, float>, float, double>;
  using Acc = Moments<Real>;
  static constexpr bool kAnyOrder = false;
  bool root;
  double divisor;
  Acc load(T x, int64_t) const { return {1, static_cast<Real>(cpu::load(x)), 0}; }
  static Acc merge(Acc a, Acc b) {
    const Real d = b.mean - a.mean;
    if (a.count == b.count)
      return {a.count + b.count, (a.mean + b.mean) * Real(0.5), a.m2 + b.m2 + d * d * (a.count * Real(0.5))};
    const Real n = a.count + b.count;
    return {n, (a.count * a.mean + b.count * b.mean) / n, a.m2 + b.m2 + d * d * (a.count * b.count / n)};
  }
  /// The nodes of a level are of one size: their means and deviations lie apart, which registers like.
  GPUKIT_ALWAYS_INLINE Acc whole_leaf(const T* x) const {
    alignas(64) Real mean[2][kLeaf / 2], m2[2][kLeaf / 2];
    for (int j = 0; j < kLeaf / 2; ++j) {
      const Real a = static_cast<Real>(cpu::load(x[2 * j])), b = static_cast<Real>(cpu::load(x[2 * j + 1])), d = b - a;
      mean[0][j] = (a + b) * Real(0.5);
      m2[0][j] = d * d * Real(0.5);
    }
    int side = 0;
    for (int pairs = kLeaf / 4; pairs > 0; pairs /= 2, side ^= 1) {
      const Real half_count = static_cast<Real>(kLeaf / 4 / pairs);
      const Real *from = mean[side], *from2 = m2[side];
      Real *to = mean[side ^ 1], *to2 = m2[side ^ 1];
#pragma GCC ivdep
      for (int j = 0; j < pairs; ++j) {
        const Real d = from[2 * j + 1] - from[2 * j];
        to[j] = (from[2 * j] + from[2 * j + 1]) * Real(0.5);
        to2[j] = from2[2 * j] + from2[2 * j + 1] + d * d * half_count;
      }
    }
    return {Real(kLeaf), mean[side][0], m2[side][0]};
  }
  void finish(void* out, int64_t at, Acc v) const {
    // Of one value, which no merge has compared with another: NaN unless it is finite.
    const Real m2 = v.count == Real(1) ? v.mean - v.mean : v.m2;
    double value = static_cast<double>(m2) / divisor;
    if (root) value = std::sqrt(value);
    if constexpr (kExact<T>)
      static_cast<double*>(out)[at] = value;
    else
      static_cast<T*>(out)[at] = store<T>(static_cast<compute_t<T>>(value));
  }
};

}  // namespace

void reduce(ReduceOp op, const Array& out, const Array& a, const ReduceLayout& layout, double correction) {
  const double length = static_cast<double>(layout.length);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      visit_arithmetic(a.dtype(), [&]<typename T>() {
        const bool mean = op == ReduceOp::mean;
        submit_reduce(mean ? "mean" : "sum", Sum<T>{mean, length}, out, a, layout);
      });
      return;
    case ReduceOp::prod:
      visit_arithmetic(a.dtype(), [&]<typename T>() { submit_reduce("prod", Prod<T>{}, out, a, layout); });
      return;
    case ReduceOp::var:
    case ReduceOp::std:
      visit_arithmetic(a.dtype(), [&]<typename T>() {
        if constexpr (!std::is_same_v<T, std::complex<float>> && !std::is_same_v<T, std::complex<double>>) {
          const bool root = op == ReduceOp::std;
          const double divisor = std::max(length - correction, 0.0);
          submit_reduce(root ? "std" : "var", Variance<T>{root, divisor}, out, a, layout);
        }
      });
      return;
    default: return reduce_compare(op, out, a, layout);
  }
}

}  // namespace gpukit::cpu
