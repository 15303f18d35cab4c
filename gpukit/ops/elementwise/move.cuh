// Kernels that move elements of a width without looking at them: copy, fill, select. T stands for any type of its size.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"

namespace gpukit {

template <typename T>
struct Move {
  using A = T;
  using Out = T;
  static constexpr bool kPlain = true;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(T x, const MapArgs&) { return x; }
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t, Body&& body) {
    body(Move{});
  }
};

/// b where the byte a is not 0, else c.
template <typename T>
struct Select {
  using A = uint8_t;
  using B = T;
  using C = T;
  using Out = T;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(uint8_t a, T b, T c, const MapArgs&) { return a != 0 ? b : c; }
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t, Body&& body) {
    body(Select{});
  }
};

}  // namespace gpukit
