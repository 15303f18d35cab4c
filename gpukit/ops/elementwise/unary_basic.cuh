// One-argument functions of a few instructions, written once for kernels and CPU loops (see arithmetic.cuh).
#pragma once
#include "gpukit/ops/elementwise/arithmetic.cuh"

namespace gpukit {

GPUKIT_DEVICE float ceil_of(float x) { return ceilf(x); }
GPUKIT_DEVICE double ceil_of(double x) { return ceil(x); }
GPUKIT_DEVICE float round_of(float x) { return rintf(x); }
GPUKIT_DEVICE double round_of(double x) { return rint(x); }
GPUKIT_DEVICE float trunc_of(float x) { return truncf(x); }
GPUKIT_DEVICE double trunc_of(double x) { return trunc(x); }

struct Negative {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    if constexpr (NumberTraits<T>::kComplex)
      return {-x.re, -x.im};
    else if constexpr (NumberTraits<T>::kInteger)
      return static_cast<T>(typename NumberTraits<T>::Wrap{0} - static_cast<typename NumberTraits<T>::Wrap>(x));
    else
      return -x;
  }
};

/// Real numbers; the smallest integer stays as it is.
struct Absolute {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    if constexpr (NumberTraits<T>::kFloat)
      return abs_of(x);
    else
      return x < T(0) ? Negative::apply(x) : x;
  }
};

/// -1, 0 or 1; NaN stays NaN, both zeros give +0.
struct Sign {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : static_cast<T>(x + T(0));
  }
};

struct SquareOf {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return Multiply::apply(x, x);
  }
};

/// max(x, 0); NaN stays NaN.
struct Relu {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return Maximum::apply(x, T(0));
  }
};

struct Relu2 {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    const T r = Maximum::apply(x, T(0));
    return Multiply::apply(r, r);
  }
};

struct Reciprocal {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    if constexpr (NumberTraits<T>::kComplex)
      return Divide::apply(T{1, 0}, x);
    else
      return T(1) / x;
  }
};

struct Floor {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return floor_of(x);
  }
};
struct Ceil {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return ceil_of(x);
  }
};
/// Halves go to the even neighbour.
struct Round {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return round_of(x);
  }
};
struct Trunc {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x) {
    return trunc_of(x);
  }
};

struct IsNan {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T x) {
    if constexpr (NumberTraits<T>::kComplex)
      return x.re != x.re || x.im != x.im;
    else
      return x != x;
  }
};
struct IsFinite {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T x) {
    if constexpr (NumberTraits<T>::kComplex)
      return apply(x.re) && apply(x.im);
    else
      return x - x == T(0);
  }
};
struct IsInf {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T x) {
    if constexpr (NumberTraits<T>::kComplex)
      return apply(x.re) || apply(x.im);
    else
      return x == x && x - x != T(0);
  }
};

struct SignBit {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T x) {
    return copysign_of(T(1), x) < T(0);
  }
};

/// NaN in any argument comes through.
struct ClampTo {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T x, T low, T high) {
    return Minimum::apply(Maximum::apply(x, low), high);
  }
};

}  // namespace gpukit
