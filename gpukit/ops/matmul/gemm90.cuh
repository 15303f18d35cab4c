// Products on sm_90a. One block a multiprocessor walks over tiles of the output; one thread of the first warpgroup
// keeps the copy engine loading slices of K, the other warpgroups multiply and store 64 rows each while the next tile
// loads.
//
// One accumulator an element, K in ascending steps of 32 bytes: the bits of an element depend on its row and column
// alone, not on the tile, the grid or the neighbours.
#pragma once
#include "gpukit/ops/matmul/gemm90_space.cuh"
#include "gpukit/ops/matmul/hopper.cuh"
#include "gpukit/ops/matmul/wgmma.cuh"

namespace gpukit {

GPUKIT_DEVICE uint32_t pack_pair(half*, float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
GPUKIT_DEVICE uint32_t pack_pair(bfloat16*, float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Where tile number `tile` stands.
struct Gemm90At {
  int row, column, batch;
};

template <int Rows, int Columns>
GPUKIT_DEVICE Gemm90At tile_at(const Gemm90Space& s, int tile) {
  const int row_tiles = (s.m + Rows - 1) / Rows, column_tiles = (s.n + Columns - 1) / Columns;
  const int batch = tile / (row_tiles * column_tiles);
  tile -= batch * row_tiles * column_tiles;
  const int group = tile / (s.group * column_tiles), in_group = tile - group * s.group * column_tiles;
  const int rows = min(s.group, row_tiles - group * s.group);
  return {(group * s.group + in_group % rows) * Rows, in_group / rows * Columns, batch};
}

/// The stage after this one; the phase turns when the ring starts over.
template <int Stages>
struct Gemm90Ring {
  int stage = 0, phase;
  GPUKIT_DEVICE explicit Gemm90Ring(int first_phase) : phase(first_phase) {}
  GPUKIT_DEVICE void next() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  GPUKIT_DEVICE void skip(int count) {
    const int reached = stage + count;
    stage = reached % Stages;
    phase ^= reached / Stages & 1;
  }
};

/// The 64 x N sums of one warpgroup to memory. `row` and `column` are the first of them.
template <typename Out, typename Sum, int N>
GPUKIT_DEVICE void store_elements(Out* out, const Sum (&d)[N / 2], const Gemm90Space& s, int row, int column) {
  const int warp = static_cast<int>(threadIdx.x) % 128 / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = row + warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < N / 8; ++j) {
    const int c = column + j * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = first + i / 2 * 8;
      if (r < s.m && c + i % 2 < s.n) out[r * s.out_m + (c + i % 2) * s.out_n] = store<Out>(d[j * 4 + i]);
    }
  }
}

/// The same by boxes of `kBox` columns through two buffers in turns. Called by a whole warpgroup; `barrier` is its own.
template <typename Out, int N, int kBox>
GPUKIT_DEVICE void store_boxes(const TileMap* map, uint32_t buffers, const float (&d)[N / 2], int barrier,
                               const Gemm90At& at) {
  constexpr int kPitch = kBox * 2;
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  const int row = warp * 16 + lane % 16;
  const int swizzle = kBox == 64 ? row & 7 : kBox == 32 ? row >> 1 & 3 : row >> 2 & 1;
#pragma unroll
  for (int box = 0; box < N / kBox; ++box) {
    const uint32_t buffer = buffers + (box & 1) * 64 * kPitch;
    if (thread == 0) store_wait_read<1>();
    named_barrier(barrier, 128);
#pragma unroll
    for (int h = 0; h < kBox / 16; ++h) {
      const float* v = &d[box * kBox / 2 + h * 8];
      constexpr Out* kOut = nullptr;
      store_matrices(buffer + row * kPitch + ((h * 2 + lane / 16) ^ swizzle) * 16, pack_pair(kOut, v[0], v[1]),
                     pack_pair(kOut, v[2], v[3]), pack_pair(kOut, v[4], v[5]), pack_pair(kOut, v[6], v[7]));
    }
    shared_publish();
    named_barrier(barrier, 128);
    if (thread == 0) {
      tile_store(map, buffer, at.column + box * kBox, at.row, at.batch);
      store_commit();
    }
  }
}

/// The same with rows dense in memory: one box of 64 rows by N columns.
template <typename Out, int N>
GPUKIT_DEVICE void store_turned(const TileMap* map, uint32_t buffer, const float (&d)[N / 2], int barrier,
                                const Gemm90At& at) {
  const int thread = static_cast<int>(threadIdx.x) % 128, warp = thread / 32, lane = thread % 32;
  if (thread == 0) store_wait_read<0>();
  named_barrier(barrier, 128);
#pragma unroll
  for (int h = 0; h < N / 16; ++h) {
    const int column = h * 16 + lane / 16 * 8 + lane % 8, chunk = warp * 2 + lane / 8 % 2;
    const float* v = &d[h * 8];
    constexpr Out* kOut = nullptr;
    store_matrices_transposed(buffer + column * 128 + (chunk ^ lane % 8) * 16, pack_pair(kOut, v[0], v[1]),
                              pack_pair(kOut, v[2], v[3]), pack_pair(kOut, v[4], v[5]), pack_pair(kOut, v[6], v[7]));
  }
  shared_publish();
  named_barrier(barrier, 128);
  if (thread == 0) {
    tile_store(map, buffer, at.row, at.column, at.batch);
    store_commit();
  }
}

template <typename T, typename Out, int Rows, int Columns, int TurnA, int TurnB, Gemm90Store kStore>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, const __grid_constant__ TileMap boxes,
           Out* out, const __grid_constant__ Gemm90Space s) {
  constexpr Gemm90Tile kTile{Rows, Columns, sizeof(T), kStore};
  constexpr int kStages = kTile.stages(), kConsumers = kTile.consumers(), kSlice = kTile.slice();
  constexpr int kStageBytes = kTile.a_bytes() + kTile.b_bytes();
  constexpr int kLoaders = 2;
  static_assert(kStages >= 3, "too few stages");
  extern __shared__ unsigned char shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t leaving = base + kStages * kStageBytes;
  const uint32_t full = leaving + kConsumers * kTile.store_bytes(), empty = full + kStages * 8;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;

  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, kConsumers);
    }
    barrier_publish();
    tile_prefetch(&a);
    tile_prefetch(&b);
    if (kStore != Gemm90Store::elements) tile_prefetch(&boxes);
  }
  __syncthreads();

  const int tiles = (s.m + Rows - 1) / Rows * ((s.n + Columns - 1) / Columns) * s.batches;
  const int slices = (s.k + kSlice - 1) / kSlice;

  if (warpgroup == 0) {
    if (kConsumers == 2) give_registers<40>();
    // Asking for a slice takes a thread as long as multiplying a small one: two of them take turns.
    const int loader = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 != 0 || loader >= kLoaders) return;
    Gemm90Ring<kStages> ring(1);
    ring.skip(loader);
    int i = loader;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x), i -= slices) {
      const Gemm90At at = tile_at<Rows, Columns>(s, tile);
      for (; i < slices; i += kLoaders, ring.skip(kLoaders)) {
        barrier_wait(empty + ring.stage * 8, ring.phase);
        const uint32_t ready = full + ring.stage * 8;
        barrier_expect(ready, kStageBytes);
        const uint32_t to_a = base + ring.stage * kStageBytes, to_b = to_a + kTile.a_bytes();
        if (TurnA == 0) {
          tile_load(to_a, &a, ready, i * kSlice, at.row, at.batch * s.a_step);
        } else {
#pragma unroll
          for (int j = 0; j < Rows / 64; ++j)
            tile_load(to_a + j * 8192, &a, ready, at.row + j * 64, i * kSlice, at.batch * s.a_step);
        }
        if (TurnB == 0) {
          tile_load(to_b, &b, ready, i * kSlice, at.column, at.batch * s.b_step);
        } else {
#pragma unroll
          for (int j = 0; j < Columns / 64; ++j)
            tile_load(to_b + j * 8192, &b, ready, at.column + j * 64, i * kSlice, at.batch * s.b_step);
        }
      }
    }
    return;
  }

  if (kConsumers == 2) take_registers<232>();
  const int consumer = warpgroup - 1;
  const bool speaks = threadIdx.x % 128 == 0;
  Gemm90Ring<kStages> ring(0);
  using Mma = Wgmma<T, Columns>;
  typename Mma::Sum d[Columns / 2];
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    Gemm90At at = tile_at<Rows, Columns>(s, tile);
    at.row += consumer * 64;
    int previous = 0;
    for (int i = 0; i < slices; ++i, ring.next()) {
      barrier_wait(full + ring.stage * 8, ring.phase);
      const uint32_t from_a = base + ring.stage * kStageBytes + consumer * 8192;
      const uint32_t from_b = base + ring.stage * kStageBytes + kTile.a_bytes();
      wgmma_fence();
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // Along K: 32 bytes further in the row. Turned: 16 rows of 128 bytes further.
        const uint64_t x = tile_descriptor(from_a + q * (TurnA ? 2048 : 32), 16, 1024);
        const uint64_t y = tile_descriptor(from_b + q * (TurnB ? 2048 : 32), TurnB ? 8192 : 16, 1024);
        Mma::template run<TurnA, TurnB>(d, x, y, i | q);
      }
      wgmma_commit();
      if (i > 0) {
        wgmma_wait<1>();
        if (speaks) barrier_arrive(empty + previous * 8);
      }
      previous = ring.stage;
    }
    wgmma_wait<0>();
    if (speaks) barrier_arrive(empty + previous * 8);

    const uint32_t buffers = leaving + consumer * kTile.store_bytes();
    if constexpr (kStore == Gemm90Store::boxes) {
      store_boxes<Out, Columns, kTile.box_columns()>(&boxes, buffers, d, 1 + consumer, at);
    } else if constexpr (kStore == Gemm90Store::turned_boxes) {
      store_turned<Out, Columns>(&boxes, buffers, d, 1 + consumer, at);
    } else {
      store_elements<Out, typename Mma::Sum, Columns>(out + at.batch * s.out_batch, d, s, at.row, at.column);
    }
  }
  if (speaks) store_wait();
}

}  // namespace gpukit
