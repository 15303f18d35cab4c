// Transcendental functions for 16-bit results, in float: short polynomials and the chip's approximations. The error is
// below 2^-13 of the value (2^-10 where a name says bfloat), so the rounded result is within 1 ulp. Rare arguments take
// the library's function.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

/// Whether T is one of the 16-bit floats, which are computed in float.
template <typename T>
struct Short {
  static constexpr bool value = false;
};
template <>
struct Short<half> {
  static constexpr bool value = true;
};
template <>
struct Short<bfloat16> {
  static constexpr bool value = true;
};

GPUKIT_DEVICE float exp2_approx(float x) {
  float y;
  asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float log2_approx(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float sqrt_approx(float x) {
  float y;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// One instruction each, where neither argument nor result can be subnormal, or 0 would do as well.
GPUKIT_DEVICE float exp2_normal(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float log2_normal(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float reciprocal_normal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float sqrt_normal(float x) {
  float y;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Adding this to |x| < 2^21 leaves the nearest integer in the low bits; rounding instructions are four times slower.
inline constexpr float kRounder = 12582912.0f;

inline constexpr float kHalfPi = 1.5707963267948966f;
inline constexpr float kPi = 3.1415926535897931f;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
inline constexpr float kLog10Of2 = 0.30102999566398120f;

GPUKIT_DEVICE float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPUKIT_DEVICE float exp_short(float x) { return exp2_approx(x * kLog2E); }

/// The difference loses digits near 0; there a polynomial.
GPUKIT_DEVICE float expm1_short(float x) {
  float p = fmaf(x, 0.00139983f, 0.00839558f);
  p = fmaf(p, x, 0.04166539f);
  p = fmaf(p, x, 0.16666277f);
  p = fmaf(p, x, 0.50000002f);
  const float near = copysignf(fmaf(x * x, p, x), x);  // -0 too
  return fabsf(x) < 0.5f ? near : exp2_normal(x * kLog2E) - 1.0f;
}

GPUKIT_DEVICE float log1p_short(float x) {
  float p = fmaf(x, 0.20336629f, -0.25263523f);
  p = fmaf(p, x, 0.33331579f);
  p = fmaf(p, x, -0.49999483f);
  const float near = fmaf(x * x, p, x);
  return fabsf(x) < 0.125f ? near : log2_normal(1.0f + x) * kLn2;
}

/// 1 - exp(-x^2) times a polynomial in 1 / (1 + x / 2) for |x| >= 1.
GPUKIT_DEVICE float erf_short(float x) {
  const float s = x * x, a = fabsf(x);
  float p = fmaf(s, -5.66015301e-4f, 4.92478896e-3f);
  p = fmaf(p, s, -2.67177069e-2f);
  p = fmaf(p, s, 0.112804116f);
  p = fmaf(p, s, -0.376123557f);
  p = fmaf(p, s, 1.12837913f);
  const float t = reciprocal_normal(fmaf(a, 0.5f, 1.0f));
  float q = fmaf(t, 0.05646836f, 0.51022324f);
  q = fmaf(q, t, 0.11664554f);
  q = fmaf(q, t, 0.32689243f);
  q = fmaf(q, t, -0.00451922f);
  const float far = copysignf(fmaf(-q, exp2_normal(-s * kLog2E), 1.0f), x);
  return a < 1.0f ? p * x : far;
}
/// tanh(x q(x^2)): q is nearly straight, and the chip's tanh is good to 2^-11.
GPUKIT_DEVICE float erf_bfloat(float x) {
  const float s = fminf(x * x, 16.0f);
  return tanh_approx(x * fmaf(fmaf(s, -1.61635887e-3f, 0.103642218f), s, 1.12831378f));
}

/// The remainder of x by pi / 2, and the quadrant in the low bits. |x| up to kTurnLimit.
inline constexpr float kTurnLimit = 8192.0f;
struct Turn {
  float rest;
  uint32_t quadrant;
};
GPUKIT_DEVICE Turn turn_of(float x) {
  const float shifted = fmaf(x, 0.63661977236758134f, kRounder);
  const float n = shifted - kRounder;
  // pi / 2 in two parts: exact enough for 13 bits of n.
  return {fmaf(n, -7.5497894158615964e-8f, fmaf(n, -1.5707962512969971f, x)), __float_as_uint(shifted)};
}
/// Quarter turns of the sine: 0 and 2 are the sine of `rest` and its negative, 1 and 3 the cosine.
GPUKIT_DEVICE float sine_of_turn(float r, uint32_t quadrant) {
  const float s = r * r;
  const float sine = fmaf(r * s, fmaf(fmaf(s, -1.9588e-4f, 8.33275e-3f), s, -0.16666665f), r);
  const float cosine = fmaf(s, fmaf(fmaf(s, -1.36613e-3f, 4.166142e-2f), s, -0.49999982f), 1.0f);
  const float v = (quadrant & 1u) != 0 ? cosine : sine;
  return __uint_as_float(__float_as_uint(v) ^ ((quadrant & 2u) << 30));
}
GPUKIT_DEVICE float sin_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return sinf(x);
  const Turn t = turn_of(x);
  return x == 0.0f ? x : sine_of_turn(t.rest, t.quadrant);  // -0 too
}
GPUKIT_DEVICE float cos_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return cosf(x);
  const Turn t = turn_of(x);
  return sine_of_turn(t.rest, t.quadrant + 1u);
}
GPUKIT_DEVICE float tan_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return tanf(x);
  const Turn t = turn_of(x);
  const float s = t.rest * t.rest;
  const float p = fmaf(fmaf(s, 0.0932659581f, 0.117269211f), s, 0.33508268f);
  const float v = fmaf(t.rest * s, p, t.rest);
  return (t.quadrant & 1u) != 0 ? -reciprocal_normal(v) : v;
}

/// asin(sqrt(z)) where t = sqrt(z), z up to 1/4.
GPUKIT_DEVICE float asin_of_root(float t, float z) {
  float p = fmaf(z, 0.04572999f, 0.04197615f);
  p = fmaf(p, z, 0.07514199f);
  p = fmaf(p, z, 0.1666655f);
  return fmaf(t * z, p, t);
}
GPUKIT_DEVICE float asin_short(float x) {
  const float a = fabsf(x);
  const bool far = a > 0.5f;
  const float z = far ? fmaf(a, -0.5f, 0.5f) : a * a;
  const float r = asin_of_root(far ? sqrt_normal(z) : a, z);
  return copysignf(far ? fmaf(r, -2.0f, kHalfPi) : r, x);
}
/// sqrt(1 - |x|) times a polynomial.
GPUKIT_DEVICE float acos_short(float x) {
  const float a = fabsf(x);
  float p = fmaf(a, -0.0186163597f, 0.0740931705f);
  p = fmaf(p, a, -0.212052509f);
  p = fmaf(p, a, 1.57072544f);
  const float r = p * sqrt_normal(1.0f - a);
  return x < 0.0f ? kPi - r : r;
}

/// atan of t in [0, 1].
GPUKIT_DEVICE float atan_of_ratio(float t) {
  const float s = t * t;
  float p = fmaf(s, 0.0238631554f, -0.0919261128f);
  p = fmaf(p, s, 0.185215414f);
  p = fmaf(p, s, -0.331700802f);
  p = fmaf(p, s, 0.999970019f);
  return p * t;
}
GPUKIT_DEVICE float atan_short(float x) {
  const float a = fabsf(x);
  const float r = atan_of_ratio(a > 1.0f ? reciprocal_normal(a) : a);
  return copysignf(a > 1.0f ? kHalfPi - r : r, x);
}
GPUKIT_DEVICE float atan2_short(float y, float x) {
  const float ax = fabsf(x), ay = fabsf(y);
  const float large = fmaxf(ax, ay), small = fminf(ax, ay);
  // Outside this range, and for NaN, the quotient needs care.
  if (!(large > 1e-30f && large < 1e30f && x == x && y == y)) return atan2f(y, x);
  float r = atan_of_ratio(small * reciprocal_normal(large));
  r = ay > ax ? kHalfPi - r : r;
  r = signbit(x) ? kPi - r : r;
  return copysignf(r, y);
}

/// Half of exp(|x|), so that the largest finite results do not overflow on the way.
GPUKIT_DEVICE float half_exp(float a) { return exp2_normal(fmaf(a, kLog2E, -1.0f)); }
GPUKIT_DEVICE float sinh_short(float x) {
  const float s = x * x, a = fabsf(x);
  const float near = fmaf(x * s, fmaf(fmaf(s, 2.0259e-4f, 8.33176e-3f), s, 0.16666675f), x);
  const float e = half_exp(a);
  return a < 1.0f ? near : copysignf(fmaf(reciprocal_normal(e), -0.25f, e), x);
}
GPUKIT_DEVICE float cosh_short(float x) {
  const float e = half_exp(fabsf(x));
  return fmaf(reciprocal_normal(e), 0.25f, e);
}

/// exp2(b log2 |a|) with pow's rules for signs, zeros, infinities and NaN.
GPUKIT_DEVICE float pow_short(float a, float b) {
  if (b == 0.0f || a == 1.0f) return 1.0f;
  const float magnitude = fabsf(a);
  if (magnitude == 1.0f && isinf(b)) return 1.0f;
  float v = exp2f(b * log2f(magnitude));
  if (signbit(a)) {
    const bool whole = rintf(b) == b;
    const bool odd = whole && fabsf(b) < 16777216.0f && (static_cast<int>(b) & 1) != 0;
    if (odd) v = -v;
    if (!whole && magnitude != 0.0f && !isinf(a)) v = __int_as_float(0x7fffffff);
  }
  return a == a && b == b ? v : a + b;
}

/// a - floor(a / b) b. Exact: for quotients this small the product of quotient and divisor fits a float.
GPUKIT_DEVICE float remainder_short(float a, float b) {
  const float quotient = a * reciprocal_normal(b);
  const float size = fabsf(b);
  float r;
  if (fabsf(quotient) < 4096.0f && size > 1e-30f && size < 1e30f) {
    // The quotient may be one off: r is then of the other sign, or 0.
    r = fmaf((quotient + kRounder) - kRounder, -b, a);
  } else {
    r = fmodf(a, b);
  }
  if (r == 0.0f) return copysignf(0.0f, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

}  // namespace gpukit
