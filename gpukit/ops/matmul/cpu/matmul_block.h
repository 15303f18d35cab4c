// The inner loops of the CPU product: how elements are packed and summed, and the update of one block of sums that
// stays in registers while k passes by. Written for three levels of the processor; every level gives the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "gpukit/ops/common/cpu.h"
#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/matmul/matmul_impl.h"

#ifdef GPUKIT_X86_LEVELS
#include <immintrin.h>
#endif

namespace gpukit::cpu {

// Most dtypes are packed as the type of their sums; these two are not.

/// Two neighbours in k, the earlier one in the low half: the processor multiplies and adds such pairs in one step.
struct Pair {
  uint32_t bits;
};
/// A truth value: the "sum" of such products is whether any is true.
struct Truth {
  uint32_t bits;
};

/// A complex number of a product whose sides are swapped: what is multiplied with is the right one.
template <typename F>
struct Swapped {
  F re, im;
  Swapped operator-() const { return {-re, -im}; }
};

inline float add_product(float sum, float a, float b) { return std::fma(a, b, sum); }
inline double add_product(double sum, double a, double b) { return std::fma(a, b, sum); }
inline uint32_t add_product(uint32_t sum, uint32_t a, uint32_t b) { return sum + a * b; }
inline uint64_t add_product(uint64_t sum, uint64_t a, uint64_t b) { return sum + a * b; }
inline uint32_t add_product(uint32_t sum, Truth a, Truth b) { return sum | (a.bits & b.bits); }
inline uint32_t add_product(uint32_t sum, Pair a, Pair b) {
  const auto part = [](uint32_t bits) { return static_cast<uint32_t>(static_cast<int16_t>(bits)); };
  return sum + part(a.bits) * part(b.bits) + part(a.bits >> 16) * part(b.bits >> 16);
}
template <typename F>
std::complex<F> add_product(std::complex<F> sum, std::complex<F> a, std::complex<F> b) {
  return {std::fma(-a.imag(), b.imag(), std::fma(a.real(), b.real(), sum.real())),
          std::fma(a.imag(), b.real(), std::fma(a.real(), b.imag(), sum.imag()))};
}

template <typename F>
std::complex<F> add_product(std::complex<F> sum, Swapped<F> right, Swapped<F> left) {
  return add_product(sum, std::complex<F>(left.re, left.im), std::complex<F>(right.re, right.im));
}

/// How elements of T are packed and summed. Integers are summed as unsigned, so that wrapping around is defined.
template <typename T>
struct Sums {
  using type = std::conditional_t<
      std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float,
      std::conditional_t<!std::is_integral_v<T>, T, std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>>;
  static constexpr bool kPairs = std::is_same_v<T, int8_t> || std::is_same_v<T, uint8_t> || std::is_same_v<T, int16_t>;
  using Packed = std::conditional_t<kPairs, Pair, std::conditional_t<std::is_same_v<T, bool>, Truth, type>>;
  static constexpr int kSteps = kPairs ? 2 : 1;  // of k in one Packed

  static GPUKIT_ALWAYS_INLINE Packed pack(T v) {
    if constexpr (std::is_integral_v<T>)
      return {static_cast<type>(v)};
    else
      return cpu::load(v);
  }
  static GPUKIT_ALWAYS_INLINE Pair pack(T low, T high) {
    return {(static_cast<uint32_t>(low) & 0xffffu) | static_cast<uint32_t>(high) << 16};
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
};

template <typename F>
struct Sums<Swapped<F>> {
  using type = std::complex<F>;
  using Packed = Swapped<F>;
  static constexpr bool kPairs = false;
  static constexpr int kSteps = 1;

  static GPUKIT_ALWAYS_INLINE Packed pack(Packed v) { return v; }
  template <typename Out>
  static Out store(type v) {
    return v;
  }
};

/// Packed steps that hold `depth` steps of k.
template <typename T>
constexpr int64_t packed_steps(int64_t depth) {
  return (depth + Sums<T>::kSteps - 1) / Sums<T>::kSteps;
}

/// Rows and columns of the block of sums in registers. `Bytes` is the size of one sum.
struct PlainShape {
  static constexpr int kRows = 4;
  template <int Bytes>
  static constexpr int kColumns = Bytes <= 4   ? 16
                                  : Bytes == 8 ? 8
                                               : 4;
};
struct Avx2Shape {
  static constexpr int kRows = 6, kVectors = 2;
  template <int Bytes>
  static constexpr int kColumns = kVectors * 32 / Bytes;
};
struct Avx512Shape {
  static constexpr int kRows = 8, kVectors = 2;
  template <int Bytes>
  static constexpr int kColumns = kVectors * 64 / Bytes;
};
inline constexpr int kMaxBlockRows = 8, kMaxBlockColumns = 32;

/// sums[r][c] (+)= a[k][r] * b[k][c] for k = 0, 1, ... and the first `Rows` rows of a block; `fresh` sums start at 0.
/// Rows of `sums` are `stride` apart and steps of `b` `b_stride`; a step of `a` is the shape's rows.
template <typename Sum, typename Packed>
void accumulate_rows(int rows, Sum* sums, int64_t stride, const Packed* a, const Packed* b, int64_t b_stride,
                     int64_t steps, bool fresh) {
  constexpr int kColumns = PlainShape::kColumns<sizeof(Sum)>;
  for (int row = 0; row < rows; ++row) {
    Sum block[kColumns] = {};
    if (!fresh)
      for (int c = 0; c < kColumns; ++c) block[c] = sums[row * stride + c];
    for (int64_t k = 0; k < steps; ++k) {
      const Packed factor = a[k * PlainShape::kRows + row];
      for (int c = 0; c < kColumns; ++c) block[c] = add_product(block[c], factor, b[k * b_stride + c]);
    }
    for (int c = 0; c < kColumns; ++c) sums[row * stride + c] = block[c];
  }
}
template <typename Sum, typename Packed, int Rows>
void accumulate_plain(Sum* sums, int64_t stride, const Packed* a, const Packed* b, int64_t b_stride, int64_t steps,
                      bool fresh) {
  accumulate_rows(Rows, sums, stride, a, b, b_stride, steps, fresh);
}

#ifdef GPUKIT_X86_LEVELS

// One name for the few instructions each level needs, chosen by the type of what is packed. Complex numbers lie as
// pairs of lanes; each of their operands is two vectors, for the two products that are added one after the other.
namespace avx2 {

#define GPUKIT_INLINE GPUKIT_ALWAYS_INLINE GPUKIT_AVX2
GPUKIT_INLINE __m256 zero(float) { return _mm256_setzero_ps(); }
GPUKIT_INLINE __m256d zero(double) { return _mm256_setzero_pd(); }
GPUKIT_INLINE __m256i zero(uint32_t) { return _mm256_setzero_si256(); }
GPUKIT_INLINE __m256 fetch(const float* p) { return _mm256_loadu_ps(p); }
GPUKIT_INLINE __m256d fetch(const double* p) { return _mm256_loadu_pd(p); }
GPUKIT_INLINE __m256i fetch(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
GPUKIT_INLINE void put(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
GPUKIT_INLINE void put(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
GPUKIT_INLINE void put(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
GPUKIT_INLINE __m256 all(float v) { return _mm256_set1_ps(v); }
GPUKIT_INLINE __m256d all(double v) { return _mm256_set1_pd(v); }
GPUKIT_INLINE __m256i all(uint32_t v) { return _mm256_set1_epi32(static_cast<int>(v)); }
GPUKIT_INLINE __m256i all(Pair v) { return all(v.bits); }
GPUKIT_INLINE __m256 add_product(float, __m256 s, __m256 a, __m256 b) { return _mm256_fmadd_ps(a, b, s); }
GPUKIT_INLINE __m256d add_product(double, __m256d s, __m256d a, __m256d b) { return _mm256_fmadd_pd(a, b, s); }
GPUKIT_INLINE __m256i add_product(uint32_t, __m256i s, __m256i a, __m256i b) {
  return _mm256_add_epi32(s, _mm256_mullo_epi32(a, b));
}
GPUKIT_INLINE __m256i add_product(Pair, __m256i s, __m256i a, __m256i b) {
  return _mm256_add_epi32(s, _mm256_madd_epi16(a, b));
}
struct Floats {
  __m256 first, second;
};
struct Doubles {
  __m256d first, second;
};
GPUKIT_INLINE __m256 zero(std::complex<float>) { return zero(float{}); }
GPUKIT_INLINE __m256d zero(std::complex<double>) { return zero(double{}); }
GPUKIT_INLINE __m256 swap_parts(__m256 v) { return _mm256_permute_ps(v, 0xb1); }
GPUKIT_INLINE __m256d swap_parts(__m256d v) { return _mm256_permute_pd(v, 0x5); }
GPUKIT_INLINE __m256 negate_first(__m256 v) {
  return _mm256_xor_ps(v, _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000)));
}
GPUKIT_INLINE __m256d negate_first(__m256d v) { return _mm256_xor_pd(v, _mm256_setr_pd(-0.0, 0.0, -0.0, 0.0)); }
GPUKIT_INLINE __m256 fetch(const std::complex<float>* p) { return fetch(reinterpret_cast<const float*>(p)); }
GPUKIT_INLINE __m256d fetch(const std::complex<double>* p) { return fetch(reinterpret_cast<const double*>(p)); }
GPUKIT_INLINE void put(std::complex<float>* p, __m256 v) { put(reinterpret_cast<float*>(p), v); }
GPUKIT_INLINE void put(std::complex<double>* p, __m256d v) { put(reinterpret_cast<double*>(p), v); }
template <typename Packed>
GPUKIT_INLINE auto fetch_column(const Packed* p) {
  return fetch(p);
}
GPUKIT_INLINE Floats fetch_column(const std::complex<float>* p) {
  const __m256 v = fetch(p);
  return {v, negate_first(swap_parts(v))};
}
GPUKIT_INLINE Doubles fetch_column(const std::complex<double>* p) {
  const __m256d v = fetch(p);
  return {v, negate_first(swap_parts(v))};
}
GPUKIT_INLINE Floats fetch_column(const Swapped<float>* p) {
  const __m256 v = fetch(&p->re);
  return {_mm256_moveldup_ps(v), negate_first(_mm256_movehdup_ps(v))};
}
GPUKIT_INLINE Doubles fetch_column(const Swapped<double>* p) {
  const __m256d v = fetch(&p->re);
  return {_mm256_movedup_pd(v), negate_first(_mm256_permute_pd(v, 0xf))};
}
GPUKIT_INLINE Floats all(std::complex<float> v) { return {all(v.real()), all(v.imag())}; }
GPUKIT_INLINE Doubles all(std::complex<double> v) { return {all(v.real()), all(v.imag())}; }
GPUKIT_INLINE Floats all(Swapped<float> v) {
  const __m256 both = _mm256_castpd_ps(all(std::bit_cast<double>(v)));
  return {both, swap_parts(both)};
}
GPUKIT_INLINE Doubles all(Swapped<double> v) {
  const __m256d both = _mm256_setr_pd(v.re, v.im, v.re, v.im);
  return {both, swap_parts(both)};
}
template <typename Packed>
GPUKIT_INLINE __m256 add_product(Packed, __m256 s, Floats a, Floats b) {
  return _mm256_fmadd_ps(a.second, b.second, _mm256_fmadd_ps(a.first, b.first, s));
}
template <typename Packed>
GPUKIT_INLINE __m256d add_product(Packed, __m256d s, Doubles a, Doubles b) {
  return _mm256_fmadd_pd(a.second, b.second, _mm256_fmadd_pd(a.first, b.first, s));
}
#undef GPUKIT_INLINE

template <typename Sum, typename Packed, int Rows>
GPUKIT_AVX2 void accumulate(Sum* sums, int64_t stride, const Packed* a, const Packed* b, int64_t b_stride,
                            int64_t steps, bool fresh) {
  constexpr int kVectors = Avx2Shape::kVectors, kLanes = 32 / sizeof(Sum);
  decltype(zero(Sum{})) s[Rows][kVectors];
  decltype(fetch_column(b)) column[kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) s[r][c] = fresh ? zero(Sum{}) : fetch(sums + r * stride + c * kLanes);
  for (int64_t k = 0; k < steps; ++k, a += Avx2Shape::kRows, b += b_stride) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) column[c] = fetch_column(b + c * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const auto factor = all(a[r]);
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) s[r][c] = add_product(Packed{}, s[r][c], factor, column[c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) put(sums + r * stride + c * kLanes, s[r][c]);
}

}  // namespace avx2

namespace avx512 {

// Whole masks where GCC 12 warns of what it leaves undefined without one.

#define GPUKIT_INLINE GPUKIT_ALWAYS_INLINE GPUKIT_AVX512
GPUKIT_INLINE __m512 zero(float) { return _mm512_setzero_ps(); }
GPUKIT_INLINE __m512d zero(double) { return _mm512_setzero_pd(); }
GPUKIT_INLINE __m512i zero(uint32_t) { return _mm512_setzero_si512(); }
GPUKIT_INLINE __m512 fetch(const float* p) { return _mm512_loadu_ps(p); }
GPUKIT_INLINE __m512d fetch(const double* p) { return _mm512_loadu_pd(p); }
GPUKIT_INLINE __m512i fetch(const void* p) { return _mm512_loadu_si512(p); }
GPUKIT_INLINE void put(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
GPUKIT_INLINE void put(double* p, __m512d v) { _mm512_storeu_pd(p, v); }
GPUKIT_INLINE void put(void* p, __m512i v) { _mm512_storeu_si512(p, v); }
GPUKIT_INLINE __m512 all(float v) { return _mm512_set1_ps(v); }
GPUKIT_INLINE __m512d all(double v) { return _mm512_set1_pd(v); }
GPUKIT_INLINE __m512i all(uint32_t v) { return _mm512_set1_epi32(static_cast<int>(v)); }
GPUKIT_INLINE __m512i all(Pair v) { return all(v.bits); }
GPUKIT_INLINE __m512 add_product(float, __m512 s, __m512 a, __m512 b) { return _mm512_fmadd_ps(a, b, s); }
GPUKIT_INLINE __m512d add_product(double, __m512d s, __m512d a, __m512d b) { return _mm512_fmadd_pd(a, b, s); }
GPUKIT_INLINE __m512i add_product(uint32_t, __m512i s, __m512i a, __m512i b) {
  return _mm512_add_epi32(s, _mm512_mullo_epi32(a, b));
}
GPUKIT_INLINE __m512i add_product(Pair, __m512i s, __m512i a, __m512i b) {
  return _mm512_add_epi32(s, _mm512_madd_epi16(a, b));
}
struct Floats {
  __m512 first, second;
};
struct Doubles {
  __m512d first, second;
};
GPUKIT_INLINE __m512 zero(std::complex<float>) { return zero(float{}); }
GPUKIT_INLINE __m512d zero(std::complex<double>) { return zero(double{}); }
GPUKIT_INLINE __m512 swap_parts(__m512 v) { return _mm512_maskz_permute_ps(0xffff, v, 0xb1); }
GPUKIT_INLINE __m512d swap_parts(__m512d v) { return _mm512_maskz_permute_pd(0xff, v, 0x55); }
GPUKIT_INLINE __m512 negate_first(__m512 v) {
  return _mm512_xor_ps(v, _mm512_castsi512_ps(_mm512_set1_epi64(0x80000000)));
}
GPUKIT_INLINE __m512d negate_first(__m512d v) {
  return _mm512_xor_pd(v, _mm512_maskz_broadcast_f64x2(0xff, _mm_setr_pd(-0.0, 0.0)));
}
GPUKIT_INLINE __m512 fetch(const std::complex<float>* p) { return fetch(reinterpret_cast<const float*>(p)); }
GPUKIT_INLINE __m512d fetch(const std::complex<double>* p) { return fetch(reinterpret_cast<const double*>(p)); }
GPUKIT_INLINE void put(std::complex<float>* p, __m512 v) { put(reinterpret_cast<float*>(p), v); }
GPUKIT_INLINE void put(std::complex<double>* p, __m512d v) { put(reinterpret_cast<double*>(p), v); }
template <typename Packed>
GPUKIT_INLINE auto fetch_column(const Packed* p) {
  return fetch(p);
}
GPUKIT_INLINE Floats fetch_column(const std::complex<float>* p) {
  const __m512 v = fetch(p);
  return {v, negate_first(swap_parts(v))};
}
GPUKIT_INLINE Doubles fetch_column(const std::complex<double>* p) {
  const __m512d v = fetch(p);
  return {v, negate_first(swap_parts(v))};
}
GPUKIT_INLINE Floats fetch_column(const Swapped<float>* p) {
  const __m512 v = fetch(&p->re);
  return {_mm512_maskz_moveldup_ps(0xffff, v), negate_first(_mm512_maskz_movehdup_ps(0xffff, v))};
}
GPUKIT_INLINE Doubles fetch_column(const Swapped<double>* p) {
  const __m512d v = fetch(&p->re);
  return {_mm512_maskz_movedup_pd(0xff, v), negate_first(_mm512_maskz_permute_pd(0xff, v, 0xff))};
}
GPUKIT_INLINE Floats all(std::complex<float> v) { return {all(v.real()), all(v.imag())}; }
GPUKIT_INLINE Doubles all(std::complex<double> v) { return {all(v.real()), all(v.imag())}; }
GPUKIT_INLINE Floats all(Swapped<float> v) {
  const __m512 both = _mm512_castpd_ps(all(std::bit_cast<double>(v)));
  return {both, swap_parts(both)};
}
GPUKIT_INLINE Doubles all(Swapped<double> v) {
  const __m512d both = _mm512_maskz_broadcast_f64x2(0xff, _mm_setr_pd(v.re, v.im));
  return {both, swap_parts(both)};
}
template <typename Packed>
GPUKIT_INLINE __m512 add_product(Packed, __m512 s, Floats a, Floats b) {
  return _mm512_fmadd_ps(a.second, b.second, _mm512_fmadd_ps(a.first, b.first, s));
}
template <typename Packed>
GPUKIT_INLINE __m512d add_product(Packed, __m512d s, Doubles a, Doubles b) {
  return _mm512_fmadd_pd(a.second, b.second, _mm512_fmadd_pd(a.first, b.first, s));
}
#undef GPUKIT_INLINE

template <typename Sum, typename Packed, int Rows>
GPUKIT_AVX512 void accumulate(Sum* sums, int64_t stride, const Packed* a, const Packed* b, int64_t b_stride,
                              int64_t steps, bool fresh) {
  constexpr int kVectors = Avx512Shape::kVectors, kLanes = 64 / sizeof(Sum);
  decltype(zero(Sum{})) s[Rows][kVectors];
  decltype(fetch_column(b)) column[kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) s[r][c] = fresh ? zero(Sum{}) : fetch(sums + r * stride + c * kLanes);
  for (int64_t k = 0; k < steps; ++k, a += Avx512Shape::kRows, b += b_stride) {
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) column[c] = fetch_column(b + c * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const auto factor = all(a[r]);
#pragma GCC unroll 16
      for (int c = 0; c < kVectors; ++c) s[r][c] = add_product(Packed{}, s[r][c], factor, column[c]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 16
    for (int c = 0; c < kVectors; ++c) put(sums + r * stride + c * kLanes, s[r][c]);
}

}  // namespace avx512

#endif

}  // namespace gpukit::cpu
