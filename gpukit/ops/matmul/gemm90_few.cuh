// Few rows by many weights on sm_90a at the speed of memory. The weights are the rows of a tile, all rows of the other
// operand its columns. A tile has as many weights as makes the work of all multiprocessors the same: those are loaded,
// and whatever else of the 64 of a warpgroup lies in shared memory is multiplied and dropped. So are columns beyond the
// rows there are. All operands lie along K.
//
// One accumulator an element, K in ascending steps of 32 bytes: the bits are those of gemm90.cuh.
#pragma once
#include "gpukit/ops/matmul/gemm90_store.cuh"
#include "gpukit/ops/matmul/wgmma.cuh"

namespace gpukit {

/// A stage is kDepth slices of K. The first warpgroups multiply 64 weights each; the two warps after them load.
template <typename T, int Columns, int kDepth>
__global__ void __launch_bounds__(Gemm90Few::kMaxThreads, 1)
    gemm90_few(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, T* out, const T* weights,
               const __grid_constant__ Gemm90Space s, const __grid_constant__ Gemm90Few few) {
  constexpr int kLoaders = Gemm90Few::kLoaders, kSlice = Gemm90Few::kSlice, kRowBytes = Columns * 128;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int consumers = threads / 128, warp = thread / 32, lane = thread % 32, loader = warp - consumers * 4;
  const auto batch_of = [&](int tile) { return s.batches == 1 ? 0 : tile / few.tiles; };
  const auto row_of = [&](int tile, int batch) { return (tile - batch * few.tiles) * few.rows; };

  // A map takes the copy engine as long to fetch as the first weights take: these are asked for meanwhile.
  if (thread < few.rows && few.ahead > 0) {
    const int tile = static_cast<int>(blockIdx.x), batch = batch_of(tile), row = row_of(tile, batch) + thread;
    if (row < s.m)
      prefetch_bytes(weights + batch * few.batch + row * few.line, few.ahead * static_cast<int>(sizeof(T)));
  }

  const int weight_bytes = few.weight_bytes(), rows_at = kDepth * weight_bytes;  // of a slice; in a stage
  const int stage_bytes = kDepth * (weight_bytes + kRowBytes);
  extern __shared__ unsigned char shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t full = base + few.stages * stage_bytes, empty = full + few.stages * 8;
  if (loader == 0) {
    if (lane < few.stages) {
      barrier_init(full + lane * 8, 1);
      barrier_init(empty + lane * 8, consumers);
      barrier_publish();
    }
    __syncwarp();
    named_arrive(1, threads);  // and does not wait
  } else {
    named_barrier(1, threads);
  }

  const int tiles = few.tiles * s.batches;
  int stage = 0, phase = 0;
  const auto advance = [&](int by) {
    stage += by;
    if (stage >= few.stages) {
      stage -= few.stages;
      phase ^= 1;
    }
  };

  if (loader >= 0) {
    if (lane != 0) return;
    const uint64_t once = cache_policy_once();
    phase = 1;
    advance(loader);
    int i = loader;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x), i -= few.fills) {
      const int batch = batch_of(tile), row = row_of(tile, batch);
      for (; i < few.fills; i += kLoaders, advance(kLoaders)) {
        barrier_wait(empty + stage * 8, phase);
        const uint32_t ready = full + stage * 8, to = base + stage * stage_bytes;
        barrier_expect(ready, kDepth * (few.rows + s.n) * 128);
        const int k = i * kDepth * kSlice;
#pragma unroll
        for (int h = 0; h < kDepth; ++h)
          tile_load(to + h * weight_bytes, &a, ready, k + h * kSlice, row, batch * s.a_step, once);
#pragma unroll
        for (int h = 0; h < kDepth; ++h)
          tile_load(to + rows_at + h * kRowBytes, &b, ready, k + h * kSlice, 0, batch * s.b_step);
      }
    }
    return;
  }

  const int consumer = warp / 4;
  const bool releases = thread % 128 == 0;
  float d[Columns / 2];
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    int previous = 0;
    for (int i = 0; i < few.fills; ++i, advance(1)) {
      barrier_wait(full + stage * 8, phase);
      uint32_t x = base + stage * stage_bytes + consumer * 8192, y = base + stage * stage_bytes + rows_at;
      wgmma_fence();
#pragma unroll
      for (int h = 0; h < kDepth; ++h, x += weight_bytes, y += kRowBytes) {
#pragma unroll
        for (int q = 0; q < 4; ++q)
          Wgmma<T, Columns>::template run<0, 0>(d, tile_descriptor(x + q * 32, 16, 1024),
                                                tile_descriptor(y + q * 32, 16, 1024), i | h | q);
      }
      wgmma_commit();
      if (i > 0) {
        wgmma_wait<1>();
        if (releases) barrier_arrive(empty + previous * 8);
      }
      previous = stage;
    }
    wgmma_wait<0>();
    if (releases) barrier_arrive(empty + previous * 8);
    keep_sums(d);

    uint32_t pairs[Columns / 4];  // of weights, in column lane / 4 of eight
#pragma unroll
    for (int j = 0; j < Columns / 4; ++j) pairs[j] = turn_matrix(Pair<T>::of(d[2 * j], d[2 * j + 1]));
    const int batch = batch_of(tile), row = row_of(tile, batch);
    const int first = row + warp * 16 + lane % 4 * 2, end = min(row + few.rows, s.m);
    T* const to = out + batch * s.out_batch + first;
#pragma unroll
    for (int j = 0; j < Columns / 4; ++j) {
      const int column = j / 2 * 8 + lane / 4;
      if (column < s.n && first + j % 2 * 8 < end)
        *reinterpret_cast<uint32_t*>(to + column * s.out_n + j % 2 * 8) = pairs[j];
    }
  }
}

}  // namespace gpukit
