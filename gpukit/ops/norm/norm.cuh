// Normalisation over the last axis. Row sums follow the tree of common/reduce.cuh.
#pragma once
#include "gpukit/ops/common/rows.cuh"
#include "gpukit/ops/hopper/pdl.cuh"

namespace gpukit {

GPUKIT_DEVICE float square_root(float x) { return sqrtf(x); }
GPUKIT_DEVICE double square_root(double x) { return sqrt(x); }
GPUKIT_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GPUKIT_DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }

/// A weight per column, up to four read at a time: a row takes most of the registers.
template <typename T, int V>
struct Weights {
  static constexpr int kGroup = V < 4 ? V : 4;
  const T* at;
  int64_t step;
  GPUKIT_DEVICE Vec<T, kGroup> fetch(int64_t i) const {
    if constexpr (V == 1)
      return {{at[i * step]}};
    else
      return load_vec<T, kGroup>(at + i);
  }
};

/// Writes f(element, gamma, beta) for every element of the part. beta is 0 without one.
template <typename T, int V, bool kShift, typename F>
GPUKIT_DEVICE void store_weighted(T* out, const RowPart<T, V>& part, const RowParams& p, const Weights<T, V>& gamma,
                                  const Weights<T, V>& beta, F&& f) {
  using C = compute_t<T>;
  constexpr int kGroup = Weights<T, V>::kGroup;
  Vec<T, kGroup> g, b;
  part.store(out, p, [&](C v, int u, int k) {
    if (k % kGroup == 0) {
      g = gamma.fetch(part.at(u) + k);
      if constexpr (kShift) b = beta.fetch(part.at(u) + k);
    }
    if constexpr (kShift)
      return f(v, load(g.v[k % kGroup]), load(b.v[k % kGroup]));
    else
      return f(v, load(g.v[k % kGroup]), C(0));
  });
}

// rmsnorm_rows, l2norm_rows, layernorm_rows: rows held in registers, see RowPart.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    rmsnorm_rows(T* out, const T* x, const T* gamma, compute_t<T> eps, int64_t gamma_step,
                 const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C shared[32];
  RowPart<T, V> part(p, blockIdx.x);
  part.load(x, p);
  const C squares = part.template reduce<TreeSum<C>>(p, shared, [](C v, int, int) { return v * v; });
  const C scale = C(1) / square_root(squares / C(p.width) + eps);
  store_weighted<T, V, false>(out, part, p, {gamma, gamma_step}, {}, [=](C v, C g, C) { return v * scale * g; });
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    l2norm_rows(T* out, const T* x, compute_t<T> eps, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C shared[32];
  RowPart<T, V> part(p, blockIdx.x);
  part.load(x, p);
  const C squares = part.template reduce<TreeSum<C>>(p, shared, [](C v, int, int) { return v * v; });
  const C scale = C(1) / square_root(squares / C(p.width) + eps);
  part.store(out, p, [=](C v, int, int) { return v * scale; });
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    layernorm_rows(T* out, const T* x, const T* gamma, const T* beta, compute_t<T> eps, int64_t gamma_step,
                   int64_t beta_step, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C shared[32];
  RowPart<T, V> part(p, blockIdx.x);
  part.load(x, p);
  const C mean = part.template reduce<TreeSum<C>>(p, shared, [](C v, int, int) { return v; }) / C(p.width);
  const C squares = part.template reduce<TreeSum<C>>(p, shared, [=](C v, int, int) { return (v - mean) * (v - mean); });
  const C scale = C(1) / square_root(squares / C(p.width) + eps);
  store_weighted<T, V, true>(out, part, p, {gamma, gamma_step}, {beta, beta_step},
                             [=](C v, C g, C b) { return multiply_add((v - mean) * scale, g, b); });
}

// rmsnorm_wide, l2norm_wide, layernorm_wide: one block per row of any width, read once per pass.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    rmsnorm_wide(T* out, const T* x, const T* gamma, compute_t<T> eps, int64_t gamma_step,
                 const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  for (int64_t index = blockIdx.x; index < p.rows; index += gridDim.x) {
    const WideRow<T, V> row{x + space_offset(p.rank, p.shape, p.in, index), p.width, p.in_step};
    const C squares = row.template reduce<TreeSum<C>>(p, slots, shared, [](C v) { return v * v; });
    const C scale = C(1) / square_root(squares / C(p.width) + eps);
    row.store(out + space_offset(p.rank, p.shape, p.out, index), p.out_step,
              [=](C v, int64_t i) { return v * scale * load(gamma[i * gamma_step]); });
  }
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    l2norm_wide(T* out, const T* x, compute_t<T> eps, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  for (int64_t index = blockIdx.x; index < p.rows; index += gridDim.x) {
    const WideRow<T, V> row{x + space_offset(p.rank, p.shape, p.in, index), p.width, p.in_step};
    const C squares = row.template reduce<TreeSum<C>>(p, slots, shared, [](C v) { return v * v; });
    const C scale = C(1) / square_root(squares / C(p.width) + eps);
    row.store(out + space_offset(p.rank, p.shape, p.out, index), p.out_step, [=](C v, int64_t) { return v * scale; });
  }
}

template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    layernorm_wide(T* out, const T* x, const T* gamma, const T* beta, compute_t<T> eps, int64_t gamma_step,
                   int64_t beta_step, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  start_in_turn();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  for (int64_t index = blockIdx.x; index < p.rows; index += gridDim.x) {
    const WideRow<T, V> row{x + space_offset(p.rank, p.shape, p.in, index), p.width, p.in_step};
    const C mean = row.template reduce<TreeSum<C>>(p, slots, shared, [](C v) { return v; }) / C(p.width);
    const C squares = row.template reduce<TreeSum<C>>(p, slots, shared, [=](C v) { return (v - mean) * (v - mean); });
    const C scale = C(1) / square_root(squares / C(p.width) + eps);
    row.store(out + space_offset(p.rank, p.shape, p.out, index), p.out_step, [=](C v, int64_t i) {
      return multiply_add((v - mean) * scale, load(gamma[i * gamma_step]), load(beta[i * beta_step]));
    });
  }
}

}  // namespace gpukit
