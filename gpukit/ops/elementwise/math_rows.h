// Rows of functions that are computed a chunk at a time in wide registers, with a slower way for rare arguments.
#pragma once

#include <cmath>

#include "gpukit/ops/common/map_cpu.h"
#include "gpukit/ops/common/vector_math.h"

namespace gpukit::cpu {

inline constexpr int kMathChunk = 256;

/// The terms of vector_math.h that elements of T need.
template <typename T>
using MathTerms = std::conditional_t<std::is_same_v<T, double>, vector::Full, vector::Short>;

template <typename B, typename T>
GPUKIT_ALWAYS_INLINE void load_math(B* to, const T* from, int64_t step, int64_t count) {
  if (step == 1)
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<B>(load(from[i]));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<B>(load(from[i * step]));
}
template <typename T, typename B>
GPUKIT_ALWAYS_INLINE void store_math(T* to, int64_t step, const B* from, int64_t count) {
  if (step == 1)
    for (int64_t i = 0; i < count; ++i) to[i] = store<T>(static_cast<compute_t<T>>(from[i]));
  else
    for (int64_t i = 0; i < count; ++i) to[i * step] = store<T>(static_cast<compute_t<T>>(from[i]));
}

/// F::of<Terms>(x) in double. Where F has kMost, arguments beyond it go to F::far(x).
template <typename F, typename T>
struct Math1 {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) {
    alignas(64) double x[kMathChunk], y[kMathChunk];
    for (int64_t i = 0; i < row->size; i += kMathChunk) {
      const int64_t n = row->size - i < kMathChunk ? row->size - i : kMathChunk;
      load_math(x, row->at<const T>(1) + i * row->step[1], row->step[1], n);
      for (int64_t j = 0; j < n; ++j) y[j] = F::template of<MathTerms<T>>(x[j]);
      if constexpr (requires { F::kMost; }) {
        uint64_t any = 0;
        for (int64_t j = 0; j < n; ++j) any |= std::fabs(x[j]) <= F::kMost ? 0u : 1u;
        if (any != 0)
          for (int64_t j = 0; j < n; ++j)
            if (!(std::fabs(x[j]) <= F::kMost)) y[j] = F::far(x[j]);
      }
      store_math(row->at<T>(0) + i * row->step[0], row->step[0], y, n);
    }
  }
};
template <typename F, typename T>
void math1_row(const Row& row) {
  run_wide<Math1<F, T>>(&row);
}

/// F::of(x, y) where F::usual(x, y), else F::rare(x, y); F::Number is the type they take.
template <typename F, typename T>
struct Math2 {
  GPUKIT_ALWAYS_INLINE static void run(const Row* row) {
    using B = typename F::Number;
    alignas(64) B x[kMathChunk], y[kMathChunk], z[kMathChunk];
    if (row->step[2] == 0)
      for (B& v : y) v = static_cast<B>(load(*row->at<const T>(2)));
    for (int64_t i = 0; i < row->size; i += kMathChunk) {
      const int64_t n = row->size - i < kMathChunk ? row->size - i : kMathChunk;
      load_math(x, row->at<const T>(1) + i * row->step[1], row->step[1], n);
      if (row->step[2] != 0) load_math(y, row->at<const T>(2) + i * row->step[2], row->step[2], n);
      for (int64_t j = 0; j < n; ++j) z[j] = F::of(x[j], y[j]);
      uint64_t any = 0;
      for (int64_t j = 0; j < n; ++j) any |= F::usual(x[j], y[j]) ? 0u : 1u;
      if (any != 0)
        for (int64_t j = 0; j < n; ++j)
          if (!F::usual(x[j], y[j])) z[j] = F::rare(x[j], y[j]);
      store_math(row->at<T>(0) + i * row->step[0], row->step[0], z, n);
    }
  }
};
template <typename F, typename T>
void math2_row(const Row& row) {
  run_wide<Math2<F, T>>(&row);
}

}  // namespace gpukit::cpu
