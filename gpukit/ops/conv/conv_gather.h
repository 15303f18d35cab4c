// How convolution on the CPU brings together what a strip of outputs reads, for three levels of the processor.
#pragma once

#include <algorithm>

#include "gpukit/ops/matmul/cpu/matmul_loops.h"

namespace gpukit::cpu {

/// From where to where in the input neighbouring weights of one output read: taps of a row, rows, channels.
struct GatherSteps {
  int64_t taps, rows;
  int64_t tap, row, channel;
};

/// to[k][lane] = x[place of weight k + lane] for `depth` weights from `first` on, all of which lie inside the input.
template <int Lanes, typename T>
GPUKIT_ALWAYS_INLINE void gather_strip(typename Sums<T>::type* to, const T* x, const GatherSteps& s, int64_t first,
                                       int64_t depth) {
  int64_t tap = first % s.taps, row = first / s.taps % s.rows;
  const T* channel = x + first / s.taps / s.rows * s.channel;
  while (depth > 0) {
    const int64_t count = std::min(s.taps - tap, depth);
    const T* from = channel + row * s.row + tap * s.tap;
    for (int64_t i = 0; i < count; ++i, to += Lanes, from += s.tap)
      for (int lane = 0; lane < Lanes; ++lane) to[lane] = cpu::load(from[lane]);
    depth -= count;
    tap = 0;
    if (++row == s.rows) {
      row = 0;
      channel += s.channel;
    }
  }
}

template <typename T>
using Gather = void (*)(typename Sums<T>::type* to, const T* x, const GatherSteps& steps, int64_t first, int64_t depth);

#ifdef GPUKIT_X86_LEVELS
template <int Lanes, typename T>
GPUKIT_AVX2 void gather_avx2(typename Sums<T>::type* to, const T* x, const GatherSteps& s, int64_t first,
                             int64_t depth) {
  gather_strip<Lanes>(to, x, s, first, depth);
}
template <int Lanes, typename T>
GPUKIT_AVX512 void gather_avx512(typename Sums<T>::type* to, const T* x, const GatherSteps& s, int64_t first,
                                 int64_t depth) {
  gather_strip<Lanes>(to, x, s, first, depth);
}
#endif

/// For strips as wide as the block of choose_block<T>(level).
template <typename T>
Gather<T> choose_gather([[maybe_unused]] MatmulLevel level) {
  constexpr int kBytes = sizeof(typename Sums<T>::type);
#ifdef GPUKIT_X86_LEVELS
  if (level == MatmulLevel::avx512) return gather_avx512<Avx512Shape::kColumns<kBytes>, T>;
  if (level == MatmulLevel::avx2) return gather_avx2<Avx2Shape::kColumns<kBytes>, T>;
#endif
  return gather_strip<PlainShape::kColumns<kBytes>, T>;
}

}  // namespace gpukit::cpu
