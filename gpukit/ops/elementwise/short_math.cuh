// Transcendental functions for 16-bit results, in float: short polynomials and the chip's approximations. The error is
// below 2^-13 of the value, so a float16 or bfloat16 result is within 1 ulp. Rare arguments take the library's
// function.
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

inline constexpr float kHalfPi = 1.5707963267948966f;
inline constexpr float kPi = 3.1415926535897931f;
inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

GPUKIT_DEVICE float exp_short(float x) { return exp2_approx(x * kLog2E); }

/// The difference loses digits near 0; there a polynomial.
GPUKIT_DEVICE float expm1_short(float x) {
  float p = fmaf(x, 0.00139983f, 0.00839558f);
  p = fmaf(p, x, 0.04166539f);
  p = fmaf(p, x, 0.16666277f);
  p = fmaf(p, x, 0.50000002f);
  const float near = fmaf(x * x, p, x);
  return fabsf(x) < 0.5f ? near : exp_short(x) - 1.0f;
}

GPUKIT_DEVICE float log1p_short(float x) {
  float p = fmaf(x, 0.20336629f, -0.25263523f);
  p = fmaf(p, x, 0.33331579f);
  p = fmaf(p, x, -0.49999483f);
  const float near = fmaf(x * x, p, x);
  return fabsf(x) < 0.125f ? near : log2_approx(1.0f + x) * kLn2;
}

/// 1 - exp(-x^2) times a polynomial in 1 / (1 + x / 2) for |x| >= 1.
GPUKIT_DEVICE float erf_short(float x) {
  const float s = x * x, a = fabsf(x);
  float p = fmaf(s, -5.66015301e-4f, 4.92478896e-3f);
  p = fmaf(p, s, -2.67177069e-2f);
  p = fmaf(p, s, 0.112804116f);
  p = fmaf(p, s, -0.376123557f);
  p = fmaf(p, s, 1.12837913f);
  const float t = reciprocal_approx(fmaf(a, 0.5f, 1.0f));
  float q = fmaf(t, 0.05646836f, 0.51022324f);
  q = fmaf(q, t, 0.11664554f);
  q = fmaf(q, t, 0.32689243f);
  q = fmaf(q, t, -0.00451922f);
  const float far = copysignf(fmaf(-q, exp2_approx(-s * kLog2E), 1.0f), x);
  return a < 1.0f ? p * x : far;
}

/// sin and cos of the remainder of x by pi / 2, and the quadrant. |x| up to kTurnLimit.
inline constexpr float kTurnLimit = 8192.0f;
struct Turn {
  float sine, cosine;
  int quadrant;
};
GPUKIT_DEVICE Turn turn_of(float x) {
  const float n = rintf(x * 0.63661977236758134f);
  // pi / 2 in three parts; the products are exact enough for 13 bits of n.
  float r = fmaf(n, -1.5707962512969971f, x);
  r = fmaf(n, -7.5497894158615964e-8f, r);
  r = fmaf(n, -5.3903025299577648e-15f, r);
  const float s = r * r;
  Turn turn;
  turn.sine = fmaf(r * s, fmaf(fmaf(s, -1.9588e-4f, 8.33275e-3f), s, -0.16666665f), r);
  turn.cosine = fmaf(s, fmaf(fmaf(s, -1.36613e-3f, 4.166142e-2f), s, -0.49999982f), 1.0f);
  turn.quadrant = static_cast<int>(n);
  return turn;
}
GPUKIT_DEVICE float sin_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return sinf(x);
  const Turn t = turn_of(x);
  const float v = (t.quadrant & 1) != 0 ? t.cosine : t.sine;
  return (t.quadrant & 2) != 0 ? -v : v;
}
GPUKIT_DEVICE float cos_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return cosf(x);
  const Turn t = turn_of(x);
  const float v = (t.quadrant & 1) != 0 ? t.sine : t.cosine;
  return ((t.quadrant + 1) & 2) != 0 ? -v : v;
}
GPUKIT_DEVICE float tan_short(float x) {
  if (!(fabsf(x) <= kTurnLimit)) return tanf(x);
  const Turn t = turn_of(x);
  const bool odd = (t.quadrant & 1) != 0;
  const float v = (odd ? t.cosine : t.sine) * reciprocal_approx(odd ? t.sine : t.cosine);
  return odd ? -v : v;
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
  const float r = asin_of_root(far ? sqrt_approx(z) : a, z);
  return copysignf(far ? fmaf(r, -2.0f, kHalfPi) : r, x);
}
GPUKIT_DEVICE float acos_short(float x) {
  const float a = fabsf(x);
  const bool far = a > 0.5f, positive = x > 0.0f;
  const float z = far ? fmaf(a, -0.5f, 0.5f) : a * a;
  const float r = asin_of_root(far ? sqrt_approx(z) : a, z);
  const float base = far ? (positive ? 0.0f : kPi) : kHalfPi;
  return fmaf(r, copysignf(far ? 2.0f : 1.0f, far == positive ? 1.0f : -1.0f), base);
}

/// atan of t in [0, 1].
GPUKIT_DEVICE float atan_of_ratio(float t) {
  const float s = t * t;
  float p = fmaf(s, 0.00800681f, -0.0374427f);
  p = fmaf(p, s, 0.08435377f);
  p = fmaf(p, s, -0.13512159f);
  p = fmaf(p, s, 0.19887317f);
  p = fmaf(p, s, -0.33327013f);
  p = fmaf(p, s, 0.99999942f);
  return p * t;
}
GPUKIT_DEVICE float atan_short(float x) {
  const float a = fabsf(x);
  const float r = atan_of_ratio(a > 1.0f ? reciprocal_approx(a) : a);
  return copysignf(a > 1.0f ? kHalfPi - r : r, x);
}
GPUKIT_DEVICE float atan2_short(float y, float x) {
  const float ax = fabsf(x), ay = fabsf(y);
  const float large = fmaxf(ax, ay), small = fminf(ax, ay);
  // Outside this range, and for NaN, the quotient needs care.
  if (!(large > 1e-30f && large < 1e30f && x == x && y == y)) return atan2f(y, x);
  float r = atan_of_ratio(small * reciprocal_approx(large));
  r = ay > ax ? kHalfPi - r : r;
  r = signbit(x) ? kPi - r : r;
  return copysignf(r, y);
}

/// Half of exp(|x|), so that the largest finite results do not overflow on the way.
GPUKIT_DEVICE float half_exp(float a) { return exp2_approx(fmaf(a, kLog2E, -1.0f)); }
GPUKIT_DEVICE float sinh_short(float x) {
  const float s = x * x, a = fabsf(x);
  const float near = fmaf(x * s, fmaf(fmaf(s, 2.0259e-4f, 8.33176e-3f), s, 0.16666675f), x);
  const float e = half_exp(a);
  return a < 1.0f ? near : copysignf(fmaf(reciprocal_approx(e), -0.25f, e), x);
}
GPUKIT_DEVICE float cosh_short(float x) {
  const float e = half_exp(fabsf(x));
  return fmaf(reciprocal_approx(e), 0.25f, e);
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
  const float size = fabsf(b);
  float r;
  if (fabsf(a) < 4096.0f * size && size < 1e30f && size > 1e-30f) {
    r = fmaf(-floorf(fabsf(a) * reciprocal_approx(size)), size, fabsf(a));
    // The quotient may be one off.
    if (r < 0.0f) r += size;
    if (r >= size) r -= size;
    r = copysignf(r, a);
  } else {
    r = fmodf(a, b);
  }
  if (r == 0.0f) return copysignf(0.0f, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

}  // namespace gpukit
