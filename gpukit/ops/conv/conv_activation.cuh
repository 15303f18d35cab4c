// What the convolutions apply to a sum before they round it.
#pragma once
#include "gpukit/ops/common/math.cuh"

namespace gpukit {

/// The codes are those of ConvActivation.
template <typename C>
GPUKIT_DEVICE C conv_activation(C v, int32_t activation, C slope) {
  switch (activation) {
    case 1: return v < C(0) ? C(0) : v;
    case 2: return Gelu::of(v);
    case 3: return gelu_erf_of(v);
    case 4: return Silu::of(v);
    case 5: return v > C(0) ? v : v * slope;
    default: return v;
  }
}

}  // namespace gpukit
