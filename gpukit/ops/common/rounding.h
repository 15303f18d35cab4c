// Whole numbers rounded up: to pieces, to powers of two.
#pragma once

#include <cstdint>

namespace gpukit {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// The smallest power of two that is at least n.
constexpr int64_t ceil_power(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

}  // namespace gpukit
