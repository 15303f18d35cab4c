// The tree of reduce.h over the values of a function, for other families' CPU loops.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gpukit::cpu {

/// f(0) .. f(length - 1) added up in pairs. length is at least 1.
template <typename Real, typename F>
Real row_sum(int64_t length, F&& f) {
  constexpr int64_t kLeaf = 256;
  Real pending[56];
  int64_t count = 0;
  for (int64_t begin = 0; begin < length; begin += kLeaf) {
    int64_t n = std::min(kLeaf, length - begin);
    Real space[2][kLeaf];
    Real* from = space[0];
    Real* to = space[1];
    for (int64_t i = 0; i < n; ++i) from[i] = f(begin + i);
    while (n > 1) {
      for (int64_t i = 0; i < n / 2; ++i) to[i] = from[2 * i] + from[2 * i + 1];
      if (n & 1) to[n / 2] = from[n - 1];
      n = (n + 1) / 2;
      std::swap(from, to);
    }
    Real v = from[0];
    int level = 0;
    for (int64_t c = count++; c & 1; c >>= 1) v = pending[level++] + v;
    pending[level] = v;
  }
  int level = 0;
  while (!(count >> level & 1)) ++level;
  Real v = pending[level];
  for (++level; count >> level != 0; ++level)
    if (count >> level & 1) v = pending[level] + v;
  return v;
}

}  // namespace gpukit::cpu
