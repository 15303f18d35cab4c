// Normalisation of a sum of two arrays, rounded to their type before: row by row, see norm.cuh.
#pragma once
#include "gpukit/ops/norm/norm.cuh"

namespace gpukit {

struct ResidualParams {
  int64_t residual_row, sum_row;  // element strides; columns lie side by side
};

/// Puts 16-bit values side by side in registers, as loads leave them: those just computed have one each.
template <typename T, int V>
GPUKIT_DEVICE void pack(Vec<T, V>& piece) {
  if constexpr (sizeof(T) == 2 && V > 1) {
    uint32_t words[V / 2];
    memcpy(words, &piece, sizeof(piece));
#pragma unroll
    for (uint32_t& word : words) asm("" : "+r"(word));
    memcpy(&piece, words, sizeof(piece));
  }
}

/// What follows from the value is computed again: kept, it would take as many registers as the row.
GPUKIT_DEVICE void forget(float& value) { asm("" : "+f"(value)); }
GPUKIT_DEVICE void forget(double& value) { asm("" : "+d"(value)); }
GPUKIT_DEVICE void forget(int& value) { asm("" : "+r"(value)); }

// norm_residual_rows: rows held in registers. `sum` may be null. kShift: layernorm.
template <typename T, bool kVector, bool kShift>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    norm_residual_rows(T* out, T* sum, const T* x, const T* residual, const T* __restrict__ gamma,
                       const T* __restrict__ beta, compute_t<T> eps, ResidualParams q,
                       const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  __shared__ C shared[32];
  RowPart<T, V> part(p, blockIdx.x);
  part.load(x, p);
  const T* row_residual = residual + part.row * q.residual_row;
  const int width = static_cast<int>(p.width);
#pragma unroll
  for (int u = 0; u < RowPart<T, V>::kUnits; ++u) {
    const int i = part.at(u) < width ? part.at(u) : 0;
    const Vec<T, V> r = load_vec<T, V>(row_residual + i);
#pragma unroll
    for (int k = 0; k < V; ++k) part.raw[u].v[k] = store<T>(load(part.raw[u].v[k]) + load(r.v[k]));
    pack(part.raw[u]);
  }
  if (sum != nullptr && part.active) {
    T* row_sum = sum + part.row * q.sum_row;
#pragma unroll
    for (int u = 0; u < RowPart<T, V>::kUnits; ++u)
      if (part.at(u) < width) store_vec<T, V>(row_sum + part.at(u), part.raw[u]);
  }
  C mean = 0;
  if constexpr (kShift) {
    mean = part.template reduce<TreeSum<C>>(p, shared, [](C v, int, int) { return v; }) / C(p.width);
    forget(mean);
    forget(part.first);
  }
  const C squares = part.template reduce<TreeSum<C>>(p, shared, [=](C v, int, int) { return (v - mean) * (v - mean); });
  const C scale = C(1) / square_root(squares / C(p.width) + eps);
  forget(mean);
  forget(part.first);
  store_weighted<T, V, kShift>(out, part, p, {gamma, 1}, {beta, 1}, [=](C v, C g, C b) {
    if constexpr (kShift)
      return multiply_add((v - mean) * scale, g, b);
    else
      return v * scale * g;
  });
}

/// The sum of two rows, read anew in every pass.
template <typename T, int V>
struct WideSum {
  static constexpr int kUnits = wide_units(sizeof(T)) / 2;
  using Raw = Vec<T, V>;
  const T *x, *residual;

  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
#pragma unroll
    for (int u = 0; u < N; ++u) {
      const int64_t at = at_most(i + u * step, last);
      raw[u] = load_vec<T, V>(x + at);
      const Raw r = load_vec<T, V>(residual + at);
#pragma unroll
      for (int k = 0; k < V; ++k) raw[u].v[k] = store<T>(load(raw[u].v[k]) + load(r.v[k]));
    }
  }
};

template <typename T, int V, typename F>
struct WideSumOf {
  using Raw = Vec<T, V>;
  const WideSum<T, V>& row;
  F f;
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
    row.fetch(raw, i, step, last);
  }
  GPUKIT_DEVICE compute_t<T> unit(const Raw& raw, int64_t) const {
    compute_t<T> v[V];
#pragma unroll
    for (int k = 0; k < V; ++k) v[k] = f(load(raw.v[k]));
    return fold<TreeSum<compute_t<T>>, V>(v);
  }
};

// norm_residual_wide: one block per row of any width.
template <typename T, bool kVector, bool kShift>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    norm_residual_wide(T* out, T* sum, const T* x, const T* residual, const T* __restrict__ gamma,
                       const T* __restrict__ beta, compute_t<T> eps, ResidualParams q,
                       const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  const int warp = threadIdx.x >> 5;
  for (int64_t index = blockIdx.x; index < p.rows; index += gridDim.x) {
    const WideSum<T, V> row{x + space_offset(p.rank, p.shape, p.in, index), residual + index * q.residual_row};
    auto reduce = [&](auto f) {
      const WideSumOf<T, V, decltype(f)> load{row, f};
      const C v = walk_chunks<TreeSum<C>, V, wide_units(sizeof(T))>(load, warp * p.chunks_per_warp, p.chunks_per_warp,
                                                                    p.width, slots + warp * kWalkLevels);
      return warps_tree<TreeSum<C>>(v, kRowMaxThreads / 32, shared);
    };
    C mean = 0;
    if constexpr (kShift) mean = reduce([](C v) { return v; }) / C(p.width);
    const C squares = reduce([=](C v) { return (v - mean) * (v - mean); });
    const C scale = C(1) / square_root(squares / C(p.width) + eps);
    T* row_out = out + space_offset(p.rank, p.shape, p.out, index);
    for (int64_t i = threadIdx.x * V; i < p.width; i += kRowMaxThreads * V) {
      Vec<T, V> s[1], y;
      row.fetch(s, i, 0, i);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const C v = load(s[0].v[k]), g = load(gamma[i + k]);
        if constexpr (kShift)
          y.v[k] = store<T>(multiply_add((v - mean) * scale, g, load(beta[i + k])));
        else
          y.v[k] = store<T>(v * scale * g);
      }
      if (sum != nullptr) store_vec<T, V>(sum + index * q.sum_row + i, s[0]);
      store_vec<T, V>(row_out + i, y);
    }
  }
}

}  // namespace gpukit
