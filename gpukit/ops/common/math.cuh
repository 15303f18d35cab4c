// Transcendental functions on the device. float and double use the accurate library functions (2 ulp or better; no
// fast-math); 16-bit floats use the chip's approximations, whose error is far below half an ulp of the 16-bit result.
#pragma once
#include "gpukit/ops/common/short_math.cuh"

namespace gpukit {

/// tanh up to 0.9 as an odd polynomial.
inline constexpr float kTanhNear = 0.9f;
GPUKIT_DEVICE float tanh_near(float x) {
  const float s = x * x;
  float p = 0x1.55d338p-10f;
  p = fmaf(p, s, -0x1.c1949ep-8f);
  p = fmaf(p, s, 0x1.567e42p-6f);
  p = fmaf(p, s, -0x1.b81622p-5f);
  p = fmaf(p, s, 0x1.11017ap-3f);
  p = fmaf(p, s, -0x1.555504p-2f);
  return fmaf(p * s, x, x);
}
/// tanh within 2 ulp: the polynomial, else 1 - 2 / (exp(2|x|) + 1). Both sides are computed: no divergence.
GPUKIT_DEVICE float tanh_of(float x) {
  const float far = fmaf(reciprocal_approx(expf(2.0f * fabsf(x)) + 1.0f), -2.0f, 1.0f);
  return copysignf(fabsf(x) < kTanhNear ? tanh_near(x) : far, x);  // -0 too
}

/// The quotient loses digits near 0, where x - x^3 / 3 + 2 x^5 / 15 is exact enough.
GPUKIT_DEVICE float tanh_short(float x) {
  const float s = x * x;
  const float near = fmaf(x * s, fmaf(s, 0.133333333f, -0.333333333f), x);
  const float far = fmaf(reciprocal_normal(exp2_normal(x * 2.8853900817779268f) + 1.0f), -2.0f, 1.0f);
  return fabsf(x) < 0.125f ? copysignf(near, x) : far;
}
/// gelu(x) = 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), written x / (1 + exp(-2u)): no cancellation in
/// the tail. The argument of the exponential is gelu_slope(x) x.
GPUKIT_DEVICE float gelu_slope(float x) { return fmaf(x * x, 0.071354816282f, 1.5957691216f); }
GPUKIT_DEVICE double gelu_slope(double x) { return fma(x * x, 0.07135481627260025, 1.5957691216057308); }
/// The factor of exp_short is folded into the polynomial. Where the reciprocal would be subnormal (x < -10) it is 0.
GPUKIT_DEVICE float gelu_short(float x) {
  return x * reciprocal_normal(1.0f + exp2_normal(x * fmaf(x * x, -0.10294324033f, -2.3022082144f)));
}

/// 0.5 x (1 + erf(x / sqrt(2))) by erfc: no cancellation in the tail.
GPUKIT_DEVICE float gelu_erf_of(float x) { return 0.5f * x * erfcf(x * -0.70710678118654752f); }
GPUKIT_DEVICE double gelu_erf_of(double x) { return 0.5 * x * erfc(x * -0.7071067811865475244); }
/// The same within 2^-14.7: erfc(|x| / sqrt(2)) / 2 is a polynomial in t = 1 / (1 + 3/8 |x|) times exp(-x^2 / 2). Where
/// that is subnormal (|x| > 13) it is 0.
GPUKIT_DEVICE float gelu_erf_short(float x) {
  const float t = reciprocal_normal(fmaf(fabsf(x), 0.375f, 1.0f));
  float p = -0x1.734684p-4f;
  p = fmaf(p, t, 0x1.9a2dfcp-3f);
  p = fmaf(p, t, 0x1.56462ap-4f);
  p = fmaf(p, t, 0x1.430a34p-3f);
  p = fmaf(p, t, 0x1.3146e4p-3f);
  const float tail = p * t * exp2_normal(x * x * -0.72134752044448171f);
  return x * (x < 0.0f ? tail : 1.0f - tail);
}

/// Where the reciprocal would be subnormal (x < -87) it is 0.
GPUKIT_DEVICE float silu_short(float x) { return x * reciprocal_normal(1.0f + exp2_normal(x * -kLog2E)); }

// What each function is for float, double, float16 and bfloat16.
#define GPUKIT_MATH(Name, cost, float_value, double_value, half_value, bfloat_value) \
  struct Name {                                                                      \
    static constexpr int kCost = cost;                                               \
    static GPUKIT_DEVICE float of(float x) { return float_value; }                   \
    static GPUKIT_DEVICE double of(double x) { return double_value; }                \
    static GPUKIT_DEVICE half of(half h) {                                           \
      const float x = load(h);                                                       \
      return store<half>(half_value);                                                \
    }                                                                                \
    static GPUKIT_DEVICE bfloat16 of(bfloat16 b) {                                   \
      const float x = load(b);                                                       \
      return store<bfloat16>(bfloat_value);                                          \
    }                                                                                \
  };

GPUKIT_MATH(Exp, 1, expf(x), exp(x), exp_short(x), exp_short(x))
GPUKIT_MATH(Expm1, 2, expm1f(x), expm1(x), expm1_short(x), expm1_short(x))
GPUKIT_MATH(Log, 1, logf(x), log(x), log2_approx(x) * kLn2, log2_approx(x) * kLn2)
GPUKIT_MATH(Log1p, 2, log1pf(x), log1p(x), log1p_short(x), log1p_short(x))
GPUKIT_MATH(Log2, 1, log2f(x), log2(x), log2_approx(x), log2_approx(x))
GPUKIT_MATH(Log10, 1, log10f(x), log10(x), log2_approx(x) * kLog10Of2, log2_approx(x) * kLog10Of2)
// 8 bits lie too far from the middle of two neighbours for the approximation to round differently; 11 bits do not.
GPUKIT_MATH(Sqrt, 1, sqrtf(x), sqrt(x), sqrtf(x), sqrt_approx(x))
GPUKIT_MATH(Rsqrt, 1, rsqrtf(x), rsqrt(x), rsqrtf(x), rsqrtf(x))
GPUKIT_MATH(Erf, 2, erff(x), erf(x), erf_short(x), erf_bfloat(x))
GPUKIT_MATH(Sin, 2, sinf(x), sin(x), sin_short(x), sin_short(x))
GPUKIT_MATH(Cos, 2, cosf(x), cos(x), cos_short(x), cos_short(x))
GPUKIT_MATH(Tan, 2, tanf(x), tan(x), tan_short(x), tan_short(x))
GPUKIT_MATH(Asin, 2, asinf(x), asin(x), asin_short(x), asin_short(x))
GPUKIT_MATH(Acos, 2, acosf(x), acos(x), acos_short(x), acos_short(x))
GPUKIT_MATH(Atan, 2, atanf(x), atan(x), atan_short(x), atan_short(x))
GPUKIT_MATH(Sinh, 2, sinhf(x), sinh(x), sinh_short(x), sinh_short(x))
GPUKIT_MATH(Cosh, 2, coshf(x), cosh(x), cosh_short(x), cosh_short(x))
GPUKIT_MATH(Asinh, 2, asinhf(x), asinh(x), asinhf(x), asinhf(x))
GPUKIT_MATH(Acosh, 2, acoshf(x), acosh(x), acoshf(x), acoshf(x))
GPUKIT_MATH(Atanh, 2, atanhf(x), atanh(x), atanhf(x), atanhf(x))
GPUKIT_MATH(Tanh, 2, tanh_of(x), tanh(x), tanh_short(x), tanh_short(x))
/// 1 / (1 + exp(-x)), and x times it.
GPUKIT_MATH(Sigmoid, 1, 1.0f / (1.0f + expf(-x)), 1.0 / (1.0 + exp(-x)), reciprocal_approx(1.0f + exp_short(-x)),
            reciprocal_approx(1.0f + exp_short(-x)))
GPUKIT_MATH(Silu, 1, x / (1.0f + expf(-x)), x / (1.0 + exp(-x)), x* reciprocal_approx(1.0f + exp_short(-x)),
            x* reciprocal_approx(1.0f + exp_short(-x)))
GPUKIT_MATH(Gelu, 1, x / (1.0f + expf(-x * gelu_slope(x))), x / (1.0 + exp(-x * gelu_slope(x))), gelu_short(x),
            gelu_short(x))
#undef GPUKIT_MATH

/// x + sin(alpha x)^2 / alpha, for float and double.
template <typename C>
GPUKIT_DEVICE C snake_of(C x, C alpha) {
  const C s = Sin::of(alpha * x);
  return x + s * s / alpha;
}

}  // namespace gpukit
