// Conversion of one element, written once for kernels and CPU loops. The rules are in cast.h.
#pragma once
#include "gpukit/ops/elementwise/arithmetic.cuh"

#ifdef __CUDACC_RTC__
#include "gpukit/ops/common/float8.cuh"
#else
#include "gpukit/base/half.h"
#endif

namespace gpukit {

/// Floats narrower than float: stored, computed on as float.
template <typename T>
struct Narrow {
  static constexpr bool value = false;
};
template <>
struct Narrow<half> {
  static constexpr bool value = true;
  static GPUKIT_DEVICE half from(float f) { return to_half(f); }
};
template <>
struct Narrow<bfloat16> {
  static constexpr bool value = true;
  static GPUKIT_DEVICE bfloat16 from(float f) { return to_bfloat16(f); }
};
template <>
struct Narrow<float8_e4m3> {
  static constexpr bool value = true;
  static GPUKIT_DEVICE float8_e4m3 from(float f) { return to_float8_e4m3(f); }
};
template <>
struct Narrow<float8_e5m2> {
  static constexpr bool value = true;
  static GPUKIT_DEVICE float8_e5m2 from(float f) { return to_float8_e5m2(f); }
};

/// Range of integer T, and the bounds a real must lie between (both outside the range) to be cut to T.
template <typename T>
struct IntegerRange {
  static constexpr int kBits = 8 * sizeof(T) - (NumberTraits<T>::kSigned ? 1 : 0);
  static constexpr T kMax = static_cast<T>(~uint64_t{0} >> (64 - kBits));
  static constexpr T kMin = NumberTraits<T>::kSigned ? static_cast<T>(-kMax - 1) : T(0);
};

template <typename To, typename Real>
GPUKIT_DEVICE To cut_to_integer(Real x) {
  // 2^bits is exact in Real; every value below it is cut without overflow.
  constexpr Real kAbove = static_cast<Real>(2) * static_cast<Real>(uint64_t{1} << (IntegerRange<To>::kBits - 1));
  if (x != x) return To(0);
  if (x >= kAbove) return IntegerRange<To>::kMax;
  if (x <= (NumberTraits<To>::kSigned ? -kAbove : Real(0))) return IntegerRange<To>::kMin;
  return static_cast<To>(x);
}

/// An integer as a double whose last bit says "not exact" when it is not, so that rounding it again is rounding once.
template <typename T>
GPUKIT_DEVICE double integer_to_odd_double(T x) {
  if constexpr (sizeof(T) < 8) {
    return static_cast<double>(x);
  } else {
    const bool negative = x < T(0);
    uint64_t m = negative ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    double scale = 1.0;
    if (m >> 53) {
      m = (m >> 11) | ((m & 0x7ffu) != 0 ? 1u : 0u);
      scale = 2048.0;
    }
    const double d = static_cast<double>(static_cast<int64_t>(m)) * scale;
    return negative ? -d : d;
  }
}

template <typename To, typename From>
GPUKIT_DEVICE To convert(From x) {
  if constexpr (Narrow<From>::value) {
    return convert<To>(to_float(x));
  } else if constexpr (NumberTraits<To>::kBool) {
    if constexpr (NumberTraits<From>::kComplex)
      return x.re != 0 || x.im != 0;
    else
      return x != From(0);
  } else if constexpr (NumberTraits<To>::kComplex) {
    using R = decltype(To{}.re);
    if constexpr (NumberTraits<From>::kComplex)
      return {static_cast<R>(x.re), static_cast<R>(x.im)};
    else
      return {convert<R>(x), R(0)};
  } else if constexpr (Narrow<To>::value) {
    if constexpr (NumberTraits<From>::kInteger)
      return Narrow<To>::from(round_to_odd(integer_to_odd_double(x)));
    else if constexpr (NumberTraits<From>::kFloat && sizeof(From) == 8)
      return Narrow<To>::from(round_to_odd(x));
    else
      return Narrow<To>::from(static_cast<float>(x));
  } else if constexpr (NumberTraits<To>::kInteger && NumberTraits<From>::kFloat) {
    return cut_to_integer<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace gpukit
