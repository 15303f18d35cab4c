// Elementwise kernel of two inputs of which at least one is turned round, cut into whole tiles: transposed operands of
// round sizes.
//
// What the plan has made sure of: both edges are whole tiles; a turned input is contiguous along y, any other and the
// output along x; rows and blocks start at whole packs. So there is no bound to check and no element to pick, which
// leaves registers for many blocks per SM. All else goes to map2_strided.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"

namespace gpukit {

/// The thread's packs of one input, along x, before and after the barrier.
template <int kWidest, typename T>
struct WholeTile {
  static constexpr MapTile kTile = map_tile(kWidest);
  static constexpr int P = kTile.pack;
  static constexpr int kPitch = kTile.lanes + 1;
  static constexpr int kWarps = kMapThreads / 32;
  static constexpr int kRows = kMapThreads / kTile.lanes;
  Pack<T, P> v[kTile.packs];

  GPUKIT_DEVICE void load(const T* corner, int64_t step_y) {
    const T* q = corner + (threadIdx.x / kTile.lanes) * step_y + (threadIdx.x % kTile.lanes) * P;
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k, q += kRows * step_y) v[k].load(q);
  }
  /// Reads along y and stores packs along x. Row y lies at (y % P) * 32 + y / P, as in fill_tile.
  GPUKIT_DEVICE void turn(Pack<T, P>* tile, const T* corner, int64_t step_x) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const T* q = corner + warp * P * step_x + lane * P;
#pragma unroll
    for (int k = 0; k < kTile.packs; k += P) {
#pragma unroll
      for (int i = 0; i < P; ++i) v[k + i].load(q + i * step_x);
      q += kWarps * P * step_x;
    }
#pragma unroll
    for (int k = 0; k < kTile.packs; k += P)
#pragma unroll
      for (int j = 0; j < P; ++j) {
        Pack<T, P> along_x;
#pragma unroll
        for (int i = 0; i < P; ++i) along_x.set(i, v[k + i].get(j));
        tile[(j * 32 + lane) * kPitch + warp + (k / P) * kWarps] = along_x;
      }
  }
  GPUKIT_DEVICE void take(const Pack<T, P>* tile) {
    const int ty = threadIdx.x / kTile.lanes;
    const Pack<T, P>* mine = tile + ((ty % P) * 32 + ty / P) * kPitch + threadIdx.x % kTile.lanes;
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k) v[k] = mine[k * (kRows / P) * kPitch];
  }
};

/// Blocks per SM, as many as registers allow without spilling.
constexpr int tiled_blocks(int itemsize) {
#if __CUDA_ARCH__ >= 1000
  return itemsize > 8 ? 2 : 5;
#else
  return itemsize > 8 ? 2 : 6;
#endif
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, tiled_blocks(sizeof(typename Op::A)))
    map2_tiled(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b,
               const __grid_constant__ MapArgs args, const __grid_constant__ StridedMap map) {
  start_in_turn();
  using A = typename Op::A;
  using B = typename Op::B;
  using Out = typename Op::Out;
  constexpr int kWidest = widest_of(sizeof(A), sizeof(B), sizeof(Out));
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int P = kTile.pack;
  const int y_axis = map.rank - 2, x_axis = map.rank - 1;
  const auto block = map_block<kWidest, 3>(map);
  auto corner = [&](int operand) {
    return block.at[operand] + block.y * map.strides[operand][y_axis] + block.x * map.strides[operand][x_axis];
  };
  auto* tile_a = reinterpret_cast<Pack<A, P>*>(map_shared);
  auto* tile_b =
      reinterpret_cast<Pack<B, P>*>(map_shared + ((map.tiled & 1u) ? map_tile_bytes(kWidest, sizeof(A)) : 0));
  WholeTile<kWidest, A> x;
  WholeTile<kWidest, B> y;
  // What is read where it lies goes first: turning waits for its own reads.
  if ((map.tiled & 1u) == 0) x.load(a + corner(1), map.strides[1][y_axis]);
  if ((map.tiled & 2u) == 0) y.load(b + corner(2), map.strides[2][y_axis]);
  if (map.tiled & 1u) x.turn(tile_a, a + corner(1), map.strides[1][x_axis]);
  if (map.tiled & 2u) y.turn(tile_b, b + corner(2), map.strides[2][x_axis]);
  __syncthreads();
  if (map.tiled & 1u) x.take(tile_a);
  if (map.tiled & 2u) y.take(tile_b);
  Pack<Out, P> z[kTile.packs];
  Op::dispatch(args.code, [&](auto f) {
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
      for (int i = 0; i < P; ++i) z[k].set(i, decltype(f)::apply(x.v[k].get(i), y.v[k].get(i), args));
  });
  const int64_t step_y = map.strides[0][y_axis];
  Out* q = out + corner(0) + (threadIdx.x / kTile.lanes) * step_y + (threadIdx.x % kTile.lanes) * P;
#pragma unroll
  for (int k = 0; k < kTile.packs; ++k, q += WholeTile<kWidest, A>::kRows * step_y) z[k].store(q);
}

}  // namespace gpukit
