// The inner loops of the CPU product: types of the sums, and the update of one small block of them over a slice of k.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "gpukit/ops/common/cpu.h"

// Fused multiply-add as one instruction; elsewhere std::fma gives the same bits.
// (The Windows compilers do not keep the stack aligned for these registers.)
#if defined(__x86_64__) && !defined(_WIN32)
#include <immintrin.h>
#define GPUKIT_HAS_AVX2_TILE 1
#endif

namespace gpukit::cpu {

inline constexpr int64_t kTile = 64;  // rows and columns of the output one task makes

/// How elements of T are summed. Integers are summed as unsigned, so that wrapping around is defined.
template <typename T>
struct Sums {
  using type = std::conditional_t<
      std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float,
      std::conditional_t<!std::is_integral_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>>;

  static type load(T v) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<type>(v);
    else
      return cpu::load(v);
  }
  template <typename Out>
  static Out store(type v) {
    if constexpr (std::is_same_v<Out, bool>)
      return v != 0;
    else if constexpr (std::is_same_v<Out, type>)
      return v;
    else if constexpr (std::is_integral_v<Out>)
      return static_cast<Out>(v);
    else
      return cpu::store<Out>(v);
  }
  static type add_product(type sum, type a, type b) {
    if constexpr (std::is_same_v<T, bool>)
      return sum | (a & b);
    else if constexpr (std::is_integral_v<T>)
      return sum + a * b;
    else if constexpr (std::is_floating_point_v<type>)
      return std::fma(a, b, sum);
    else
      return {std::fma(-a.imag(), b.imag(), std::fma(a.real(), b.real(), sum.real())),
              std::fma(a.imag(), b.real(), std::fma(a.real(), b.imag(), sum.imag()))};
  }
};

/// The block of sums that is kept in registers. kTile is a multiple of both.
template <typename Sum>
struct TileShape {
  static constexpr int kRows = 4;
  static constexpr int kColumns = sizeof(Sum) <= 4 ? 16 : sizeof(Sum) == 8 ? 8 : 4;
};

/// sums[r][c] += a[k][r] * b[k][c] for k = 0, 1, ...; rows of `sums` are kTile apart.
template <typename T, typename Sum>
void accumulate_plain(Sum* sums, const Sum* a, const Sum* b, int64_t depth) {
  constexpr int kRows = TileShape<Sum>::kRows, kColumns = TileShape<Sum>::kColumns;
  for (int row = 0; row < kRows; ++row) {
    Sum block[kColumns];
    for (int c = 0; c < kColumns; ++c) block[c] = sums[row * kTile + c];
    for (int64_t k = 0; k < depth; ++k) {
      const Sum factor = a[k * kRows + row];
      for (int c = 0; c < kColumns; ++c) block[c] = Sums<T>::add_product(block[c], factor, b[k * kColumns + c]);
    }
    for (int c = 0; c < kColumns; ++c) sums[row * kTile + c] = block[c];
  }
}

#ifdef GPUKIT_HAS_AVX2_TILE

inline bool has_avx2() {
  static const bool found = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return found;
}

__attribute__((target("avx2,fma"))) inline void accumulate_avx2(float* sums, const float* a, const float* b,
                                                                int64_t depth) {
  __m256 s[4][2];
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 2; ++c) s[r][c] = _mm256_load_ps(sums + r * kTile + 8 * c);
  for (int64_t k = 0; k < depth; ++k, a += 4, b += 16) {
    const __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
    for (int r = 0; r < 4; ++r) {
      const __m256 factor = _mm256_broadcast_ss(a + r);
      s[r][0] = _mm256_fmadd_ps(factor, b0, s[r][0]);
      s[r][1] = _mm256_fmadd_ps(factor, b1, s[r][1]);
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 2; ++c) _mm256_store_ps(sums + r * kTile + 8 * c, s[r][c]);
}

__attribute__((target("avx2,fma"))) inline void accumulate_avx2(double* sums, const double* a, const double* b,
                                                                int64_t depth) {
  __m256d s[4][2];
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 2; ++c) s[r][c] = _mm256_load_pd(sums + r * kTile + 4 * c);
  for (int64_t k = 0; k < depth; ++k, a += 4, b += 8) {
    const __m256d b0 = _mm256_load_pd(b), b1 = _mm256_load_pd(b + 4);
    for (int r = 0; r < 4; ++r) {
      const __m256d factor = _mm256_broadcast_sd(a + r);
      s[r][0] = _mm256_fmadd_pd(factor, b0, s[r][0]);
      s[r][1] = _mm256_fmadd_pd(factor, b1, s[r][1]);
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int c = 0; c < 2; ++c) _mm256_store_pd(sums + r * kTile + 4 * c, s[r][c]);
}

#endif

template <typename T, typename Sum>
void accumulate(Sum* sums, const Sum* a, const Sum* b, int64_t depth) {
#ifdef GPUKIT_HAS_AVX2_TILE
  if constexpr (std::is_floating_point_v<Sum>) {
    if (has_avx2()) return accumulate_avx2(sums, a, b, depth);
  }
#endif
  accumulate_plain<T>(sums, a, b, depth);
}

}  // namespace gpukit::cpu
