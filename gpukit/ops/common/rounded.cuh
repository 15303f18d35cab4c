// Operations that are each rounded to nearest and never fused: host and device give the same bits.
#pragma once
#include "gpukit/ops/common/types.cuh"
#ifndef __CUDACC_RTC__
#include <bit>
#include <cmath>
#endif

namespace gpukit::rounded {

#ifdef __CUDACC_RTC__
// The intrinsics are never fused by the compiler.
GPUKIT_DEVICE float add(float a, float b) { return __fadd_rn(a, b); }
GPUKIT_DEVICE float mul(float a, float b) { return __fmul_rn(a, b); }
GPUKIT_DEVICE float div(float a, float b) { return __fdiv_rn(a, b); }
GPUKIT_DEVICE float root(float a) { return __fsqrt_rn(a); }
GPUKIT_DEVICE double add(double a, double b) { return __dadd_rn(a, b); }
GPUKIT_DEVICE double mul(double a, double b) { return __dmul_rn(a, b); }
GPUKIT_DEVICE double div(double a, double b) { return __ddiv_rn(a, b); }
GPUKIT_DEVICE double root(double a) { return __dsqrt_rn(a); }
GPUKIT_DEVICE int32_t bits_of(float a) { return __float_as_int(a); }
GPUKIT_DEVICE int64_t bits_of(double a) { return __double_as_longlong(a); }
GPUKIT_DEVICE float from_bits(int32_t a) { return __int_as_float(a); }
GPUKIT_DEVICE double from_bits(int64_t a) { return __longlong_as_double(a); }
#else
inline float add(float a, float b) { return a + b; }
inline float mul(float a, float b) { return a * b; }
inline float div(float a, float b) { return a / b; }
inline float root(float a) { return std::sqrt(a); }
inline double add(double a, double b) { return a + b; }
inline double mul(double a, double b) { return a * b; }
inline double div(double a, double b) { return a / b; }
inline double root(double a) { return std::sqrt(a); }
inline int32_t bits_of(float a) { return std::bit_cast<int32_t>(a); }
inline int64_t bits_of(double a) { return std::bit_cast<int64_t>(a); }
inline float from_bits(int32_t a) { return std::bit_cast<float>(a); }
inline double from_bits(int64_t a) { return std::bit_cast<double>(a); }
#endif

/// Highest power first.
template <typename T, int N>
GPUKIT_DEVICE T polynomial(const T (&coefficients)[N], T x) {
  T sum = coefficients[0];
#ifdef __CUDACC_RTC__
#pragma unroll
#endif
  for (int i = 1; i < N; ++i) sum = add(mul(sum, x), coefficients[i]);
  return sum;
}

}  // namespace gpukit::rounded
