// causal_conv1d of scan.h.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/recurrent/scan_params.cuh"

namespace gpukit {

GPUKIT_DEVICE float scan_step(float a, float b, float sum) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double scan_step(double a, double b, double sum) { return __fma_rn(a, b, sum); }

// causal_conv1d: one thread makes one output; what lies before the start comes from the state.
template <typename T>
__global__ void causal_conv1d(T* out, const T* x, const T* weight, const T* bias, const T* state,
                              const __grid_constant__ CausalConvParams p) {
  using C = compute_t<T>;
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= p.batch * p.channels * p.length) return;
  const int64_t t = index % p.length, channel = index / p.length % p.channels, item = index / p.length / p.channels;
  x += item * p.x.batch + channel * p.x.channel;
  C sum = 0;
#pragma unroll 1
  for (int j = 0; j < p.taps; ++j) {
    const int64_t from = t + j - (p.taps - 1);
    C value = 0;
    if (from >= 0)
      value = load(x[from * p.x.step]);
    else if (state != nullptr)
      value = load(state[item * p.state.batch + channel * p.state.channel + (from + p.taps - 1) * p.state.step]);
    sum = scan_step(load(weight[channel * p.w_channel + j * p.w_tap]), value, sum);
  }
  if (bias != nullptr) sum = sum + load(bias[channel * p.bias]);
  out[item * p.out.batch + channel * p.out.channel + t * p.out.step] = store<T>(p.silu ? Silu::of(sum) : sum);
}

// causal_conv1d_state: one thread keeps the last inputs of one channel of one item, after causal_conv1d.
template <typename T>
__global__ void causal_conv1d_state(T* state, const T* x, const __grid_constant__ CausalConvParams p) {
  const int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index >= p.batch * p.channels) return;
  const int64_t channel = index % p.channels, item = index / p.channels;
  state += item * p.state.batch + channel * p.state.channel;
  x += item * p.x.batch + channel * p.x.channel;
  // Ascending: an element comes from one that is not written yet.
#pragma unroll 1
  for (int j = 0; j < p.taps - 1; ++j) {
    const int64_t from = p.length + j - (p.taps - 1);
    state[j * p.state.step] = from >= 0 ? x[from * p.x.step] : state[(from + p.taps - 1) * p.state.step];
  }
}

}  // namespace gpukit
