// softmax along any axis. Row sums follow the tree of common/reduce.cuh.
#pragma once
#include "gpukit/ops/common/rows.cuh"

namespace gpukit {

GPUKIT_DEVICE float exponential(float x) { return expf(x); }
GPUKIT_DEVICE double exponential(double x) { return exp(x); }

// softmax_rows: rows of up to 32 warps * row_elements() * 32 elements, held in registers.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    softmax_rows(T* out, const T* x, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  __shared__ C shared[32];
  RowPart<T, V> part(p, blockIdx.x);
  part.load(x, p);
  const C top = part.template reduce<TreeMax<C>>(p, shared, [](C v, int, int) { return v; });
  C e[RowPart<T, V>::kUnits][V];
  const C total =
      part.template reduce<TreeSum<C>>(p, shared, [&](C v, int u, int k) { return e[u][k] = exponential(v - top); });
  const C scale = C(1) / total;
  part.store(out, p, [&](C, int u, int k) { return e[u][k] * scale; });
}

// softmax_wide: one block per row of any width; reads the row three times.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    softmax_wide(T* out, const T* x, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  for (int64_t index = blockIdx.x; index < p.rows; index += gridDim.x) {
    const WideRow<T, V> row{x + space_offset(p.rank, p.shape, p.in, index), p.width, p.in_step};
    const C top = row.template reduce<TreeMax<C>>(p, slots, shared, [](C v) { return v; });
    const C total = row.template reduce<TreeSum<C>>(p, slots, shared, [=](C v) { return exponential(v - top); });
    const C scale = C(1) / total;
    row.store(out + space_offset(p.rank, p.shape, p.out, index), p.out_step,
              [=](C v, int64_t) { return exponential(v - top) * scale; });
  }
}

/// The tree over the values of a row's segments, at most one a thread. Every thread gets it.
template <typename Op>
GPUKIT_DEVICE typename Op::Acc merge_segments(const typename Op::Acc* values, int64_t count, typename Op::Acc* shared) {
  const typename Op::Acc v = threadIdx.x < count ? values[threadIdx.x] : Op::identity();
  return warps_tree<Op>(lanes_tree<Op>(v, 32), kRowMaxThreads / 32, shared);
}

/// What a pass of softmax_split leaves or does.
enum class SplitPass { maxima, sums, results };

// softmax_split: one block per (row, segment), in three passes. `partials` holds the maxima of all segments, then their
// sums.
template <typename T, bool kVector, SplitPass kPass>
__global__ void __launch_bounds__(kRowMaxThreads, 1)
    softmax_split(T* out, const T* x, compute_t<T>* partials, const __grid_constant__ RowParams p,
                  const Divisor segments) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  __shared__ C slots[kRowMaxThreads / 32 * kWalkLevels];
  __shared__ C shared[32];
  int64_t segment;
  const int64_t index = quotient(blockIdx.x, segments, segment);
  const int64_t length = p.chunks_per_warp * (kRowMaxThreads * V * WideRow<T, V>::kUnits), first = segment * length;
  const WideRow<T, V> row{x + space_offset(p.rank, p.shape, p.in, index) + first * p.in_step,
                          at_most(length, p.width - first), p.in_step};
  if constexpr (kPass == SplitPass::maxima) {
    const C top = row.template reduce<TreeMax<C>>(p, slots, shared, [](C v) { return v; });
    if (threadIdx.x == 0) partials[blockIdx.x] = top;
  } else {
    const C top = merge_segments<TreeMax<C>>(partials + index * segments.value, segments.value, shared);
    if constexpr (kPass == SplitPass::sums) {
      const C sum = row.template reduce<TreeSum<C>>(p, slots, shared, [=](C v) { return exponential(v - top); });
      if (threadIdx.x == 0) partials[p.rows * segments.value + blockIdx.x] = sum;
    } else {
      const C scale =
          C(1) / merge_segments<TreeSum<C>>(partials + (p.rows + index) * segments.value, segments.value, shared);
      row.store(out + space_offset(p.rank, p.shape, p.out, index) + first * p.out_step, p.out_step,
                [=](C v, int64_t) { return exponential(v - top) * scale; });
    }
  }
}

template <typename T, int V, bool kExp>
struct SoftmaxColumns {
  using C = compute_t<T>;
  using Raw = Vec<T, V>;
  const T* column;
  int64_t stride;
  const C (&top)[V];
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t row, int step, int64_t last) const {
#pragma unroll
    for (int u = 0; u < N; ++u) raw[u] = load_vec<T, V>(column + at_most(row + u * step, last) * stride);
  }
  GPUKIT_DEVICE C element(const Raw& raw, int k, int64_t) const {
    if constexpr (kExp)
      return exponential(load(raw.v[k]) - top[k]);
    else
      return load(raw.v[k]);
  }
};

// softmax_columns: the axis is walked by rows of p.columns elements that lie side by side in input and output.
// Dynamic shared memory: (p.ty + levels of the walk) * p.tx * V values.
template <typename T, bool kVector>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 8 ? 1 : 2)
    softmax_columns(T* out, const T* x, const __grid_constant__ RowParams p) {
  using C = compute_t<T>;
  constexpr int V = row_vector<T, kVector>();
  extern __shared__ __align__(16) unsigned char memory[];
  C* shared = reinterpret_cast<C*>(memory);
  C* slots = shared + p.ty * p.tx * V;
  const int tx = threadIdx.x % p.tx;
  const int ty = threadIdx.x / p.tx;
  int64_t block;
  const int64_t batch = quotient(blockIdx.x, p.column_blocks, block);
  const int64_t column = (block * p.tx + tx) * V;
  const bool inside = column < p.columns;
  const int64_t output = batch * p.columns + (inside ? column : 0);
  const T* from = x + space_offset(p.rank, p.shape, p.in, output);
  T* to = out + space_offset(p.rank, p.shape, p.out, output);

  C top[V], scale[V];
  columns_tree<TreeMax<C>, V>(top, SoftmaxColumns<T, V, false>{from, p.in_step, top}, 0, p.width, p.tx, p.ty,
                              p.rows_per_thread, shared, slots);
  // Only y == 0 has the result: it goes to the others through shared memory.
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (ty == 0) shared[tx * V + k] = top[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k) top[k] = shared[tx * V + k];
  __syncthreads();
  columns_tree<TreeSum<C>, V>(scale, SoftmaxColumns<T, V, true>{from, p.in_step, top}, 0, p.width, p.tx, p.ty,
                              p.rows_per_thread, shared, slots);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k)
    if (ty == 0) shared[tx * V + k] = C(1) / scale[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < V; ++k) scale[k] = shared[tx * V + k];
  if (!inside) return;
  for (int64_t row = ty; row < p.width; row += p.ty) {
    Vec<T, V> raw = load_vec<T, V>(from + row * p.in_step);
#pragma unroll
    for (int k = 0; k < V; ++k) raw.v[k] = store<T>(exponential(load(raw.v[k]) - top[k]) * scale[k]);
    store_vec<T, V>(to + row * p.out_step, raw);
  }
}

}  // namespace gpukit
