// The scans of scan.h.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/common/reduce.cuh"
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

GPUKIT_DEVICE float exponential(float x) { return expf(x); }
GPUKIT_DEVICE double exponential(double x) { return exp(x); }
GPUKIT_DEVICE float softplus_of(float x) { return x <= 20.0f ? log1pf(expf(x)) : x; }
GPUKIT_DEVICE double softplus_of(double x) { return x <= 20.0 ? log1p(exp(x)) : x; }

// selective_scan: one warp takes one channel of one item through time; lane l has states l, l + 32, ... The sum over
// states is that of each lane in order, then a fixed order of lanes.
template <typename T>
__global__ void __launch_bounds__(32 * kScanWarps)
    selective_scan(T* out, compute_t<T>* state, const T* x, const T* delta, const compute_t<T>* a, const T* b,
                   const T* c, const T* d, const T* z, const T* delta_bias,
                   const __grid_constant__ SelectiveScanParams p) {
  using C = compute_t<T>;
  // A lane touches its own states only.
  __shared__ C rates[kScanWarps][kMostStates];
  __shared__ C values[kScanWarps][kMostStates];
  const int64_t index = int64_t{blockIdx.x} * kScanWarps + threadIdx.x / 32;
  if (index >= p.batch * p.channels) return;
  const int lane = threadIdx.x % 32;
  const int64_t channel = index % p.channels, item = index / p.channels;
  x += item * p.x.batch + channel * p.x.channel;
  delta += item * p.delta.batch + channel * p.delta.channel;
  b += item * p.b.batch;
  c += item * p.c.batch;
  out += item * p.out.batch + channel * p.out.channel;
  if (z != nullptr) z += item * p.z.batch + channel * p.z.channel;
  if (state != nullptr) state += item * p.state.batch + channel * p.state.channel;
  const C bias = delta_bias == nullptr ? C(0) : load(delta_bias[channel * p.delta_bias]);
  const C skip = d == nullptr ? C(0) : load(d[channel * p.d]);
  C* const rate = rates[threadIdx.x / 32];
  C* const h = values[threadIdx.x / 32];
#pragma unroll 1
  for (int n = lane; n < p.states; n += 32) {
    rate[n] = a[channel * p.a_channel + n * p.a_state];
    h[n] = state == nullptr ? C(0) : state[n * p.state.step];
  }
#pragma unroll 1
  for (int64_t t = 0; t < p.length; ++t) {
    const C input = load(x[t * p.x.step]);
    C step = load(delta[t * p.delta.step]) + bias;
    if (p.softplus) step = softplus_of(step);
    C sum = 0;
#pragma unroll 1
    for (int n = lane; n < p.states; n += 32) {
      const C enters = step * load(b[n * p.b.channel + t * p.b.step]) * input;
      h[n] = scan_step(exponential(step * rate[n]), h[n], enters);
      sum = scan_step(h[n], load(c[n * p.c.channel + t * p.c.step]), sum);
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
    if (lane == 0) {
      C value = scan_step(skip, input, sum);
      if (z != nullptr) value = value * Silu::of(load(z[t * p.z.step]));
      out[t * p.out.step] = store<T>(value);
    }
  }
  if (state != nullptr)
    for (int n = lane; n < p.states; n += 32) state[n * p.state.step] = h[n];
}

}  // namespace gpukit
