#include "gpukit/ops/common/vector_loops.h"

#include <array>
#include <bit>
#include <cmath>

#include "gpukit/ops/common/levels.h"

namespace gpukit::cpu {

namespace {

// Functions without branches, so that a loop over them becomes wide registers. std::fma is one instruction where they
// are, and the same bits elsewhere.

/// To the nearest integer, for |x| < 2^22. The low bits of x + kShift are that integer.
constexpr float kShift = 12582912.0f;
GPUKIT_ALWAYS_INLINE float nearest(float x) { return (x + kShift) - kShift; }

GPUKIT_ALWAYS_INLINE float power_of_two(int32_t n) { return std::bit_cast<float>((n + 127) << 23); }

GPUKIT_ALWAYS_INLINE float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float n = nearest(x * 1.44269504f);
  float r = std::fma(n, -0x1.62p-1f, x);
  r = std::fma(n, -0x1.c85fep-10f, r);
  float p = 0.0001989939f;
  p = std::fma(p, r, 0.0013933732f);
  p = std::fma(p, r, 0.0083332983f);
  p = std::fma(p, r, 0.041666463f);
  p = std::fma(p, r, 0.16666667f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r * r, r) + 1.0f;
  // In two factors: 2^n may be subnormal or too large, p 2^n right.
  const int32_t whole = std::bit_cast<int32_t>(n + kShift) - std::bit_cast<int32_t>(kShift), half = whole >> 1;
  return p * power_of_two(half) * power_of_two(whole - half);
}

GPUKIT_ALWAYS_INLINE float sigmoid_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

/// An odd polynomial up to 0.9, else 1 - 2 / (exp(2|x|) + 1).
GPUKIT_ALWAYS_INLINE float tanh_of(float x) {
  const float s = x * x;
  float p = 0x1.55d338p-10f;
  p = std::fma(p, s, -0x1.c1949ep-8f);
  p = std::fma(p, s, 0x1.567e42p-6f);
  p = std::fma(p, s, -0x1.b81622p-5f);
  p = std::fma(p, s, 0x1.11017ap-3f);
  p = std::fma(p, s, -0x1.555504p-2f);
  const float near = std::fma(p * s, x, x);
  const float far = std::copysign(1.0f - 2.0f / (exp_of(2.0f * std::fabs(x)) + 1.0f), x);
  return std::fabs(x) < 0.9f ? near : far;
}

GPUKIT_ALWAYS_INLINE float vector_silu(float x) { return x / (1.0f + exp_of(-x)); }
GPUKIT_ALWAYS_INLINE float vector_gelu(float x) {
  return x / (1.0f + exp_of(-(x * std::fma(x * x, 0.071354816f, 1.5957691f))));
}
/// erfc(z) = t exp(-z^2 + q(t)), t = 1 / (1 + z / 2), for z >= 0.
GPUKIT_ALWAYS_INLINE float vector_gelu_erf(float x) {
  const float z = std::fabs(x) * 0.70710678f, t = 1.0f / std::fma(z, 0.5f, 1.0f);
  float q = 0.14653717f;
  q = std::fma(q, t, -0.6895892f);
  q = std::fma(q, t, 1.1773763f);
  q = std::fma(q, t, -0.7237541f);
  q = std::fma(q, t, -0.057514884f);
  q = std::fma(q, t, -0.010834079f);
  q = std::fma(q, t, 0.038719513f);
  q = std::fma(q, t, 0.38577926f);
  q = std::fma(q, t, 0.998733f);
  q = std::fma(q, t, -1.265453f);
  const float tail = t * exp_of(std::fma(-z, z, q));
  return 0.5f * x * (x > 0.0f ? 2.0f - tail : tail);
}

/// Farther out the remainder by pi has too few bits.
constexpr float kMostAngle = 8192.0f;

/// sin(z)^2 has the period pi, so the remainder's sign does not matter.
GPUKIT_ALWAYS_INLINE float vector_snake(float x, float alpha) {
  const float z = alpha * x, n = nearest(z * 0.31830989f);
  float r = std::fma(n, -0x1.92p+1f, z);
  r = std::fma(n, -0x1.fb6p-11f, r);
  r = std::fma(n, 0x1.777a5cp-24f, r);
  const float s = r * r;
  float p = -2.4080474e-8f;
  p = std::fma(p, s, 2.7536478e-6f);
  p = std::fma(p, s, -0.00019841087f);
  p = std::fma(p, s, 0.0083333328f);
  p = std::fma(p, s, -0.16666667f);
  const float sine = std::fma(p * s, r, r);
  return x + sine * sine / alpha;
}

using Function = float (*)(float);
template <Function kFunction>
GPUKIT_ALWAYS_INLINE void each(float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = kFunction(x[i]);
}

GPUKIT_ALWAYS_INLINE void snake_each(float* __restrict__ out, const float* x, const float* alpha, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = vector_snake(x[i], alpha[i]);
  for (int64_t i = 0; i < count; ++i)
    if (const float z = alpha[i] * x[i]; !(std::fabs(z) <= kMostAngle)) {
      const float sine = std::sin(z);
      out[i] = x[i] + sine * sine / alpha[i];
    }
}

#define GPUKIT_LOOPS(Level, Attribute)                                                            \
  struct Level {                                                                                  \
    Attribute static void gelu(float* x, int64_t count) { each<vector_gelu>(x, count); }          \
    Attribute static void gelu_erf(float* x, int64_t count) { each<vector_gelu_erf>(x, count); }  \
    Attribute static void silu(float* x, int64_t count) { each<vector_silu>(x, count); }          \
    Attribute static void sigmoid(float* x, int64_t count) { each<sigmoid_of>(x, count); }        \
    Attribute static void tanh(float* x, int64_t count) { each<tanh_of>(x, count); }              \
    Attribute static void snake(float* out, const float* x, const float* alpha, int64_t count) {  \
      snake_each(out, x, alpha, count);                                                           \
    }                                                                                             \
    static constexpr VectorLoops loops() { return {gelu, gelu_erf, silu, sigmoid, tanh, snake}; } \
  };

GPUKIT_LOOPS(Plain, )
#ifdef GPUKIT_X86_LEVELS
GPUKIT_LOOPS(Avx2, GPUKIT_AVX2)
GPUKIT_LOOPS(Avx512, GPUKIT_AVX512)
constexpr std::array kLevels = {Plain::loops(), Avx2::loops(), Avx512::loops()};
#else
constexpr std::array kLevels = {Plain::loops()};
#endif
#undef GPUKIT_LOOPS

/// How many of kLevels this processor has.
size_t count_levels() { return static_cast<size_t>(kVectorLevel) + 1; }

}  // namespace

std::span<const VectorLoops> all_vector_loops() { return {kLevels.data(), count_levels()}; }
const VectorLoops& vector_loops() { return kLevels[count_levels() - 1]; }

}  // namespace gpukit::cpu
