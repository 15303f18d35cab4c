// group_norm: one block per norm, any number of channels of any length. Elements are read three times: the mean, the
// squared deviations, the result. A thread asks for several of its elements before it uses the first.
#pragma once
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/norm/group_norm_params.cuh"
#include "gpukit/ops/norm/norm.cuh"

namespace gpukit {

/// The elements of one channel that a thread takes at a time: first, first + blockDim.x, ...
template <typename T>
struct GroupNormBatch {
  static constexpr int kCount = 8;
  compute_t<T> values[kCount];

  GPUKIT_DEVICE GroupNormBatch(const T* row, int64_t step, int64_t first, int64_t length) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64_t i = first + k * blockDim.x;
      if (i < length) values[k] = load(row[i * step]);
    }
  }
  /// body(i, value) of each, in order.
  template <typename Body>
  GPUKIT_DEVICE void each(int64_t first, int64_t length, const Body& body) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int64_t i = first + k * blockDim.x;
      if (i < length) body(i, values[k]);
    }
  }
};

/// body(i, value) of the thread's elements of a channel.
template <typename T, typename Body>
GPUKIT_DEVICE void each_of_channel(const T* row, int64_t step, int64_t length, const Body& body) {
#pragma unroll 1
  for (int64_t first = threadIdx.x; first < length; first += GroupNormBatch<T>::kCount * blockDim.x)
    GroupNormBatch<T>(row, step, first, length).each(first, length, body);
}

/// The sum of f(element) over the group: of each thread's elements in order, then the tree of threads. All threads get
/// it.
template <typename T, typename F>
GPUKIT_DEVICE compute_t<T> group_sum(const GroupNormParams& p, const T* x, compute_t<T>* shared, F f) {
  using C = compute_t<T>;
  C sum = 0;
#pragma unroll 1
  for (int64_t c = 0; c < p.channels; ++c)
    each_of_channel(x + c * p.x.channel, p.x.step, p.length, [&](int64_t, C v) { sum = sum + f(v); });
  return warps_tree<TreeSum<C>>(lanes_tree<TreeSum<C>>(sum, 32), blockDim.x / 32, shared);
}

template <typename C>
GPUKIT_DEVICE C group_norm_activation(C v, C alpha, const GroupNormParams& p) {
  switch (p.activation) {
    case GroupNormActivation::silu: return Silu::of(v);
    case GroupNormActivation::leaky_relu: return v > C(0) ? v : v * static_cast<C>(p.slope);
    case GroupNormActivation::snake: return snake_of(v, alpha);
    default: return v;
  }
}

/// Threads are a power of two of warps. All weights, gate, residual and alpha may be null.
template <typename T>
__global__ void __launch_bounds__(512)
    group_norm(T* out, const T* x, const T* gamma, const T* beta, const T* gate, const T* residual, const T* alpha,
               compute_t<T> eps, const __grid_constant__ GroupNormParams p) {
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
  if (alpha != nullptr) alpha += group_offset(p.alpha, p, norm);
  const C count = static_cast<C>(p.channels * p.length);
  const C mean = group_sum(p, x, shared, [](C v) { return v; }) / count;
  const C squares = group_sum(p, x, shared, [=](C v) { return (v - mean) * (v - mean); });
  const C scale = C(1) / square_root(squares / count + eps);
  const C base = p.plus_one ? C(1) : C(0);
  const auto weight_at = [=, &p](int64_t c, int64_t i) {
    return gamma == nullptr ? C(1) : base + load(gamma[c * p.gamma.channel + i * p.gamma.step]);
  };
  const auto offset_at = [=, &p](int64_t c, int64_t i) {
    return beta == nullptr ? C(0) : load(beta[c * p.beta.channel + i * p.beta.step]);
  };
  const auto alpha_at = [=, &p](int64_t c, int64_t i) {
    return alpha == nullptr ? C(1) : load(alpha[c * p.alpha.channel + i * p.alpha.step]);
  };
  const bool same = p.gamma.step == 0 && p.beta.step == 0 && p.alpha.step == 0;  // along a channel
#pragma unroll 1
  for (int64_t c = 0; c < p.channels; ++c) {
    const C weight = weight_at(c, 0), offset = offset_at(c, 0), factor = alpha_at(c, 0);
    each_of_channel(x + c * p.x.channel, p.x.step, p.length, [&](int64_t i, C value) {
      C v = multiply_add((value - mean) * scale, same ? weight : weight_at(c, i), same ? offset : offset_at(c, i));
      v = group_norm_activation(v, same ? factor : alpha_at(c, i), p);
      if (gate != nullptr)
        v = multiply_add(load(gate[c * p.gate.channel + i * p.gate.step]), v,
                         load(residual[c * p.residual.channel + i * p.residual.step]));
      out[c * p.out.channel + i * p.out.step] = store<T>(v);
    });
  }
}

}  // namespace gpukit
