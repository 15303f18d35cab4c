// lstm: all steps of one item of the batch in one direction by one block. The grid is (batch, directions).
//
// A warp takes units warp, warp + warps, ... : its lanes share the four sums over the last h, a fixed order of lanes.
// Dynamic shared memory: h twice (of the last step and of this one) and c, of the compute type.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/recurrent/lstm_params.cuh"

namespace gpukit {

template <typename C>
GPUKIT_DEVICE C lane_sum(C v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v = v + shuffle_xor(v, mask);
  return v;
}
GPUKIT_DEVICE float gate(float x) { return 1.0f / (1.0f + expf(-x)); }
GPUKIT_DEVICE double gate(double x) { return 1.0 / (1.0 + exp(-x)); }
GPUKIT_DEVICE float squash(float x) { return tanhf(x); }
GPUKIT_DEVICE double squash(double x) { return tanh(x); }
GPUKIT_DEVICE float step_sum(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double step_sum(double sum, double a, double b) { return __fma_rn(a, b, sum); }

/// `gates` holds the inputs' part; biases and first states may be null.
template <typename T>
__global__ void __launch_bounds__(1024, 1)
    lstm(T* out, T* h_n, T* c_n, const compute_t<T>* gates, const T* w_forward, const T* w_backward,
         const T* b_ih_forward, const T* b_ih_backward, const T* b_hh_forward, const T* b_hh_backward, const T* h0,
         const T* c0, const __grid_constant__ LstmParams p) {
  using C = compute_t<T>;
  extern __shared__ __align__(16) unsigned char lstm_states[];
  const int64_t item = blockIdx.x, d = blockIdx.y, hidden = p.hidden;
  C* last = reinterpret_cast<C*>(lstm_states);
  C* next = last + hidden;
  C* const c = next + hidden;
  const LstmWeightStrides s = p.weights[d];
  const T* const w = d == 0 ? w_forward : w_backward;
  const T* const b_ih = d == 0 ? b_ih_forward : b_ih_backward;
  const T* const b_hh = d == 0 ? b_hh_forward : b_hh_backward;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;

  for (int64_t u = threadIdx.x; u < hidden; u += blockDim.x) {
    last[u] = h0 == nullptr ? C(0) : load(h0[d * p.h0.direction + item * p.h0.batch + u * p.h0.unit]);
    c[u] = c0 == nullptr ? C(0) : load(c0[d * p.c0.direction + item * p.c0.batch + u * p.c0.unit]);
  }
  __syncthreads();

  gates += (d * p.batch + item) * p.steps * 4 * hidden;
  out += item * p.out_batch + d * hidden * p.out_unit;
#pragma unroll 1
  for (int64_t step = 0; step < p.steps; ++step) {
    const int64_t t = p.reversed[d] ? p.steps - 1 - step : step;
#pragma unroll 1
    for (int64_t u = warp; u < hidden; u += warps) {
      C sums[4] = {};
#pragma unroll 1
      for (int64_t k = lane; k < hidden; k += 32)
#pragma unroll
        for (int g = 0; g < 4; ++g)
          sums[g] = step_sum(sums[g], last[k], load(w[(g * hidden + u) * s.row + k * s.unit]));
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const int64_t row = g * hidden + u;
        const C bias =
            (b_ih == nullptr ? C(0) : load(b_ih[row * s.b_ih])) + (b_hh == nullptr ? C(0) : load(b_hh[row * s.b_hh]));
        sums[g] = lane_sum(sums[g]) + (gates[t * 4 * hidden + row] + bias);
      }
      if (lane == 0) {
        const C cell = step_sum(gate(sums[1]) * c[u], gate(sums[0]), squash(sums[2]));
        c[u] = load(store<T>(cell));
        const T value = store<T>(gate(sums[3]) * squash(c[u]));
        next[u] = load(value);
        out[t * p.out_step + u * p.out_unit] = value;
      }
    }
    __syncthreads();
    C* const swap = last;
    last = next;
    next = swap;
  }
  for (int64_t u = threadIdx.x; u < hidden; u += blockDim.x) {
    h_n[d * p.h_n.direction + item * p.h_n.batch + u * p.h_n.unit] = store<T>(last[u]);
    c_n[d * p.c_n.direction + item * p.c_n.batch + u * p.c_n.unit] = store<T>(c[u]);
  }
}

}  // namespace gpukit
