// Kernels of dtype conversion.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"
#include "gpukit/ops/elementwise/convert.cuh"

namespace gpukit {

template <typename From, typename To>
struct Cast {
  using A = From;
  using Out = To;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE To apply(From x, const MapArgs&) { return convert<To>(x); }
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t, Body&& body) {
    body(Cast{});
  }
};

}  // namespace gpukit
