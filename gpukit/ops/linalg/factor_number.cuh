// Real and complex numbers by the same names, and the threads that share one matrix: for kernels and for the CPU.
#pragma once
#include "gpukit/ops/common/types.cuh"

#ifndef __CUDACC_RTC__
#include <cmath>
#endif

namespace gpukit::linalg {

template <typename R>
struct alignas(2 * sizeof(R)) Pair {
  R re, im;
};

template <typename S>
struct Number {
  using Real = S;
  static constexpr bool kComplex = false;
};
template <typename R>
struct Number<Pair<R>> {
  using Real = R;
  static constexpr bool kComplex = true;
};
template <typename S>
using Real = typename Number<S>::Real;

GPUKIT_DEVICE float root(float x) { return sqrtf(x); }
GPUKIT_DEVICE double root(double x) { return sqrt(x); }
GPUKIT_DEVICE float log_of(float x) { return logf(x); }
GPUKIT_DEVICE double log_of(double x) { return log(x); }
template <typename R>
GPUKIT_DEVICE R size_of(R x) {
  return x < R(0) ? -x : x;
}
GPUKIT_DEVICE float epsilon(float) { return 1.1920929e-7f; }
GPUKIT_DEVICE double epsilon(double) { return 2.220446049250313e-16; }

template <typename R>
GPUKIT_DEVICE Pair<R> operator+(Pair<R> a, Pair<R> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename R>
GPUKIT_DEVICE Pair<R> operator-(Pair<R> a, Pair<R> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename R>
GPUKIT_DEVICE Pair<R> operator-(Pair<R> a) {
  return {-a.re, -a.im};
}
template <typename R>
GPUKIT_DEVICE Pair<R> operator*(Pair<R> a, Pair<R> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/// sum - a b by fused steps, as a matrix product takes them.
GPUKIT_DEVICE float minus_product(float sum, float a, float b) { return fmaf(-a, b, sum); }
GPUKIT_DEVICE double minus_product(double sum, double a, double b) { return fma(-a, b, sum); }
template <typename R>
GPUKIT_DEVICE Pair<R> minus_product(Pair<R> sum, Pair<R> a, Pair<R> b) {
  return {minus_product(minus_product(sum.re, a.re, b.re), -a.im, b.im),
          minus_product(minus_product(sum.im, a.re, b.im), a.im, b.re)};
}
/// By the larger part of b, so that nothing overflows on the way.
template <typename R>
GPUKIT_DEVICE Pair<R> operator/(Pair<R> a, Pair<R> b) {
  if (size_of(b.re) >= size_of(b.im)) {
    const R ratio = b.im / b.re, below = b.re + b.im * ratio;
    return {(a.re + a.im * ratio) / below, (a.im - a.re * ratio) / below};
  }
  const R ratio = b.re / b.im, below = b.re * ratio + b.im;
  return {(a.re * ratio + a.im) / below, (a.im * ratio - a.re) / below};
}

template <typename S>
GPUKIT_DEVICE S of_real(Real<S> x) {
  if constexpr (Number<S>::kComplex)
    return {x, Real<S>(0)};
  else
    return x;
}
template <typename S>
GPUKIT_DEVICE Real<S> real_part(S x) {
  if constexpr (Number<S>::kComplex)
    return x.re;
  else
    return x;
}
template <typename S>
GPUKIT_DEVICE Real<S> imag_part(S x) {
  if constexpr (Number<S>::kComplex)
    return x.im;
  else
    return S(0);
}
template <typename S>
GPUKIT_DEVICE S conjugate(S x) {
  if constexpr (Number<S>::kComplex)
    return {x.re, -x.im};
  else
    return x;
}
template <typename S>
GPUKIT_DEVICE S scaled(S x, Real<S> by) {
  if constexpr (Number<S>::kComplex)
    return {x.re * by, x.im * by};
  else
    return x * by;
}
template <typename S>
GPUKIT_DEVICE Real<S> square_of(S x) {
  if constexpr (Number<S>::kComplex)
    return x.re * x.re + x.im * x.im;
  else
    return x * x;
}
/// The larger of a part's size and `most`; a NaN stays.
template <typename R>
GPUKIT_DEVICE R larger(R most, R x) {
  const R size = size_of(x);
  return most == most && !(size <= most) ? size : most;
}
template <typename S>
GPUKIT_DEVICE Real<S> larger_part(Real<S> most, S x) {
  return larger(larger(most, real_part(x)), imag_part(x));
}
/// |x|, exact in range.
template <typename S>
GPUKIT_DEVICE Real<S> modulus(S x) {
  if constexpr (Number<S>::kComplex) {
    const Real<S> a = size_of(x.re), b = size_of(x.im);
    const Real<S> high = a < b ? b : a, low = a < b ? a : b;
    if (!(high > Real<S>(0))) return a + b;
    const Real<S> ratio = low / high;
    return high * root(Real<S>(1) + ratio * ratio);
  } else {
    return size_of(x);
  }
}
template <typename S>
GPUKIT_DEVICE S not_a_number() {
  const Real<S> zero = 0, nan = zero / zero;
  if constexpr (Number<S>::kComplex)
    return {nan, nan};
  else
    return nan;
}

/// Between what is stored and what is computed with.
template <typename To, typename From>
GPUKIT_DEVICE To convert(From x) {
  if constexpr (Number<To>::kComplex)
    return {static_cast<Real<To>>(x.re), static_cast<Real<To>>(x.im)};
  else
    return static_cast<To>(x);
}

}  // namespace gpukit::linalg
