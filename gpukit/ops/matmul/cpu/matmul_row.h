// One row of a by a matrix whose rows lie dense: nothing is packed, and memory is asked for before it is read.
#pragma once

#include "gpukit/ops/matmul/cpu/matmul_block.h"

namespace gpukit::cpu {

template <typename T>
struct RowProduct {
  using Sum = typename Sums<T>::type;
  static constexpr bool kServes = std::is_constructible_v<Sum, typename Sums<T>::Packed>;
  static constexpr int64_t kColumns = 1024;  // at most, so that sums stay in the first-level cache
  static constexpr int64_t kAheadBytes = 16384, kLineBytes = 64;

  /// sums[j] = add_product(sums[j], a[k], b[k][j]) for k = 0, 1, ...
  GPUKIT_ALWAYS_INLINE static void run(Sum* sums, const T* a, int64_t a_step, const T* b, int64_t b_stride,
                                       int64_t columns, int64_t depth) {
    const int64_t bytes = columns * static_cast<int64_t>(sizeof(T));
    const int64_t ahead = (kAheadBytes / bytes / 4 + 1) * 4;  // rows
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4, b += 4 * b_stride) {
      const T *b0 = b, *b1 = b0 + b_stride, *b2 = b1 + b_stride, *b3 = b2 + b_stride;
      if (k + ahead + 4 <= depth)
        for (int64_t row = 0; row < 4; ++row) {
          const char* next = reinterpret_cast<const char*>(b + (ahead + row) * b_stride);
          for (int64_t byte = 0; byte < bytes; byte += kLineBytes) __builtin_prefetch(next + byte);
        }
      const Sum a0 = Sums<T>::pack(a[k * a_step]), a1 = Sums<T>::pack(a[(k + 1) * a_step]),
                a2 = Sums<T>::pack(a[(k + 2) * a_step]), a3 = Sums<T>::pack(a[(k + 3) * a_step]);
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) {
        Sum sum = add_product(sums[j], a0, Sums<T>::pack(b0[j]));
        sum = add_product(sum, a1, Sums<T>::pack(b1[j]));
        sum = add_product(sum, a2, Sums<T>::pack(b2[j]));
        sums[j] = add_product(sum, a3, Sums<T>::pack(b3[j]));
      }
    }
    for (; k < depth; ++k, b += b_stride) {
      const Sum factor = Sums<T>::pack(a[k * a_step]);
#pragma GCC ivdep
      for (int64_t j = 0; j < columns; ++j) sums[j] = add_product(sums[j], factor, Sums<T>::pack(b[j]));
    }
  }
};

}  // namespace gpukit::cpu
