// group_norm: one block per norm, any number of channels of any length. Elements are read three times: the mean, the
// squared deviations, the result.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/norm/group_norm_params.cuh"
#include "gpukit/ops/norm/norm.cuh"

namespace gpukit {

/// The sum of f(element) over the group: of each thread's elements in order, then the tree of threads. All threads get
/// it.
template <typename T, typename F>
GPUKIT_DEVICE compute_t<T> group_sum(const GroupNormParams& p, const T* x, compute_t<T>* shared, F f) {
  using C = compute_t<T>;
  C sum = 0;
#pragma unroll 1
  for (int64_t c = 0; c < p.channels; ++c)
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < p.length; i += blockDim.x) sum = sum + f(load(x[c * p.x.channel + i * p.x.step]));
  return warps_tree<TreeSum<C>>(lanes_tree<TreeSum<C>>(sum, 32), blockDim.x / 32, shared);
}

/// Threads are a power of two of warps. All weights, gate and residual may be null.
template <typename T>
__global__ void __launch_bounds__(512)
    group_norm(T* out, const T* x, const T* gamma, const T* beta, const T* gate, const T* residual, compute_t<T> eps,
               const __grid_constant__ GroupNormParams p) {
  using C = compute_t<T>;
  __shared__ C shared[32];
  const int64_t norm = blockIdx.x;
  x += group_offset(p.x, p, norm);
  out += group_offset(p.out, p, norm);
  if (gamma != nullptr) gamma += group_offset(p.gamma, p, norm);
  if (beta != nullptr) beta += group_offset(p.beta, p, norm);
  if (gate != nullptr) {
    gate += group_offset(p.gate, p, norm);
    residual += group_offset(p.residual, p, norm);
  }
  const C count = static_cast<C>(p.channels * p.length);
  const C mean = group_sum(p, x, shared, [](C v) { return v; }) / count;
  const C squares = group_sum(p, x, shared, [=](C v) { return (v - mean) * (v - mean); });
  const C scale = C(1) / square_root(squares / count + eps);
  const C base = p.plus_one ? C(1) : C(0);
#pragma unroll 1
  for (int64_t c = 0; c < p.channels; ++c)
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < p.length; i += blockDim.x) {
      const C weight = gamma == nullptr ? C(1) : base + load(gamma[c * p.gamma.channel + i * p.gamma.step]);
      const C offset = beta == nullptr ? C(0) : load(beta[c * p.beta.channel + i * p.beta.step]);
      C v = multiply_add((load(x[c * p.x.channel + i * p.x.step]) - mean) * scale, weight, offset);
      if (p.silu) v = Silu::of(v);
      if (gate != nullptr)
        v = multiply_add(load(gate[c * p.gate.channel + i * p.gate.step]), v,
                         load(residual[c * p.residual.channel + i * p.residual.step]));
      out[c * p.out.channel + i * p.out.step] = store<T>(v);
    }
}

}  // namespace gpukit
