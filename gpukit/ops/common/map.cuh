// Elementwise kernels over contiguous operands of equal shape.
//
// map1, map2, map3 compute out[i] = Op::apply(a[i], ...). A block of any size up to map_threads() handles map_unroll()
// 16-byte vectors a thread, which lie a block's width apart. A null input pointer stands for the scalar in `args`.
// Blocks from `whole_blocks` on (one cut short, or all where an operand is off its alignment) move single elements,
// neighbouring threads side by side. `out` may be the same memory as an input: every element is read before it is
// written, by the same thread.
//
// Op gives Out, A (B, C), kCost and a static apply(..., const MapArgs&).
#pragma once
#include "gpukit/ops/common/map_layout.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/hopper/pdl.cuh"

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

/// U vectors of one input, a block's width apart.
template <int V, int U, typename T>
GPUKIT_DEVICE void load_vectors(Vec<T, V> (&x)[U], const T* p, int64_t at) {
#pragma unroll
  for (int u = 0; u < U; ++u) x[u] = load_vec<T, V>(p + at + u * (blockDim.x * V));
}
/// The same, or the scalar of a null input.
template <int V, int U, typename T>
GPUKIT_DEVICE void load_or_fill(Vec<T, V> (&x)[U], const T* p, int64_t at, const MapArgs& args, int slot) {
  if (p != nullptr) return load_vectors<V, U>(x, p, at);
  const T scalar = scalar_of<T>(args, slot);
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int i = 0; i < V; ++i) x[u].v[i] = scalar;
}

template <typename T>
GPUKIT_DEVICE T load_one(const T* p, int64_t at, const MapArgs& args, int slot) {
  return p != nullptr ? p[at] : scalar_of<T>(args, slot);
}

template <typename Op>
__global__ void __launch_bounds__(map_threads(1, Op::kCost, sizeof(typename Op::A)),
                                  map_blocks(sizeof(typename Op::A), map_threads(1, Op::kCost, sizeof(typename Op::A)),
                                             Op::kCost))
    map1(typename Op::Out* out, const typename Op::A* a, const __grid_constant__ MapArgs args, int64_t n,
         unsigned whole_blocks) {
  start_in_turn();
  using A = typename Op::A;
  using Out = typename Op::Out;
  constexpr int V = map_vector(widest_of(sizeof(A), sizeof(Out)));
  constexpr int U = map_unroll(1, Op::kCost);
  const unsigned block = blockDim.x * (V * U);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * block;
  if (blockIdx.x < whole_blocks) {
    const int64_t at = begin + threadIdx.x * V;
    Vec<A, V> x[U];
    load_or_fill<V, U>(x, a, at, args, 0);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Vec<Out, V> y;
#pragma unroll
      for (int i = 0; i < V; ++i) y.v[i] = Op::apply(x[u].v[i], args);
      store_vec<Out, V>(out + at + u * (blockDim.x * V), y);
    }
    return;
  }
  const int64_t end = begin + block < n ? begin + block : n;
#pragma unroll(Op::kCost > 0 ? 1 : 8)
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) out[i] = Op::apply(load_one(a, i, args, 0), args);
}

/// Computes and stores the vectors of one thread.
template <typename Op, int V, int U>
GPUKIT_DEVICE void map2_vectors(typename Op::Out* out, const Vec<typename Op::A, V> (&x)[U],
                                const Vec<typename Op::B, V> (&y)[U], int64_t at, const MapArgs& args) {
#pragma unroll
  for (int u = 0; u < U; ++u) {
    Vec<typename Op::Out, V> z;
#pragma unroll
    for (int i = 0; i < V; ++i) z.v[i] = Op::apply(x[u].v[i], y[u].v[i], args);
    store_vec<typename Op::Out, V>(out + at + u * (blockDim.x * V), z);
  }
}

// Two arrays have a path of their own: a choice between loads and a scalar before the arithmetic costs up to 4 %.
// Functions of cost 3 have no path for vectors and a scalar; the host gives them whole_blocks = 0.
template <typename Op>
__global__ void __launch_bounds__(map_threads(2, Op::kCost, sizeof(typename Op::A)),
                                  map_blocks(sizeof(typename Op::A), map_threads(2, Op::kCost, sizeof(typename Op::A)),
                                             Op::kCost))
    map2(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b, const __grid_constant__ MapArgs args,
         int64_t n, unsigned whole_blocks) {
  start_in_turn();
  using A = typename Op::A;
  using B = typename Op::B;
  constexpr int V = map_vector(widest_of(sizeof(A), sizeof(B), sizeof(typename Op::Out)));
  constexpr int U = map_unroll(2, Op::kCost);
  const unsigned block = blockDim.x * (V * U);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * block;
  if (blockIdx.x < whole_blocks) {
    const int64_t at = begin + threadIdx.x * V;
    Vec<A, V> x[U];
    Vec<B, V> y[U];
    if (Op::kCost == 3 || (a != nullptr && b != nullptr)) {
      load_vectors<V, U>(x, a, at);
      load_vectors<V, U>(y, b, at);
      return map2_vectors<Op, V, U>(out, x, y, at, args);
    }
    load_or_fill<V, U>(x, a, at, args, 0);
    load_or_fill<V, U>(y, b, at, args, 1);
    return map2_vectors<Op, V, U>(out, x, y, at, args);
  }
  const int64_t end = begin + block < n ? begin + block : n;
#pragma unroll(Op::kCost > 0 ? 1 : 4)
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    out[i] = Op::apply(load_one(a, i, args, 0), load_one(b, i, args, 1), args);
}

template <typename Op>
__global__ void __launch_bounds__(map_threads(3, Op::kCost, sizeof(typename Op::Out)),
                                  map_blocks(sizeof(typename Op::Out),
                                             map_threads(3, Op::kCost, sizeof(typename Op::Out)), Op::kCost))
    map3(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b, const typename Op::C* c,
         const __grid_constant__ MapArgs args, int64_t n, unsigned whole_blocks) {
  start_in_turn();
  using A = typename Op::A;
  using B = typename Op::B;
  using C = typename Op::C;
  using Out = typename Op::Out;
  constexpr int V = map_vector(widest_of(widest_of(sizeof(A), sizeof(B)), sizeof(C), sizeof(Out)));
  constexpr int U = map_unroll(3, Op::kCost);
  const unsigned block = blockDim.x * (V * U);
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * block;
  if (blockIdx.x < whole_blocks) {
    const int64_t at = begin + threadIdx.x * V;
    Vec<A, V> x[U];
    Vec<B, V> y[U];
    Vec<C, V> z[U];
    load_or_fill<V, U>(x, a, at, args, 0);
    load_or_fill<V, U>(y, b, at, args, 1);
    load_or_fill<V, U>(z, c, at, args, 2);
#pragma unroll
    for (int u = 0; u < U; ++u) {
      Vec<Out, V> w;
#pragma unroll
      for (int i = 0; i < V; ++i) w.v[i] = Op::apply(x[u].v[i], y[u].v[i], z[u].v[i], args);
      store_vec<Out, V>(out + at + u * (blockDim.x * V), w);
    }
    return;
  }
  const int64_t end = begin + block < n ? begin + block : n;
#pragma unroll(Op::kCost > 0 ? 1 : 4)
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
    out[i] = Op::apply(load_one(a, i, args, 0), load_one(b, i, args, 1), load_one(c, i, args, 2), args);
}

}  // namespace gpukit
