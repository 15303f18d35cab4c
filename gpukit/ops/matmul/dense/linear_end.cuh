// The end of a layer: activation(alpha * sum + bias) + residual for 16-bit results. Every kernel that ends a layer
// calls these functions or has their steps, so that the bits of a row do not depend on which one served.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/matmul/dense/linear_steps.cuh"

namespace gpukit {

GPUKIT_DEVICE float activate_short(float v, ActivationCode activation) {
  switch (activation) {
    case ActivationCode::relu: return v > 0.0f || v != v ? v : 0.0f;  // NaN stays
    case ActivationCode::gelu: return gelu_short(v);
    case ActivationCode::silu: return silu_short(v);
    case ActivationCode::gelu_erf: return gelu_erf_short(v);
    default: return v;
  }
}

/// -0 in place of a bias or a residual changes nothing.
GPUKIT_DEVICE float end_layer(float sum, const LinearSteps& e, float bias, float residual) {
  return __fadd_rn(activate_short(__fadd_rn(__fmul_rn(sum, e.alpha), bias), e.activation), residual);
}

template <typename T>
GPUKIT_DEVICE float load_or_nothing(const T* from, int64_t at) {
  return from != nullptr ? load(from[at]) : -0.0f;
}

/// One thread a result, neighbours side by side. Grid: any; block: any.
template <typename T>
__global__ void linear_end(T* out, const float* sums, const T* bias, const T* residual,
                           const __grid_constant__ LinearSteps e, const __grid_constant__ LinearEnd s) {
  start_in_turn();
  const int64_t count = s.m * s.n, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t row = i / s.n, column = i - row * s.n;
    out[row * s.out_m + column] = store<T>(
        end_layer(sums[i], e, load_or_nothing(bias, column), load_or_nothing(residual, row * e.residual_m + column)));
  }
}

/// silu(gate) * up.
template <typename T>
__global__ void swiglu_end(T* out, const float* gate, const float* up, const __grid_constant__ LinearEnd s) {
  start_in_turn();
  const int64_t count = s.m * s.n, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const int64_t row = i / s.n;
    out[row * s.out_m + (i - row * s.n)] = store<T>(silu_short(gate[i]) * up[i]);
  }
}

}  // namespace gpukit
