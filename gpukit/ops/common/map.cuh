// Elementwise kernels over contiguous operands of equal shape.
//
// map1, map2, map3 compute out[i] = Op::apply(a[i], ...). One block handles map_block_elements() elements; a thread
// moves 16-byte vectors that lie a block's width apart. A null input pointer stands for the scalar in `args`. Blocks
// that are cut short, and operands off their alignment, move single elements, neighbouring threads side by side. `out`
// may be the same memory as an input: every element is read before it is written, by the same thread.
//
// Op gives Out, A (B, C), kCost and a static apply(..., const MapArgs&).
#pragma once
#include "gpukit/ops/common/map_layout.cuh"
#include "gpukit/ops/common/vec.cuh"

namespace gpukit {

constexpr int widest_of(int a, int b) { return a > b ? a : b; }
constexpr int widest_of(int a, int b, int c) { return widest_of(widest_of(a, b), c); }

template <typename T>
GPUKIT_DEVICE T scalar_of(const MapArgs& args, int slot) {
  return *reinterpret_cast<const T*>(args.scalars[slot].bytes);
}

template <int V, typename T>
GPUKIT_DEVICE bool vector_aligned(const T* p) {
  return (reinterpret_cast<uint64_t>(p) & (sizeof(T) * V - 1)) == 0;
}

/// U vectors of one input, kMapThreads vectors apart, or the scalar of a null input.
template <int V, int U, typename T>
GPUKIT_DEVICE void load_vectors(Vec<T, V> (&x)[U], const T* p, int64_t at, T scalar) {
  if (p != nullptr) {
#pragma unroll
    for (int u = 0; u < U; ++u) x[u] = load_vec<T, V>(p + at + u * (kMapThreads * V));
  } else {
#pragma unroll
    for (int u = 0; u < U; ++u)
#pragma unroll
      for (int i = 0; i < V; ++i) x[u].v[i] = scalar;
  }
}

template <typename T>
GPUKIT_DEVICE T load_one(const T* p, int64_t at, T scalar) {
  return p != nullptr ? p[at] : scalar;
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, map_blocks(sizeof(typename Op::A)))
    map1(typename Op::Out* out, const typename Op::A* a, const __grid_constant__ MapArgs args, int64_t n) {
  using A = typename Op::A;
  using Out = typename Op::Out;
  constexpr int V = map_vector(widest_of(sizeof(A), sizeof(Out)));
  constexpr int U = map_unroll(1, Op::kCost);
  constexpr int64_t kBlock = int64_t{kMapThreads} * V * U;
  const int64_t begin = blockIdx.x * kBlock;
  const A sa = scalar_of<A>(args, 0);
  if (begin + kBlock <= n && vector_aligned<V>(out) && vector_aligned<V>(a)) {
    const int64_t at = begin + threadIdx.x * V;
    if constexpr (Op::kCost == 3) {
      Vec<A, V> next[1];
      load_vectors<V, 1>(next, a, at, sa);
#pragma unroll 1
      for (int u = 0; u < U; ++u) {
        const Vec<A, V> x = next[0];
        if (u + 1 < U) load_vectors<V, 1>(next, a, at + (u + 1) * (kMapThreads * V), sa);
        Vec<Out, V> y;
#pragma unroll
        for (int i = 0; i < V; ++i) y.v[i] = Op::apply(x.v[i], args);
        store_vec<Out, V>(out + at + u * (kMapThreads * V), y);
      }
      return;
    }
    Vec<A, V> x[U];
    load_vectors<V, U>(x, a, at, sa);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Vec<Out, V> y;
#pragma unroll
      for (int i = 0; i < V; ++i) y.v[i] = Op::apply(x[u].v[i], args);
      store_vec<Out, V>(out + at + u * (kMapThreads * V), y);
    }
    return;
  }
  const int64_t end = begin + kBlock < n ? begin + kBlock : n;
#pragma unroll(Op::kCost > 0 ? 1 : 8)
  for (int64_t i = begin + threadIdx.x; i < end; i += kMapThreads) out[i] = Op::apply(load_one(a, i, sa), args);
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, map_blocks(sizeof(typename Op::A)))
    map2(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b, const __grid_constant__ MapArgs args,
         int64_t n) {
  using A = typename Op::A;
  using B = typename Op::B;
  using Out = typename Op::Out;
  constexpr int V = map_vector(widest_of(sizeof(A), sizeof(B), sizeof(Out)));
  constexpr int U = map_unroll(2, Op::kCost);
  constexpr int64_t kBlock = int64_t{kMapThreads} * V * U;
  const int64_t begin = blockIdx.x * kBlock;
  const A sa = scalar_of<A>(args, 0);
  const B sb = scalar_of<B>(args, 1);
  if (begin + kBlock <= n && vector_aligned<V>(out) && vector_aligned<V>(a) && vector_aligned<V>(b)) {
    const int64_t at = begin + threadIdx.x * V;
    if constexpr (Op::kCost == 3) {
      Vec<A, V> next_a[1];
      Vec<B, V> next_b[1];
      load_vectors<V, 1>(next_a, a, at, sa);
      load_vectors<V, 1>(next_b, b, at, sb);
#pragma unroll 1
      for (int u = 0; u < U; ++u) {
        const Vec<A, V> x = next_a[0];
        const Vec<B, V> y = next_b[0];
        if (u + 1 < U) {
          load_vectors<V, 1>(next_a, a, at + (u + 1) * (kMapThreads * V), sa);
          load_vectors<V, 1>(next_b, b, at + (u + 1) * (kMapThreads * V), sb);
        }
        Vec<Out, V> z;
#pragma unroll
        for (int i = 0; i < V; ++i) z.v[i] = Op::apply(x.v[i], y.v[i], args);
        store_vec<Out, V>(out + at + u * (kMapThreads * V), z);
      }
      return;
    }
    Vec<A, V> x[U];
    Vec<B, V> y[U];
    load_vectors<V, U>(x, a, at, sa);
    load_vectors<V, U>(y, b, at, sb);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Vec<Out, V> z;
#pragma unroll
      for (int i = 0; i < V; ++i) z.v[i] = Op::apply(x[u].v[i], y[u].v[i], args);
      store_vec<Out, V>(out + at + u * (kMapThreads * V), z);
    }
    return;
  }
  const int64_t end = begin + kBlock < n ? begin + kBlock : n;
#pragma unroll(Op::kCost > 0 ? 1 : 4)
  for (int64_t i = begin + threadIdx.x; i < end; i += kMapThreads)
    out[i] = Op::apply(load_one(a, i, sa), load_one(b, i, sb), args);
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, map_blocks(sizeof(typename Op::Out)))
    map3(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b, const typename Op::C* c,
         const __grid_constant__ MapArgs args, int64_t n) {
  using A = typename Op::A;
  using B = typename Op::B;
  using C = typename Op::C;
  using Out = typename Op::Out;
  constexpr int V = map_vector(widest_of(widest_of(sizeof(A), sizeof(B)), sizeof(C), sizeof(Out)));
  constexpr int U = map_unroll(3, Op::kCost);
  constexpr int64_t kBlock = int64_t{kMapThreads} * V * U;
  const int64_t begin = blockIdx.x * kBlock;
  const A sa = scalar_of<A>(args, 0);
  const B sb = scalar_of<B>(args, 1);
  const C sc = scalar_of<C>(args, 2);
  if (begin + kBlock <= n && vector_aligned<V>(out) && vector_aligned<V>(a) && vector_aligned<V>(b) &&
      vector_aligned<V>(c)) {
    const int64_t at = begin + threadIdx.x * V;
    Vec<A, V> x[U];
    Vec<B, V> y[U];
    Vec<C, V> z[U];
    load_vectors<V, U>(x, a, at, sa);
    load_vectors<V, U>(y, b, at, sb);
    load_vectors<V, U>(z, c, at, sc);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Vec<Out, V> w;
#pragma unroll
      for (int i = 0; i < V; ++i) w.v[i] = Op::apply(x[u].v[i], y[u].v[i], z[u].v[i], args);
      store_vec<Out, V>(out + at + u * (kMapThreads * V), w);
    }
    return;
  }
  const int64_t end = begin + kBlock < n ? begin + kBlock : n;
#pragma unroll(Op::kCost > 0 ? 1 : 4)
  for (int64_t i = begin + threadIdx.x; i < end; i += kMapThreads)
    out[i] = Op::apply(load_one(a, i, sa), load_one(b, i, sb), load_one(c, i, sc), args);
}

}  // namespace gpukit
