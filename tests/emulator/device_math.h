// Bits and arithmetic of CUDA C.
#pragma once

inline unsigned __float_as_uint(float v) { return __builtin_bit_cast(unsigned, v); }
inline int __float_as_int(float v) { return __builtin_bit_cast(int, v); }
inline float __uint_as_float(unsigned v) { return __builtin_bit_cast(float, v); }
inline float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
inline long long __double_as_longlong(double v) { return __builtin_bit_cast(long long, v); }
inline double __longlong_as_double(long long v) { return __builtin_bit_cast(double, v); }
inline int __double2hiint(double v) { return static_cast<int>(__builtin_bit_cast(unsigned long long, v) >> 32); }
inline int __double2loint(double v) { return static_cast<int>(__builtin_bit_cast(unsigned long long, v)); }
inline double __hiloint2double(int high, int low) {
  return __builtin_bit_cast(
      double, static_cast<unsigned long long>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low));
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __ffsll(long long v) { return __builtin_ffsll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(v)); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1u) << (31 - i);
  return r;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned r = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned pick = selector >> 4 * i;
    unsigned byte = static_cast<unsigned>(bytes >> 8 * (pick & 7)) & 0xffu;
    if ((pick & 8) != 0) byte = (byte & 0x80u) != 0 ? 0xffu : 0u;
    r |= byte << 8 * i;
  }
  return r;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (by & 31));
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) << (by & 31) >> 32);
}
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 4; ++i) sum += static_cast<signed char>(a >> 8 * i) * static_cast<signed char>(b >> 8 * i);
  return sum;
}

// Arithmetic

#define EMULATOR_PICK(T)                                     \
  inline constexpr T min(T a, T b) { return b < a ? b : a; } \
  inline constexpr T max(T a, T b) { return a < b ? b : a; }
EMULATOR_PICK(int)
EMULATOR_PICK(unsigned)
EMULATOR_PICK(long)
EMULATOR_PICK(unsigned long)
EMULATOR_PICK(long long)
EMULATOR_PICK(unsigned long long)
#undef EMULATOR_PICK
inline constexpr unsigned min(int a, unsigned b) { return min(static_cast<unsigned>(a), b); }
inline constexpr unsigned min(unsigned a, int b) { return min(a, static_cast<unsigned>(b)); }
inline constexpr unsigned max(int a, unsigned b) { return max(static_cast<unsigned>(a), b); }
inline constexpr unsigned max(unsigned a, int b) { return max(a, static_cast<unsigned>(b)); }

#define EMULATOR_MATH1(name)                \
  extern "C" double name(double) noexcept;  \
  extern "C" float name##f(float) noexcept; \
  inline float name(float v) { return name##f(v); }
#define EMULATOR_MATH2(name)                       \
  extern "C" double name(double, double) noexcept; \
  extern "C" float name##f(float, float) noexcept; \
  inline float name(float a, float b) { return name##f(a, b); }
// clang-format off
EMULATOR_MATH1(sqrt)
EMULATOR_MATH1(cbrt)
EMULATOR_MATH1(exp)
EMULATOR_MATH1(exp2)
EMULATOR_MATH1(expm1)
EMULATOR_MATH1(exp10)
EMULATOR_MATH1(log)
EMULATOR_MATH1(log2)
EMULATOR_MATH1(log10)
EMULATOR_MATH1(log1p)
EMULATOR_MATH1(sin)
EMULATOR_MATH1(cos)
EMULATOR_MATH1(tan)
EMULATOR_MATH1(asin)
EMULATOR_MATH1(acos)
EMULATOR_MATH1(atan)
EMULATOR_MATH1(sinh)
EMULATOR_MATH1(cosh)
EMULATOR_MATH1(tanh)
EMULATOR_MATH1(asinh)
EMULATOR_MATH1(acosh)
EMULATOR_MATH1(atanh)
EMULATOR_MATH1(erf)
EMULATOR_MATH1(erfc)
EMULATOR_MATH1(lgamma)
EMULATOR_MATH1(tgamma)
EMULATOR_MATH1(floor)
EMULATOR_MATH1(ceil)
EMULATOR_MATH1(trunc)
EMULATOR_MATH1(round)
EMULATOR_MATH1(rint)
EMULATOR_MATH1(nearbyint)
EMULATOR_MATH1(fabs)
EMULATOR_MATH2(pow)
EMULATOR_MATH2(atan2)
EMULATOR_MATH2(hypot)
EMULATOR_MATH2(fmod)
EMULATOR_MATH2(fmin)
EMULATOR_MATH2(fmax)
EMULATOR_MATH2(copysign)
EMULATOR_MATH2(nextafter)
EMULATOR_MATH2(remainder)
EMULATOR_MATH2(fdim)
// clang-format on
#undef EMULATOR_MATH1
#undef EMULATOR_MATH2
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double scalbn(double, int) noexcept;
extern "C" float scalbnf(float, int) noexcept;
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
extern "C" long lrintf(float) noexcept;
extern "C" long long llrint(double) noexcept;
extern "C" long long llrintf(float) noexcept;
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline int abs(int v) { return v < 0 ? -v : v; }
inline long long abs(long long v) { return v < 0 ? -v : v; }
inline float abs(float v) { return fabsf(v); }
inline double abs(double v) { return fabs(v); }
inline float rsqrtf(float v) { return static_cast<float>(1.0 / sqrt(static_cast<double>(v))); }
inline double rsqrt(double v) { return 1.0 / sqrt(v); }
inline float rsqrt(float v) { return rsqrtf(v); }
#define EMULATOR_CLASS(T)                                      \
  inline bool isnan(T v) { return v != v; }                    \
  inline bool isinf(T v) { return __builtin_isinf(v) != 0; }   \
  inline bool isfinite(T v) { return !isnan(v) && !isinf(v); } \
  inline bool signbit(T v) { return __builtin_signbit(v) != 0; }
EMULATOR_CLASS(float)
EMULATOR_CLASS(double)
#undef EMULATOR_CLASS

/// The quarters are exact.
inline void sincospi(double v, double* sine, double* cosine) {
  if (isinf(v) || isnan(v)) {
    *sine = *cosine = v - v;
    return;
  }
  double r = fmod(v, 2.0);
  if (r < 0.0) r += 2.0;
  const int quarter = static_cast<int>(r * 2.0 + 0.5) & 3;
  r -= static_cast<int>(r * 2.0 + 0.5) * 0.5;
  const double s = sin(r * 3.14159265358979323846), c = cos(r * 3.14159265358979323846);
  *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
  *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
}
inline void sincospif(float v, float* sine, float* cosine) {
  double s, c;
  sincospi(v, &s, &c);
  *sine = static_cast<float>(s);
  *cosine = static_cast<float>(c);
}
inline void sincos(double v, double* sine, double* cosine) {
  *sine = sin(v);
  *cosine = cos(v);
}
inline void sincosf(float v, float* sine, float* cosine) {
  *sine = sinf(v);
  *cosine = cosf(v);
}
inline double sinpi(double v) {
  double s, c;
  sincospi(v, &s, &c);
  return s;
}
inline double cospi(double v) {
  double s, c;
  sincospi(v, &s, &c);
  return c;
}
inline float sinpif(float v) { return static_cast<float>(sinpi(v)); }
inline float cospif(float v) { return static_cast<float>(cospi(v)); }
inline double normcdf(double v) { return 0.5 * erfc(v * -0.70710678118654752440); }
inline float normcdff(float v) { return static_cast<float>(normcdf(v)); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float v) { return expf(v); }
inline float __exp2f(float v) { return exp2f(v); }
inline float __logf(float v) { return logf(v); }
inline float __log2f(float v) { return log2f(v); }
inline float __sinf(float v) { return sinf(v); }
inline float __cosf(float v) { return cosf(v); }
inline float __tanf(float v) { return tanf(v); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __saturatef(float v) { return v > 0.0f ? v < 1.0f ? v : 1.0f : 0.0f; }
inline float __double2float_rn(double v) { return static_cast<float>(v); }
inline float __double2float_rz(double v) {
  const float f = static_cast<float>(v);
  return fabs(static_cast<double>(f)) > fabs(v) ? nextafterf(f, 0.0f) : f;
}
inline int __float2int_rn(float v) {
  return isnan(v) ? 0 : v >= 2147483648.0f ? 2147483647 : v < -2147483648.0f ? -2147483647 - 1 : (int)rintf(v);
}
inline int __float2int_rz(float v) { return __float2int_rn(truncf(v)); }
inline int __float2int_rd(float v) { return __float2int_rn(floorf(v)); }
inline int __float2int_ru(float v) { return __float2int_rn(ceilf(v)); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline long long __double2ll_rn(double v) { return llrint(v); }
inline int __double2int_rn(double v) { return (int)llrint(v); }
