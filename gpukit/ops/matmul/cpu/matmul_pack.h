// Packing for the CPU product: a slice of a or b, converted to what the inner loop reads and laid out in its order.
#pragma once

#include <algorithm>

#include "gpukit/ops/matmul/cpu/matmul_block.h"

namespace gpukit::cpu {

/// to[k][r] = from[r][k] for 4 x 4 elements of four bytes.
template <typename V>
GPUKIT_ALWAYS_INLINE void transpose_4x4(V* to, int64_t to_stride, const V* from, int64_t from_stride) {
  static_assert(sizeof(V) == 4);
#ifdef GPUKIT_X86_LEVELS
  __m128 row[4];
  for (int r = 0; r < 4; ++r) row[r] = _mm_loadu_ps(reinterpret_cast<const float*>(from + r * from_stride));
  _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
  for (int k = 0; k < 4; ++k) _mm_storeu_ps(reinterpret_cast<float*>(to + k * to_stride), row[k]);
#else
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < 4; ++k) to[k * to_stride + r] = from[r * from_stride + k];
#endif
}

inline constexpr int kPackedSteps = 16;  // steps of a lane packed at a time: about a cache line is read

/// A strip at any strides, the slow way. An odd last element is paired with 0.
template <typename T>
GPUKIT_NEVER_INLINE void pack_strided(typename Sums<T>::Packed* to, int to_stride, const T* from, int64_t lanes,
                                      int64_t lane_stride, int64_t depth, int64_t k_stride) {
  const int64_t steps = packed_steps<T>(depth);
  for (int64_t first = 0; first < steps; first += kPackedSteps)
    for (int64_t lane = 0; lane < lanes; ++lane)
      for (int64_t step = first; step < std::min(first + kPackedSteps, steps); ++step) {
        const int64_t k = step * Sums<T>::kSteps;
        const T* low = from + lane * lane_stride + k * k_stride;
        if constexpr (Sums<T>::kPairs)
          to[step * to_stride + lane] = Sums<T>::pack(*low, k + 1 < depth ? low[k_stride] : T{});
        else
          to[step * to_stride + lane] = Sums<T>::pack(*low);
      }
}

/// A strip of lanes that lie side by side in memory: a row of them per step. `Count` is a number or a constant.
template <int Lanes, typename T, typename Count>
GPUKIT_ALWAYS_INLINE void pack_across(typename Sums<T>::Packed* to, const T* from, Count lanes, int64_t depth,
                                      int64_t k_stride) {
  for (int64_t k = 0; k < depth; k += Sums<T>::kSteps, to += Lanes) {
    const T* low = from + k * k_stride;
    if constexpr (!Sums<T>::kPairs) {
      for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = Sums<T>::pack(low[lane]);
    } else if (k + 1 < depth) {
      for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = Sums<T>::pack(low[lane], low[lane + k_stride]);
    } else {
      for (int64_t lane = 0; lane < lanes; ++lane) to[lane] = Sums<T>::pack(low[lane], T{});
    }
  }
}

/// A strip whose steps lie side by side in memory: squares are converted and then transposed. At least four lanes.
template <int Lanes, typename T>
GPUKIT_ALWAYS_INLINE void pack_along(typename Sums<T>::Packed* to, const T* from, int64_t lanes, int64_t lane_stride,
                                     int64_t depth) {
  using Packed = typename Sums<T>::Packed;
  constexpr int64_t kElements = kPackedSteps * Sums<T>::kSteps;
  for (; depth >= kElements; depth -= kElements, to += kPackedSteps * Lanes, from += kElements)
    for (int64_t next = 0; next < lanes; next += 4) {
      const int64_t lane = std::min(next, lanes - 4);  // the last four may overlap those before
      const T* row = from + lane * lane_stride;
      if constexpr (std::is_same_v<T, Packed>) {
        for (int step = 0; step < kPackedSteps; step += 4)
          transpose_4x4(to + step * Lanes + lane, Lanes, row + step, lane_stride);
      } else {
        Packed piece[4][kPackedSteps];
        for (int r = 0; r < 4; ++r, row += lane_stride)
          for (int step = 0; step < kPackedSteps; ++step)
            if constexpr (Sums<T>::kPairs)
              piece[r][step] = Sums<T>::pack(row[2 * step], row[2 * step + 1]);
            else
              piece[r][step] = Sums<T>::pack(row[step]);
        for (int step = 0; step < kPackedSteps; step += 4)
          transpose_4x4(to + step * Lanes + lane, Lanes, piece[0] + step, int64_t{kPackedSteps});
      }
    }
  if (depth > 0) pack_strided(to, Lanes, from, lanes, lane_stride, depth, 1);
}

/// `width` lanes (rows of a or columns of b) by `depth` elements of k, in strips of `Lanes`; missing lanes are zero.
template <int Lanes, typename T>
GPUKIT_ALWAYS_INLINE void pack(typename Sums<T>::Packed* to, const T* from, int64_t width, int64_t lane_stride,
                               int64_t depth, int64_t k_stride) {
  using Packed = typename Sums<T>::Packed;
  const int64_t steps = packed_steps<T>(depth);
  for (; width > 0; width -= Lanes, to += steps * Lanes, from += Lanes * lane_stride) {
    const int64_t lanes = std::min<int64_t>(Lanes, width);
    if (lanes < Lanes) std::fill(to, to + steps * Lanes, Packed{});
    if (lane_stride == 1 && lanes == Lanes) {
      pack_across<Lanes>(to, from, std::integral_constant<int64_t, Lanes>(), depth, k_stride);
    } else if (lane_stride == 1) {
      pack_across<Lanes>(to, from, lanes, depth, k_stride);
    } else if (sizeof(Packed) == 4 && k_stride == 1 && lanes >= 4) {
      if constexpr (sizeof(Packed) == 4) pack_along<Lanes>(to, from, lanes, lane_stride, depth);
    } else {
      pack_strided(to, Lanes, from, lanes, lane_stride, depth, k_stride);
    }
  }
}

}  // namespace gpukit::cpu
