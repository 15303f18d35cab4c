// Elementwise kernels over any strides: broadcasts, slices, transposes.
//
// map1_strided, map2_strided, map3_strided: a block covers a rectangle of (y, x), x being the output's fastest axis; a
// thread handles packs of neighbours along x. An input that is contiguous along y ("tiled") is read along y and turned
// round in shared memory; all others are read where they are. Shared memory: map_tile_bytes() for each tiled input.
// One kernel serves a group of functions: Op::dispatch(code, body) calls body(F{}) with the function of that code.
#pragma once
#include "gpukit/ops/common/map.cuh"
#include "gpukit/ops/common/map_pack.cuh"

namespace gpukit {

/// What one block covers: its corner, and per operand the element offset of the outer axes.
template <int N>
struct MapBlock {
  uint32_t x, y;
  int64_t at[N];
};

template <int kWidest, int N>
GPUKIT_DEVICE MapBlock<N> map_block(const StridedMap& map) {
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int kLog2Packs = kTile.packs == 16 ? 4 : kTile.packs == 8 ? 3 : 2;
  MapBlock<N> block;
#pragma unroll
  for (int i = 0; i < N; ++i) block.at[i] = 0;
  const int log2_x = map.log2_lanes + (map.packs_along != 0 ? kLog2Packs : 0);
  uint32_t rest = blockIdx.x / map.blocks_x;
  block.x = (blockIdx.x - rest * map.blocks_x) * (kTile.pack << log2_x);
  uint32_t index = rest;
  rest = index / map.blocks_y;
  block.y = (index - rest * map.blocks_y) * ((kMapThreads * kTile.packs) >> log2_x);
#pragma unroll 1
  for (int axis = map.rank - 3; axis >= 0; --axis) {
    index = rest;
    rest = index / map.shape[axis];
    const uint32_t here = index - rest * map.shape[axis];
#pragma unroll
    for (int i = 0; i < N; ++i) block.at[i] += here * map.strides[i][axis];
  }
  return block;
}

/// Copies the block's (y, x) tile of an input into shared memory, reading along y, so that rows are packs along x.
/// Row y lies at (y % P) * 32 + y / P: the lanes of a warp then meet different banks.
template <int kWidest, int N, typename T, int P>
GPUKIT_DEVICE void fill_tile(Vec<T, P>* tile, const T* p, const StridedMap& map, int operand,
                             const MapBlock<N>& block) {
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int kWarps = kMapThreads / 32;
  constexpr int kSteps = kTile.lanes / kWarps;
  constexpr int kGroup = P == 4 ? 2 : kSteps;  // kGroup * P loads in flight
  const int x_axis = map.rank - 1;
  const int64_t step_x = map.strides[operand][x_axis];
  const int64_t step_y = map.strides[operand][x_axis - 1];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  const uint32_t y = block.y + lane * P;
  const uint32_t x = block.x + warp * P;
  const int left_y = static_cast<int>(map.shape[x_axis - 1] - y);
  const int left_x = static_cast<int>(map.shape[x_axis] - x);
  const T* from = p + block.at[operand] + y * step_y + x * step_x;
  const bool packs = step_y == 1 && left_y >= P && vector_aligned<P>(from) && step_x % P == 0;
#pragma unroll 1
  for (int group = 0; group < kSteps; group += kGroup) {
    Vec<T, P> in[kGroup][P];
    if (packs && (group + kGroup - 1) * kWarps * P + P <= left_x) {
      // One pointer that moves on takes fewer registers than one for each access.
      const T* q = from + group * kWarps * P * step_x;
#pragma unroll
      for (int s = 0; s < kGroup; ++s) {
#pragma unroll
        for (int i = 0; i < P; ++i) {
          in[s][i] = load_vec<T, P>(q);
          q += i + 1 < P ? step_x : (kWarps * P - P + 1) * step_x;
        }
      }
    } else {
#pragma unroll
      for (int s = 0; s < kGroup; ++s)
#pragma unroll
        for (int i = 0; i < P; ++i)
#pragma unroll
          for (int j = 0; j < P; ++j) {
            const int dx = (group + s) * kWarps * P + i;
            if (dx < left_x && j < left_y) in[s][i].v[j] = from[dx * step_x + j * step_y];
          }
    }
#pragma unroll
    for (int s = 0; s < kGroup; ++s)
#pragma unroll
      for (int j = 0; j < P; ++j) {
        Vec<T, P> along_x;
#pragma unroll
        for (int i = 0; i < P; ++i) along_x.v[i] = in[s][i].v[j];
        tile[(j * 32 + lane) * (kTile.lanes + 1) + warp + (group + s) * kWarps] = along_x;
      }
  }
}

/// The packs of one thread in one operand: pack k starts at p + k * next. Pointer is T* or const T*.
template <typename T, int P, typename Pointer>
struct Packs {
  Pointer p;
  int64_t next;
  int whole;  // a pack of at least so many elements is one access

  /// `left` > 0 elements of the pack exist, `step` apart where it is not one access.
  GPUKIT_DEVICE void load(Vec<T, P>& v, int k, int left, const int64_t& step) const {
    const T* q = p + k * next;
    if (P == 1) {
      v.v[0] = *q;
    } else if (left >= whole) {
      v = load_vec<T, P>(q);
    } else {
#pragma unroll
      for (int i = 0; i < P; ++i)
        if (i < left) v.v[i] = q[i * step];
    }
  }
  GPUKIT_DEVICE void store(const Vec<T, P>& v, int k, int left, const int64_t& step) const {
    Pointer q = p + k * next;
    if (P == 1) {
      *q = v.v[0];
    } else if (left >= whole) {
      store_vec<T, P>(q, v);
    } else {
#pragma unroll
      for (int i = 0; i < P; ++i)
        if (i < left) q[i * step] = v.v[i];
    }
  }
};

/// The thread's packs: where the first one lies in the block, how many exist, and what is left along x.
template <int kWidest>
struct Walk {
  static constexpr MapTile kTile = map_tile(kWidest);
  int tx, ty, count, left, left_step;

  template <int N>
  GPUKIT_DEVICE Walk(const StridedMap& map, const MapBlock<N>& block) {
    const int lanes = 1 << map.log2_lanes;
    tx = threadIdx.x & (lanes - 1);
    ty = threadIdx.x >> map.log2_lanes;
    const int rows = static_cast<int>(map.shape[map.rank - 2] - block.y) - ty;
    left = static_cast<int>(map.shape[map.rank - 1] - block.x) - tx * kTile.pack;
    left_step = 0;
    if (left <= 0 || rows <= 0) {
      count = 0;
    } else if (map.packs_along == 0) {
      count = (rows + (kMapThreads >> map.log2_lanes) - 1) >> (8 - map.log2_lanes);
    } else {
      left_step = lanes * kTile.pack;
      count = static_cast<int>(static_cast<uint32_t>(left + left_step - 1) / static_cast<uint32_t>(left_step));
    }
    static_assert(kMapThreads == 256, "the shift above");
  }

  template <typename T, int N, typename Pointer>
  GPUKIT_DEVICE Packs<T, kTile.pack, Pointer> in_memory(Pointer p, int operand, const StridedMap& map,
                                                        const MapBlock<N>& block) const {
    constexpr int P = kTile.pack;
    const int64_t step_x = map.strides[operand][map.rank - 1];
    const int64_t step_y = map.strides[operand][map.rank - 2];
    Packs<T, P, Pointer> packs;
    packs.p = p + block.at[operand] + (block.y + ty) * step_y + (block.x + tx * P) * step_x;
    packs.next = map.packs_along == 0 ? (kMapThreads >> map.log2_lanes) * step_y : left_step * step_x;
    packs.whole = step_x == 1 && vector_aligned<P>(packs.p) && packs.next % P == 0 ? P : 0x7fffffff;
    return packs;
  }

  /// Input `slot`, its tile filled when it has one; `shared` moves past it. A null pointer gives the scalar.
  template <int N, typename T>
  GPUKIT_DEVICE Packs<T, kTile.pack, const T*> input(const T* p, int slot, const StridedMap& map, const MapArgs& args,
                                                     const MapBlock<N>& block, unsigned char*& shared) const {
    constexpr int P = kTile.pack;
    if ((map.tiled >> slot) & 1u) {
      auto* tile = reinterpret_cast<Vec<T, P>*>(shared);
      fill_tile<kWidest>(tile, p, map, slot + 1, block);
      shared += map_tile_bytes(kWidest, sizeof(T));
      constexpr int kPitch = kTile.lanes + 1;
      const T* mine = reinterpret_cast<const T*>(tile + ((ty % P) * 32 + ty / P) * kPitch + tx);
      return {mine, (kMapThreads / kTile.lanes / P) * kPitch * P, 1};
    }
    if (p == nullptr) return {reinterpret_cast<const T*>(args.scalars[slot].bytes), 0, 0x7fffffff};
    return in_memory<T>(p, slot + 1, map, block);
  }
};

/// Blocks per SM the compiler must leave registers for: as many as it can without spilling. Addresses take more of them
/// on Blackwell. `plain`: an Op that only moves.
constexpr int strided_blocks(int num_inputs, int widest, bool plain = false) {
#if __CUDA_ARCH__ >= 1000
  if (num_inputs == 1 && (widest == 2 || widest == 4)) return 4;
#endif
  if (widest == 1) return 2;
  if (plain && widest == 2) return 6;
  if (widest == 16) return num_inputs == 1 ? 4 : 3;
  if (widest == 2) return num_inputs == 3 ? 3 : 4;
  return num_inputs == 1 ? 6 : 4;
}

/// An Op that only moves says so by kPlain; it needs fewer registers.
template <typename Op, typename = void>
struct IsPlain {
  static constexpr bool value = false;
};
template <typename Op>
struct IsPlain<Op, decltype(void(Op::kPlain))> {
  static constexpr bool value = true;
};

extern __shared__ __align__(16) unsigned char map_shared[];

/// One input of a tiled block. Everything is asked of memory before the barrier: a turned input into shared memory, any
/// other into the thread's own packs.
template <int kWidest, typename T>
struct TiledInput {
  static constexpr MapTile kTile = map_tile(kWidest);
  static constexpr int P = kTile.pack;
  Pack<T, P> v[kTile.packs];
  int tile;  // its place in shared memory, or -1

  /// What is read where it lies. All inputs ask before the first one turns, which waits for its own reads.
  template <int N>
  GPUKIT_DEVICE void ask(const T* p, int slot, const StridedMap& map, const MapArgs& args, const MapBlock<N>& block,
                         const Walk<kWidest>& walk) {
    tile = -1;
    if ((map.tiled >> slot) & 1u) return;
    if (p == nullptr) {
#pragma unroll
      for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
        for (int i = 0; i < P; ++i) v[k].set(i, scalar_of<T>(args, slot));
      return;
    }
    const auto from = walk.template in_memory<T>(p, slot + 1, map, block);
    if (walk.count == kTile.packs && (P == 1 || walk.left >= from.whole)) {
      const T* q = from.p;
#pragma unroll
      for (int k = 0; k < kTile.packs; ++k, q += from.next) v[k].load(q);
      return;
    }
    const int64_t step = map.strides[slot + 1][map.rank - 1];
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
      for (int i = 0; i < P; ++i) v[k].set(i, k < walk.count && i < walk.left ? from.p[k * from.next + i * step] : T{});
  }
  template <int N>
  GPUKIT_DEVICE void turn(const T* p, int slot, const StridedMap& map, const MapBlock<N>& block, int& shared) {
    if (((map.tiled >> slot) & 1u) == 0) return;
    tile = shared;
    fill_tile<kWidest>(reinterpret_cast<Vec<T, P>*>(map_shared + tile), p, map, slot + 1, block);
    shared += map_tile_bytes(kWidest, sizeof(T));
  }
  GPUKIT_DEVICE void finish(const Walk<kWidest>& walk) {
    if (tile < 0) return;
    constexpr int kPitch = kTile.lanes + 1;
    const int row = (walk.ty % P) * 32 + walk.ty / P;
    const T* mine = reinterpret_cast<const T*>(map_shared + tile) + (row * kPitch + walk.tx) * P;
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k) v[k].load(mine + k * (kMapThreads / kTile.lanes / P) * kPitch * P);
  }
};

template <int kWidest, typename Out, int N>
GPUKIT_DEVICE void store_tiled(Out* out, const Pack<Out, map_tile(kWidest).pack> (&y)[map_tile(kWidest).packs],
                               const StridedMap& map, const MapBlock<N>& block, const Walk<kWidest>& walk) {
  constexpr MapTile kTile = map_tile(kWidest);
  const auto to = walk.template in_memory<Out>(out, 0, map, block);
  if (walk.count == kTile.packs && (kTile.pack == 1 || walk.left >= to.whole)) {
    Out* q = to.p;
#pragma unroll
    for (int k = 0; k < kTile.packs; ++k, q += to.next) y[k].store(q);
    return;
  }
  const int64_t step = map.strides[0][map.rank - 1];
#pragma unroll
  for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
    for (int i = 0; i < kTile.pack; ++i)
      if (k < walk.count && i < walk.left) to.p[k * to.next + i * step] = y[k].get(i);
}

/// Single bytes take too many registers this way, long functions too much code.
template <typename Op>
constexpr bool whole_tiles(int widest) {
  return Op::kCost == 0 && widest > 1;
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, strided_blocks(1, sizeof(typename Op::A), IsPlain<Op>::value))
    map1_strided(typename Op::Out* out, const typename Op::A* a, const __grid_constant__ MapArgs args,
                 const __grid_constant__ StridedMap map) {
  start_in_turn();
  constexpr int kWidest = widest_of(sizeof(typename Op::A), sizeof(typename Op::Out));
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int P = kTile.pack;
  constexpr int G = Op::kCost > 0 ? 1 : 4;
  const auto block = map_block<kWidest, 2>(map);
  const Walk<kWidest> walk(map, block);
  if constexpr (whole_tiles<Op>(kWidest)) {
    if (map.tiled != 0) {
      TiledInput<kWidest, typename Op::A> x;
      Pack<typename Op::Out, P> y[kTile.packs];
      int used = 0;
      x.ask(a, 0, map, args, block, walk);
      x.turn(a, 0, map, block, used);
      __syncthreads();
      x.finish(walk);
      Op::dispatch(args.code, [&](auto f) {
#pragma unroll
        for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
          for (int i = 0; i < P; ++i) y[k].set(i, decltype(f)::apply(x.v[k].get(i), args));
      });
      return store_tiled<kWidest>(out, y, map, block, walk);
    }
  }
  unsigned char* shared = map_shared;
  const auto in_a = walk.input(a, 0, map, args, block, shared);
  if (map.tiled != 0) __syncthreads();
  const auto to = walk.template in_memory<typename Op::Out>(out, 0, map, block);
#pragma unroll 1
  for (int k = 0; k < kTile.packs; k += G) {
    Vec<typename Op::A, P> x[G];
    Vec<typename Op::Out, P> y[G];
#pragma unroll
    for (int g = 0; g < G; ++g)
      if (k + g < walk.count)
        in_a.load(x[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[1][map.rank - 1]);
    Op::dispatch(args.code, [&](auto f) {
#pragma unroll
      for (int g = 0; g < G; ++g)
#pragma unroll
        for (int i = 0; i < P; ++i) y[g].v[i] = decltype(f)::apply(x[g].v[i], args);
    });
#pragma unroll
    for (int g = 0; g < G; ++g)
      if (k + g < walk.count) to.store(y[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[0][map.rank - 1]);
  }
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, strided_blocks(2, sizeof(typename Op::A)))
    map2_strided(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b,
                 const __grid_constant__ MapArgs args, const __grid_constant__ StridedMap map) {
  start_in_turn();
  constexpr int kWidest = widest_of(sizeof(typename Op::A), sizeof(typename Op::B), sizeof(typename Op::Out));
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int P = kTile.pack;
  constexpr int G = Op::kCost > 0 ? 1 : P == 4 ? 2 : 4;
  const auto block = map_block<kWidest, 3>(map);
  const Walk<kWidest> walk(map, block);
  if constexpr (whole_tiles<Op>(kWidest)) {
    if (map.tiled != 0) {
      TiledInput<kWidest, typename Op::A> x;
      TiledInput<kWidest, typename Op::B> y;
      Pack<typename Op::Out, P> z[kTile.packs];
      int used = 0;
      x.ask(a, 0, map, args, block, walk);
      y.ask(b, 1, map, args, block, walk);
      x.turn(a, 0, map, block, used);
      y.turn(b, 1, map, block, used);
      __syncthreads();
      x.finish(walk);
      y.finish(walk);
      Op::dispatch(args.code, [&](auto f) {
#pragma unroll
        for (int k = 0; k < kTile.packs; ++k)
#pragma unroll
          for (int i = 0; i < P; ++i) z[k].set(i, decltype(f)::apply(x.v[k].get(i), y.v[k].get(i), args));
      });
      return store_tiled<kWidest>(out, z, map, block, walk);
    }
  }
  unsigned char* shared = map_shared;
  const auto in_a = walk.input(a, 0, map, args, block, shared);
  const auto in_b = walk.input(b, 1, map, args, block, shared);
  if (map.tiled != 0) __syncthreads();
  const auto to = walk.template in_memory<typename Op::Out>(out, 0, map, block);
#pragma unroll 1
  for (int k = 0; k < kTile.packs; k += G) {
    Vec<typename Op::A, P> x[G];
    Vec<typename Op::B, P> y[G];
    Vec<typename Op::Out, P> z[G];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      if (k + g >= walk.count) continue;
      in_a.load(x[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[1][map.rank - 1]);
      in_b.load(y[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[2][map.rank - 1]);
    }
    Op::dispatch(args.code, [&](auto f) {
#pragma unroll
      for (int g = 0; g < G; ++g)
#pragma unroll
        for (int i = 0; i < P; ++i) z[g].v[i] = decltype(f)::apply(x[g].v[i], y[g].v[i], args);
    });
#pragma unroll
    for (int g = 0; g < G; ++g)
      if (k + g < walk.count) to.store(z[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[0][map.rank - 1]);
  }
}

template <typename Op>
__global__ void __launch_bounds__(kMapThreads, strided_blocks(3, sizeof(typename Op::Out)))
    map3_strided(typename Op::Out* out, const typename Op::A* a, const typename Op::B* b, const typename Op::C* c,
                 const __grid_constant__ MapArgs args, const __grid_constant__ StridedMap map) {
  start_in_turn();
  constexpr int kWidest = widest_of(widest_of(sizeof(typename Op::A), sizeof(typename Op::B)), sizeof(typename Op::C),
                                    sizeof(typename Op::Out));
  constexpr MapTile kTile = map_tile(kWidest);
  constexpr int P = kTile.pack;
  constexpr int G = P == 4 ? 1 : 2;
  const auto block = map_block<kWidest, 4>(map);
  const Walk<kWidest> walk(map, block);
  unsigned char* shared = map_shared;
  const auto in_a = walk.input(a, 0, map, args, block, shared);
  const auto in_b = walk.input(b, 1, map, args, block, shared);
  const auto in_c = walk.input(c, 2, map, args, block, shared);
  if (map.tiled != 0) __syncthreads();
  const auto to = walk.template in_memory<typename Op::Out>(out, 0, map, block);
#pragma unroll 1
  for (int k = 0; k < kTile.packs; k += G) {
    Vec<typename Op::A, P> x[G];
    Vec<typename Op::B, P> y[G];
    Vec<typename Op::C, P> z[G];
    Vec<typename Op::Out, P> w[G];
#pragma unroll
    for (int g = 0; g < G; ++g) {
      if (k + g >= walk.count) continue;
      in_a.load(x[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[1][map.rank - 1]);
      in_b.load(y[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[2][map.rank - 1]);
      in_c.load(z[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[3][map.rank - 1]);
    }
    Op::dispatch(args.code, [&](auto f) {
#pragma unroll
      for (int g = 0; g < G; ++g)
#pragma unroll
        for (int i = 0; i < P; ++i) w[g].v[i] = decltype(f)::apply(x[g].v[i], y[g].v[i], z[g].v[i], args);
    });
#pragma unroll
    for (int g = 0; g < G; ++g)
      if (k + g < walk.count) to.store(w[g], k + g, walk.left - (k + g) * walk.left_step, map.strides[0][map.rank - 1]);
  }
}

}  // namespace gpukit
