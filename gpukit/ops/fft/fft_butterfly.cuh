// Forward transforms of 2, 3, 4, 5, 7 and 8 points in registers, for kernels and for the CPU.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

template <typename T>
struct alignas(2 * sizeof(T)) Point {
  T re, im;
};

#ifdef __CUDACC_RTC__
#define GPUKIT_UNROLL _Pragma("unroll")
GPUKIT_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
GPUKIT_DEVICE double multiply_add(double a, double b, double c) { return fma(a, b, c); }
#else
#define GPUKIT_UNROLL _Pragma("GCC unroll 8")
// Without the instruction a fused one is a call.
template <typename T>
inline T multiply_add(T a, T b, T c) {
  return a * b + c;
}
#endif

template <typename T>
GPUKIT_DEVICE Point<T> operator+(Point<T> a, Point<T> b) {
  return {a.re + b.re, a.im + b.im};
}
template <typename T>
GPUKIT_DEVICE Point<T> operator-(Point<T> a, Point<T> b) {
  return {a.re - b.re, a.im - b.im};
}
template <typename T>
GPUKIT_DEVICE Point<T> operator*(Point<T> a, Point<T> b) {
  return {multiply_add(a.re, b.re, -(a.im * b.im)), multiply_add(a.re, b.im, a.im * b.re)};
}
/// a times -i.
template <typename T>
GPUKIT_DEVICE Point<T> turn(Point<T> a) {
  return {a.im, -a.re};
}

/// cos and sin of 2 pi k / R for 1 <= k < R.
template <int R>
struct Circle;
template <>
struct Circle<3> {
  static GPUKIT_DEVICE constexpr double cos(int) { return -0.5; }
  static GPUKIT_DEVICE constexpr double sin(int k) { return k == 1 ? 0.86602540378443864676 : -0.86602540378443864676; }
};
template <>
struct Circle<5> {
  static GPUKIT_DEVICE constexpr double cos(int k) {
    return k == 1 || k == 4 ? 0.30901699437494742410 : -0.80901699437494742410;
  }
  static GPUKIT_DEVICE constexpr double sin(int k) {
    return k == 1   ? 0.95105651629515357212
           : k == 2 ? 0.58778525229247312917
           : k == 3 ? -0.58778525229247312917
                    : -0.95105651629515357212;
  }
};
template <>
struct Circle<7> {
  static GPUKIT_DEVICE constexpr double cos(int k) {
    return k == 1 || k == 6   ? 0.62348980185873353053
           : k == 2 || k == 5 ? -0.22252093395631440429
                              : -0.90096886790241912624;
  }
  static GPUKIT_DEVICE constexpr double sin(int k) {
    return k == 1   ? 0.78183148246802980871
           : k == 2 ? 0.97492791218182360702
           : k == 3 ? 0.43388373911755812048
           : k == 4 ? -0.43388373911755812048
           : k == 5 ? -0.97492791218182360702
                    : -0.78183148246802980871;
  }
};

/// v becomes its transform, in order.
template <int R, typename T>
struct Butterfly {
  static_assert(R == 3 || R == 5 || R == 7, "odd ones share this form");
  static GPUKIT_DEVICE void run(Point<T>* v) {
    constexpr int kHalf = (R - 1) / 2;
    Point<T> plus[kHalf], minus[kHalf];
    Point<T> first = v[0];
    GPUKIT_UNROLL
    for (int j = 0; j < kHalf; ++j) {
      plus[j] = v[j + 1] + v[R - 1 - j];
      minus[j] = v[j + 1] - v[R - 1 - j];
      first = first + plus[j];
    }
    GPUKIT_UNROLL
    for (int k = 1; k <= kHalf; ++k) {
      Point<T> even = v[0], odd = {T(0), T(0)};
      GPUKIT_UNROLL
      for (int j = 0; j < kHalf; ++j) {
        const T c = T(Circle<R>::cos((j + 1) * k % R)), s = T(Circle<R>::sin((j + 1) * k % R));
        even = {multiply_add(plus[j].re, c, even.re), multiply_add(plus[j].im, c, even.im)};
        odd = {multiply_add(minus[j].re, s, odd.re), multiply_add(minus[j].im, s, odd.im)};
      }
      // plus and minus hold all that is left of the inputs.
      v[k] = {even.re + odd.im, even.im - odd.re};
      v[R - k] = {even.re - odd.im, even.im + odd.re};
    }
    v[0] = first;
  }
};
template <typename T>
struct Butterfly<2, T> {
  static GPUKIT_DEVICE void run(Point<T>* v) {
    const Point<T> a = v[0];
    v[0] = a + v[1];
    v[1] = a - v[1];
  }
};
template <typename T>
struct Butterfly<4, T> {
  static GPUKIT_DEVICE void run(Point<T>* v) {
    const Point<T> a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = turn(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
};
template <typename T>
struct Butterfly<8, T> {
  static GPUKIT_DEVICE void run(Point<T>* v) {
    constexpr T kRoot = T(0.70710678118654752440);
    Point<T> even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
    Butterfly<4, T>::run(even);
    Butterfly<4, T>::run(odd);
    odd[1] = {(odd[1].re + odd[1].im) * kRoot, (odd[1].im - odd[1].re) * kRoot};
    odd[2] = turn(odd[2]);
    odd[3] = {(odd[3].im - odd[3].re) * kRoot, -(odd[3].re + odd[3].im) * kRoot};
    GPUKIT_UNROLL
    for (int i = 0; i < 4; ++i) {
      v[i] = even[i] + odd[i];
      v[i + 4] = even[i] - odd[i];
    }
  }
};

}  // namespace gpukit
