// Elementwise kernels of activation.h, in the forms of map.cuh and map_strided.cuh.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"
#include "gpukit/ops/common/math.cuh"

namespace gpukit {

template <typename T>
GPUKIT_DEVICE T from_bytes(const MapArgs& args, int slot) {
  return *reinterpret_cast<const T*>(args.scalars[slot].bytes);
}

GPUKIT_DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GPUKIT_DEVICE double fused(double a, double b, double c) { return __fma_rn(a, b, c); }

template <typename T>
GPUKIT_DEVICE float silu_in(float x) {
  if constexpr (Short<T>::value) return x * reciprocal_approx(1.0f + exp_short(-x));
  return x / (1.0f + expf(-x));
}
template <typename T>
GPUKIT_DEVICE double silu_in(double x) {
  return x / (1.0 + exp(-x));
}
template <typename T>
GPUKIT_DEVICE float gelu_in(float x) {
  if constexpr (Short<T>::value) return gelu_short(x);
  return x / (1.0f + expf(-x * gelu_slope(x)));
}
template <typename T>
GPUKIT_DEVICE double gelu_in(double x) {
  return x / (1.0 + exp(-x * gelu_slope(x)));
}

#define GPUKIT_ITSELF(Name)                                  \
  template <typename Body>                                   \
  static GPUKIT_DEVICE void dispatch(int32_t, Body&& body) { \
    body(Name{});                                            \
  }

template <typename T>
struct GeluErf {
  using A = T;
  using Out = T;
  static constexpr int kCost = Short<T>::value ? 3 : 2;
  static GPUKIT_DEVICE T apply(T a, const MapArgs&) { return store<T>(gelu_erf_of(load(a))); }
  GPUKIT_ITSELF(GeluErf)
};

/// The slope, of the compute type, is scalar 1.
template <typename T>
struct LeakyRelu {
  using A = T;
  using Out = T;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(T a, const MapArgs& args) {
    const compute_t<T> x = load(a);
    return x > 0 ? a : store<T>(x * from_bytes<compute_t<T>>(args, 1));
  }
  GPUKIT_ITSELF(LeakyRelu)
};

template <typename T>
struct Swiglu {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 1;
  static GPUKIT_DEVICE T apply(T gate, T up, const MapArgs&) { return store<T>(silu_in<T>(load(gate)) * load(up)); }
  GPUKIT_ITSELF(Swiglu)
};

template <typename T>
struct Geglu {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 1;
  static GPUKIT_DEVICE T apply(T gate, T up, const MapArgs&) { return store<T>(gelu_in<T>(load(gate)) * load(up)); }
  GPUKIT_ITSELF(Geglu)
};

template <typename T>
struct Snake {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 2;
  static GPUKIT_DEVICE T apply(T x, T alpha, const MapArgs&) { return store<T>(snake_of(load(x), load(alpha))); }
  GPUKIT_ITSELF(Snake)
};

template <typename T>
struct Modulate {
  using A = T;
  using B = T;
  using C = T;
  using Out = T;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(T x, T scale, T shift, const MapArgs&) {
    return store<T>(fused(load(x), compute_t<T>(1) + load(scale), load(shift)));
  }
  GPUKIT_ITSELF(Modulate)
};

template <typename T>
struct GatedResidual {
  using A = T;
  using B = T;
  using C = T;
  using Out = T;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(T residual, T gate, T value, const MapArgs&) {
    return store<T>(fused(load(gate), load(value), load(residual)));
  }
  GPUKIT_ITSELF(GatedResidual)
};
#undef GPUKIT_ITSELF

}  // namespace gpukit
