// lstm: all steps of one item of the batch in one direction by one block. The grid is (batch, directions).
//
// Half a warp takes units half, half + halves, ... : its lanes are the slices of the four sums over the last h.
// Dynamic shared memory: h twice (of the last step and of this one), filled up to whole groups, and c.
#pragma once
#include "gpukit/ops/common/reduce.cuh"
#include "gpukit/ops/recurrent/lstm_step.cuh"

namespace gpukit {

/// `gates` holds the inputs' part; biases and first states may be null.
template <typename T>
__global__ void __launch_bounds__(512, 1)
    lstm(T* out, T* h_n, T* c_n, const compute_t<T>* gates, const T* w_forward, const T* w_backward,
         const T* b_ih_forward, const T* b_ih_backward, const T* b_hh_forward, const T* b_hh_backward, const T* h0,
         const T* c0, const __grid_constant__ LstmParams p) {
  using C = compute_t<T>;
  extern __shared__ __align__(32) unsigned char lstm_states[];
  const int64_t item = blockIdx.x, d = blockIdx.y, hidden = p.hidden;
  const int64_t padded = (hidden + kLstmGroup - 1) / kLstmGroup * kLstmGroup;
  C* last = reinterpret_cast<C*>(lstm_states);
  C* next = last + padded;
  C* const c = next + padded;
  const LstmWeightStrides s = p.weights[d];
  const LstmWeightsView<T> weights(d == 0 ? w_forward : w_backward, s, hidden);
  const T* const b_ih = d == 0 ? b_ih_forward : b_ih_backward;
  const T* const b_hh = d == 0 ? b_hh_forward : b_hh_backward;
  const int lane = threadIdx.x % 32, slice = lane % kLstmSlices;

  for (int64_t u = threadIdx.x; u < padded; u += blockDim.x) {
    last[u] = h0 == nullptr || u >= hidden ? C(0) : load(h0[d * p.h0.direction + item * p.h0.batch + u * p.h0.unit]);
    next[u] = C(0);
    if (u < hidden) c[u] = c0 == nullptr ? C(0) : load(c0[d * p.c0.direction + item * p.c0.batch + u * p.c0.unit]);
  }
  __syncthreads();

  gates += (d * p.batch + item) * p.steps * 4 * hidden;
  out += item * p.out_batch + d * hidden * p.out_unit;
#pragma unroll 1
  for (int64_t step = 0; step < p.steps; ++step) {
    const int64_t t = p.reversed[d] ? p.steps - 1 - step : step;
#pragma unroll 1
    for (int64_t first = threadIdx.x / 32 * 2; first < hidden; first += blockDim.x / kLstmSlices) {
      const int64_t u = first + lane / kLstmSlices;
      C sums[4] = {};
#pragma unroll
      for (int g = 0; g < 4; ++g) {
#pragma unroll 2
        for (int64_t k = 4 * slice; k < padded; k += kLstmGroup) {
          const Vec<C, 4> h = load_vec<C, 4>(last + k);
          const Vec<T, 4> w = weights.quad(g, u, k);
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[g] = step_sum(sums[g], load(w.v[e]), h.v[e]);
        }
#pragma unroll
        for (int mask = 1; mask < kLstmSlices; mask *= 2) sums[g] = sums[g] + shuffle_xor(sums[g], mask);
      }
      if (slice == 0 && u < hidden) {
#pragma unroll
        for (int g = 0; g < 4; ++g) {
          const int64_t row = g * hidden + u;
          sums[g] = lstm_gate(sums[g] + (gates[t * 4 * hidden + row] + lstm_bias(b_ih, b_hh, s, row)), g == 2);
        }
        c[u] = next_cell<T>(c[u], sums[0], sums[1], sums[2]);
        const T value = next_state<T>(c[u], sums[3]);
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
