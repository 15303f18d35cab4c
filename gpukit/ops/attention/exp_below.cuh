// The exponential of attention, written once: kernels and CPU loops give the same bits.
#pragma once
#include "gpukit/ops/common/types.cuh"

#ifndef __CUDACC_RTC__
#include <bit>
#include <cmath>
#endif

// Loops that are compiled for wide registers need it inside of them.
#if !defined(__CUDACC_RTC__) && defined(__GNUC__)
#define GPUKIT_EXP_INLINE __attribute__((always_inline)) inline
#else
#define GPUKIT_EXP_INLINE GPUKIT_DEVICE
#endif

namespace gpukit {

/// exp(x) for x <= 0, within 2 ulp; 0 below -87.
GPUKIT_EXP_INLINE float exp_below(float x) {
  constexpr float kNearest = 12582912.0f;  // leaves the nearest integer in the low bits
  const float shifted = fmaf(x, 1.44269504f, kNearest);
  const float n = shifted - kNearest;
  float r = fmaf(n, -0.693145752f, x);  // ln 2, its first bits and the rest
  r = fmaf(n, -1.42860677e-6f, r);
  float p = 1.98412698e-4f;  // r^7 / 7! and so on
  p = fmaf(p, r, 1.38888889e-3f);
  p = fmaf(p, r, 8.33333333e-3f);
  p = fmaf(p, r, 4.16666667e-2f);
  p = fmaf(p, r, 1.66666667e-1f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
#ifdef __CUDACC_RTC__
  const float power = __uint_as_float((__float_as_uint(shifted) + 127u) << 23);
#else
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
#endif
  return x < -87.0f ? 0.0f : p * power;
}

}  // namespace gpukit

#undef GPUKIT_EXP_INLINE
