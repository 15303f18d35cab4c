// Arithmetic of the elementwise operations, written once: kernels and CPU loops include this file, so both compute the
// same values. Arguments are compute types: 16-bit floats arrive as float.
//
// Integers wrap. Integer division and remainder by zero give 0. A negative integer exponent gives the true power cut to
// an integer: 1 for base 1, +-1 for base -1, else 0. Shifts by a negative count or by the width and more shift all out.
#pragma once
#include "gpukit/ops/common/types.cuh"

#ifdef __CUDACC_RTC__
#include "gpukit/ops/common/half.cuh"
#else
#include <math.h>
namespace gpukit {
template <typename T>
struct alignas(2 * sizeof(T)) complex {
  T re, im;
};
}  // namespace gpukit
#endif

namespace gpukit {

template <typename T>
struct NumberTraits {
  static constexpr bool kInteger = false, kFloat = false, kComplex = false, kBool = false;
};
template <>
struct NumberTraits<float> {
  static constexpr bool kInteger = false, kFloat = true, kComplex = false, kBool = false;
};
template <>
struct NumberTraits<double> : NumberTraits<float> {};
template <>
struct NumberTraits<bool> {
  static constexpr bool kInteger = false, kFloat = false, kComplex = false, kBool = true;
};
template <typename T>
struct NumberTraits<complex<T>> {
  static constexpr bool kInteger = false, kFloat = false, kComplex = true, kBool = false;
};
/// `Wrap` is the unsigned type integer arithmetic wraps in.
template <typename Unsigned, bool Signed>
struct IntegerTraits {
  static constexpr bool kInteger = true, kFloat = false, kComplex = false, kBool = false, kSigned = Signed;
  using Wrap = Unsigned;
};
template <>
struct NumberTraits<int8_t> : IntegerTraits<uint32_t, true> {};
template <>
struct NumberTraits<int16_t> : IntegerTraits<uint32_t, true> {};
template <>
struct NumberTraits<int32_t> : IntegerTraits<uint32_t, true> {};
template <>
struct NumberTraits<int64_t> : IntegerTraits<uint64_t, true> {};
template <>
struct NumberTraits<uint8_t> : IntegerTraits<uint32_t, false> {};
template <>
struct NumberTraits<uint16_t> : IntegerTraits<uint32_t, false> {};
template <>
struct NumberTraits<uint32_t> : IntegerTraits<uint32_t, false> {};
template <>
struct NumberTraits<uint64_t> : IntegerTraits<uint64_t, false> {};

GPUKIT_DEVICE float floor_of(float x) { return floorf(x); }
GPUKIT_DEVICE double floor_of(double x) { return floor(x); }
GPUKIT_DEVICE float fmod_of(float x, float y) { return fmodf(x, y); }
GPUKIT_DEVICE double fmod_of(double x, double y) { return fmod(x, y); }
GPUKIT_DEVICE float abs_of(float x) { return fabsf(x); }
GPUKIT_DEVICE double abs_of(double x) { return fabs(x); }
GPUKIT_DEVICE float copysign_of(float x, float y) { return copysignf(x, y); }
GPUKIT_DEVICE double copysign_of(double x, double y) { return copysign(x, y); }
GPUKIT_DEVICE float pow_of(float x, float y) { return powf(x, y); }
GPUKIT_DEVICE double pow_of(double x, double y) { return pow(x, y); }
GPUKIT_DEVICE float atan2_of(float x, float y) { return atan2f(x, y); }
GPUKIT_DEVICE double atan2_of(double x, double y) { return atan2(x, y); }
GPUKIT_DEVICE float hypot_of(float x, float y) { return hypotf(x, y); }
GPUKIT_DEVICE double hypot_of(double x, double y) { return hypot(x, y); }
GPUKIT_DEVICE float nextafter_of(float x, float y) { return nextafterf(x, y); }
GPUKIT_DEVICE double nextafter_of(double x, double y) { return nextafter(x, y); }
GPUKIT_DEVICE float log1p_exp_of(float x) { return log1pf(expf(x)); }
GPUKIT_DEVICE double log1p_exp_of(double x) { return log1p(exp(x)); }

struct Add {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kBool)
      return a || b;
    else if constexpr (NumberTraits<T>::kInteger)
      return static_cast<T>(static_cast<typename NumberTraits<T>::Wrap>(a) +
                            static_cast<typename NumberTraits<T>::Wrap>(b));
    else if constexpr (NumberTraits<T>::kComplex)
      return {a.re + b.re, a.im + b.im};
    else
      return a + b;
  }
};

struct Subtract {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kInteger)
      return static_cast<T>(static_cast<typename NumberTraits<T>::Wrap>(a) -
                            static_cast<typename NumberTraits<T>::Wrap>(b));
    else if constexpr (NumberTraits<T>::kComplex)
      return {a.re - b.re, a.im - b.im};
    else
      return a - b;
  }
};

struct Multiply {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kBool)
      return a && b;
    else if constexpr (NumberTraits<T>::kInteger)
      return static_cast<T>(static_cast<typename NumberTraits<T>::Wrap>(a) *
                            static_cast<typename NumberTraits<T>::Wrap>(b));
    else if constexpr (NumberTraits<T>::kComplex)
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    else
      return a * b;
  }
};

/// Complex quotients by Smith's method: no overflow in the denominator's square.
struct Divide {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kComplex) {
      using R = decltype(a.re);
      if (abs_of(b.re) >= abs_of(b.im)) {
        if (b.re == R(0) && b.im == R(0)) return {a.re / abs_of(b.re), a.im / abs_of(b.re)};
        const R ratio = b.im / b.re;
        const R below = b.re + b.im * ratio;
        return {(a.re + a.im * ratio) / below, (a.im - a.re * ratio) / below};
      }
      const R ratio = b.re / b.im;
      const R below = b.im + b.re * ratio;
      return {(a.re * ratio + a.im) / below, (a.im * ratio - a.re) / below};
    } else {
      return a / b;
    }
  }
};

/// NaN in either argument comes through.
struct Minimum {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kFloat)
      return a < b || a != a ? a : b;
    else
      return a < b ? a : b;
  }
};

struct Maximum {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kFloat)
      return a > b || a != a ? a : b;
    else
      return a > b ? a : b;
  }
};

/// The sign of the divisor, as in Python.
struct Remainder {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kFloat) {
      T r = fmod_of(a, b);
      if (r == T(0)) return copysign_of(r, b);
      return (r < T(0)) != (b < T(0)) ? r + b : r;
    } else if constexpr (NumberTraits<T>::kSigned) {
      // b == -1 apart: the quotient of the smallest integer does not fit.
      if (b == T(0) || b == T(-1)) return T(0);
      const T r = static_cast<T>(a % b);
      return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(r + b) : r;
    } else {
      return b == T(0) ? T(0) : static_cast<T>(a % b);
    }
  }
};

/// Rounds towards minus infinity: integers as in Python, floats as the floor of the quotient where an operand is
/// infinite.
struct FloorDivide {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kFloat) {
      if (b == T(0) || a - a != T(0) || b - b != T(0)) return a / b;
      const T r = fmod_of(a, b);
      T q = (a - r) / b;
      if (r != T(0) && (r < T(0)) != (b < T(0))) q -= T(1);
      if (q == T(0)) return copysign_of(T(0), a / b);
      const T whole = floor_of(q);
      return q - whole > T(0.5) ? whole + T(1) : whole;
    } else if constexpr (NumberTraits<T>::kSigned) {
      using Wrap = typename NumberTraits<T>::Wrap;
      if (b == T(0)) return T(0);
      if (b == T(-1)) return static_cast<T>(Wrap{0} - static_cast<Wrap>(a));
      const T q = static_cast<T>(a / b);
      const T r = static_cast<T>(a % b);
      return r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(q - 1) : q;
    } else {
      return b == T(0) ? T(0) : static_cast<T>(a / b);
    }
  }
};

struct Power {
  static constexpr int kCost = 3;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if constexpr (NumberTraits<T>::kFloat) {
      return pow_of(a, b);
    } else {
      using Wrap = typename NumberTraits<T>::Wrap;
      if constexpr (NumberTraits<T>::kSigned) {
        if (b < T(0)) {
          if (a == T(1)) return T(1);
          if (a == T(-1)) return (b & 1) != 0 ? T(-1) : T(1);
          return T(0);
        }
      }
      Wrap base = static_cast<Wrap>(a), power = 1;
      for (Wrap e = static_cast<Wrap>(b); e != 0; e >>= 1) {
        if (e & 1u) power *= base;
        base *= base;
      }
      return static_cast<T>(power);
    }
  }
};

struct Atan2 {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return atan2_of(a, b);
  }
};

struct Hypot {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return hypot_of(a, b);
  }
};

struct CopySign {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return copysign_of(a, b);
  }
};

/// log(exp(a) + exp(b)); equal infinities stay.
struct LogAddExp {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    if (a == b) return a + T(0.69314718055994530942);
    return (a > b ? a : b) + log1p_exp_of(-abs_of(a - b));
  }
};

/// The neighbour of `a` on the side of `b`, by the bits of 16-bit floats.
struct NextAfter {
  static constexpr int kCost = 2;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return nextafter_of(a, b);
  }
  static GPUKIT_DEVICE uint16_t of_bits(uint16_t a, uint16_t b, uint16_t infinity) {
    const int size_a = a & 0x7fff, size_b = b & 0x7fff;
    if (size_a > infinity) return a;
    if (size_b > infinity || a == b || (size_a == 0 && size_b == 0)) return b;
    if (size_a == 0) return static_cast<uint16_t>((b & 0x8000) | 1);
    const bool away = ((a ^ b) & 0x8000) == 0 && size_a < size_b;
    return static_cast<uint16_t>(away ? a + 1 : a - 1);
  }
};

struct Equal {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T a, T b) {
    if constexpr (NumberTraits<T>::kComplex)
      return a.re == b.re && a.im == b.im;
    else
      return a == b;
  }
};
struct NotEqual {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T a, T b) {
    return !Equal::apply(a, b);
  }
};
struct Less {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE bool apply(T a, T b) {
    return a <= b;
  }
};

struct BitAnd {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
/// Unsigned types: a negative count is a large one.
struct ShiftLeft {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return b < T(8 * sizeof(T)) ? static_cast<T>(static_cast<typename NumberTraits<T>::Wrap>(a) << b) : T(0);
  }
};
struct ShiftRight {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    return b < T(8 * sizeof(T)) ? static_cast<T>(static_cast<typename NumberTraits<T>::Wrap>(a) >> b) : T(0);
  }
};
/// Fills with the sign bit of `a`, which is a signed value's bits.
struct ShiftRightSigned {
  static constexpr int kCost = 0;
  template <typename T>
  static GPUKIT_DEVICE T apply(T a, T b) {
    using Wrap = typename NumberTraits<T>::Wrap;
    constexpr T kWidth = T(8 * sizeof(T));
    const bool negative = (a >> (kWidth - 1)) != 0;
    const T shifted = b < kWidth ? static_cast<T>(static_cast<Wrap>(a) >> b) : T(0);
    const T filled = b == T(0) ? T(0) : static_cast<T>(~T(0) << (b < kWidth ? kWidth - b : 0));
    return negative ? static_cast<T>(shifted | filled) : shifted;
  }
};

}  // namespace gpukit
