// Products on sm_90a. One block a multiprocessor walks over tiles of the output; threads of the first warpgroup keep
// the copy engine loading slices of K, the other warpgroups multiply and store 64 rows each while the next tile loads.
//
// One accumulator an element, K in ascending steps of 32 bytes: the bits of an element depend on its row and column
// alone, not on the tile, the grid or the neighbours. FP8 products are summed in slices (wgmma.cuh).
#pragma once
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm90_epilogue.cuh"

namespace gpukit {

/// All tiles of the output, and where each stands.
struct AllTiles {
  static constexpr bool kScattered = false;
  static constexpr int kBlocks = 1;  // of a cluster, which share the columns of b

  template <int Rows, int Columns>
  GPUKIT_DEVICE int count(const Gemm90Problem& s) const {
    return (s.m + Rows - 1) / Rows * ((s.n + Columns - 1) / Columns) * s.batches;
  }
  template <int Rows, int Columns>
  GPUKIT_DEVICE Gemm90At at(const Gemm90Problem& s, int tile) const {
    const int row_tiles = (s.m + Rows - 1) / Rows, column_tiles = (s.n + Columns - 1) / Columns;
    const int batch = tile / (row_tiles * column_tiles);
    tile -= batch * row_tiles * column_tiles;
    const int group = tile / (s.group * column_tiles), in_group = tile - group * s.group * column_tiles;
    const int rows = min(s.group, row_tiles - group * s.group);
    return {(group * s.group + in_group % rows) * Rows, in_group / rows * Columns, batch};
  }
};

/// The blocks of a cluster have tiles below each other: what they read of b is the same.
template <int kClusterBlocks>
struct ClusterTiles {
  static constexpr bool kScattered = false;
  static constexpr int kBlocks = kClusterBlocks;

  template <int Rows, int Columns>
  GPUKIT_DEVICE int count(const Gemm90Problem& s) const {
    return AllTiles{}.count<Rows * kBlocks, Columns>(s) * kBlocks;
  }
  template <int Rows, int Columns>
  GPUKIT_DEVICE Gemm90At at(const Gemm90Problem& s, int tile) const {
    Gemm90At first = AllTiles{}.at<Rows * kBlocks, Columns>(s, tile / kBlocks);
    first.row += tile % kBlocks * Rows;
    return first;
  }
};

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

/// The ring as a consumer sees it. A stage that a cluster fills together is released in all its blocks.
template <int Stages, int StageBytes, int kBlocks = 1>
struct Gemm90Slices {
  uint32_t base, full, empty;
  bool releases;
  Gemm90Ring<Stages> ring{0};

  /// Where the next slice lies, once it has arrived.
  GPUKIT_DEVICE uint32_t wait() const {
    barrier_wait(full + ring.stage * 8, ring.phase);
    return base + ring.stage * StageBytes;
  }
  GPUKIT_DEVICE void release(int stage) const {
    if (!releases) return;
    if constexpr (kBlocks == 1) {
      barrier_arrive(empty + stage * 8);
    } else {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) arrive_in_block(in_block(empty + stage * 8, block));
    }
  }
};

/// Boxes of another array that follow the slices of a tile through the ring: kCount stages, or none, of kBoxes boxes of
/// all its rows. A consumer adds those of 64 rows.
template <typename Slices, int Rows, int kBoxes, int kCount>
struct AddedTile {
  Slices from[kCount > 0 ? kCount : 1];
  int row;

  template <typename Out, int kBytes, typename V>
  GPUKIT_DEVICE void add(V* v, int box) const {
    if constexpr (kCount > 0) add_box<Out, kBytes>(v, from[box / kBoxes].wait() + (box % kBoxes * Rows + row) * kBytes);
  }
  /// The box has been read by all threads.
  GPUKIT_DEVICE void release(int box) const {
    if constexpr (kCount > 0) {
      const Slices& read = from[box / kBoxes];
      if (box % kBoxes == kBoxes - 1) read.release(read.ring.stage);
    }
  }
};

/// The two rows that a thread multiplies (PairedRows), of 64 transposed ones in TF32, at step q of a slice.
GPUKIT_DEVICE void take_rows(uint32_t (&a)[4], uint32_t from, int q) {
  const PairedRows rows;
  const uint32_t box = from + rows.box * 4096 + q * 1024 + rows.byte;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int line = static_cast<int>(threadIdx.x) % 4 + h * 4;
    load_shared(a[h * 2], a[h * 2 + 1], box + line * 128 + (rows.chunk ^ line) * 16);
  }
}

/// Slices as they are summed.
struct NoBlocks {
  template <int Columns>
  struct Scales {
    GPUKIT_DEVICE float add(float total, float sum, int) const { return total + sum; }
  };
  template <int Columns>
  GPUKIT_DEVICE void fetch(Scales<Columns>&, const Gemm90Problem&, const Gemm90At&, int) const {}
};

/// FP8 operands with one scale for 128 of k of each row of a, and for 128 columns and 128 of k of b. A slice is 128 of
/// k.
struct BlockScales {
  const float* a;  // [m, slices], rows `a_m` apart
  const float* b;  // [columns / 128, slices], rows `b_n` apart
  int64_t a_m, b_n;

  /// Those of one slice that a thread needs: its two rows, and every 64 columns of the tile.
  template <int Columns>
  struct Scales {
    float rows[2], columns[Columns / 64];
    GPUKIT_DEVICE float add(float total, float sum, int i) const {
      return __fmaf_rn(sum, rows[i / 2 % 2] * columns[i / 32], total);
    }
  };

  template <int Columns>
  GPUKIT_DEVICE void fetch(Scales<Columns>& scales, const Gemm90Problem& s, const Gemm90At& at, int i) const {
    const int thread = static_cast<int>(threadIdx.x) % 128, first = at.row + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) scales.rows[h] = a[min(first + h * 8, s.m - 1) * a_m + i];
#pragma unroll
    for (int c = 0; c < Columns / 64; ++c) scales.columns[c] = b[min(at.column + c * 64, s.n - 1) / 128 * b_n + i];
  }
};

/// Sums kLength slices from number `i` on, each from zero, and adds them to the totals. In a longer chain one slice is
/// multiplied while the sums of the one before are added up. It is straight code: the compiler does not follow sums
/// under way around a loop. `d`: room for the sums under way; `a` and `b`: where the operands lie in a stage; `next`:
/// the scales of slice i, in the end those of i + kLength.
template <int kLength, typename T, int Columns, int kSets, typename Slices, typename Blocks>
GPUKIT_DEVICE void add_slices(float (&total)[Columns / 2], Slices& slices, float (&d)[kSets][Columns / 2], int a, int b,
                              int i, int count, const Blocks& blocks, typename Blocks::template Scales<Columns>& next,
                              const Gemm90Problem& s, const Gemm90At& at) {
  const auto multiply = [&](float(&sums)[Columns / 2]) {
    const uint32_t stage = slices.wait();
    wgmma_fence();
#pragma unroll
    for (int q = 0; q < 4; ++q)
      Wgmma<T, Columns>::template run<0, 0>(sums, tile_descriptor(stage + a + q * 32, 16, 1024),
                                            tile_descriptor(stage + b + q * 32, 16, 1024), q);
    wgmma_commit();
  };
  multiply(d[0]);
#pragma unroll
  for (int u = 0; u < kLength; ++u) {
    const int stage = slices.ring.stage;
    slices.ring.next();
    const auto scales = next;
    if (u + 1 < kLength || i + u + 1 < count) blocks.fetch(next, s, at, i + u + 1);
    if (u + 1 < kLength) {
      multiply(d[(u + 1) % kSets]);
      wgmma_wait<1>();
    } else {
      wgmma_wait<0>();
    }
    slices.release(stage);
    keep_sums(d[u % kSets]);
#pragma unroll
    for (int j = 0; j < Columns / 2; ++j) total[j] = scales.add(total[j], d[u % kSets][j], j);
  }
}

/// The whole of a block's work. `kPair`: the columns of a tile are half those of b, half the same ones of `other`.
/// Where `finish` adds a tile, it is one of `other`.
template <typename T, typename Out, int Rows, int Columns, int TransposeA, int TransposeB, Gemm90Store kStore,
          bool kPair, typename F, typename Blocks = NoBlocks, typename Tiles = AllTiles>
GPUKIT_DEVICE void run_gemm90(const TileMap* a, const TileMap* b, const TileMap* other, const TileMap* out_map,
                              Out* out, const Gemm90Problem& s, const F& finish, const Blocks& blocks = {},
                              const Tiles& walk = {}) {
  constexpr int kOutColumns = kPair ? Columns / 2 : Columns;
  constexpr Gemm90Tile kTile{Rows, Columns, sizeof(T), sizeof(Out), kStore};
  constexpr int kStages = kTile.stages(), kConsumers = kTile.consumers(), kSlice = kTile.slice();
  constexpr int kStageBytes = kTile.a_bytes() + kTile.b_bytes(), kLoaders = 2;
  // Each block of a cluster loads its part of b for all of them.
  constexpr int kBlocks = Tiles::kBlocks, kPart = kOutColumns / kBlocks;
  static_assert(kBlocks == 1 || (TransposeB == 0 && kPart % 8 == 0), "parts are whole groups of the swizzle");
  // The unit reads TF32 along K alone: the rows of a transposed a are taken by the threads that multiply them.
  constexpr bool kTakesA = TransposeA != 0 && sizeof(T) == 4;
  constexpr int kReleases = kTakesA ? 4 : 1;             // arrivals of a consumer: one a warp where all of them read
  constexpr int kBoxBytes = kSlice * kTile.kSliceBytes;  // of a transposed operand, kSlice lanes by a slice
  // A tile that is added comes in boxes of all its rows, in as few stages as hold them.
  constexpr int kBoxes = kOutColumns * static_cast<int>(sizeof(Out)) / kTile.box_bytes();
  constexpr int kAddedBytes = Rows * kTile.box_bytes();
  constexpr int kAdded = F::kAdds ? (kBoxes - 1) / (kStageBytes / kAddedBytes) + 1 : 0;
  constexpr int kBoxesOfStage = F::kAdds ? kBoxes / kAdded : 1;
  static_assert(kStages >= 3 && kStages > kAdded, "too few stages");
  static_assert(!F::kAdds || (kAdded * kBoxesOfStage == kBoxes && !kPair), "as many boxes in every stage");
  static_assert(!kTakesA || kStore == Gemm90Store::transposed_tma, "rows in pairs leave by transposed boxes alone");
  extern __shared__ unsigned char shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t leaving = base + kStages * kStageBytes;
  const uint32_t full = leaving + kConsumers * kTile.store_bytes(), empty = full + kStages * 8;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;

  let_next_start();
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      barrier_init(full + i * 8, 1);
      barrier_init(empty + i * 8, kConsumers * kReleases * kBlocks);
    }
    barrier_publish();
    tile_prefetch(a);
    tile_prefetch(b);
    if (kPair || F::kAdds) tile_prefetch(other);
    if (kStore != Gemm90Store::elements) tile_prefetch(out_map);
  }
  if constexpr (kBlocks > 1) {
    meet_cluster();
    wait_cluster();
  } else {
    __syncthreads();
  }
  wait_for_previous();

  const int tiles = walk.template count<Rows, kOutColumns>(s);
  const int slices = (s.k + kSlice - 1) / kSlice, loads = slices + kAdded;

  if (warpgroup == 0) {
    if (kConsumers == 2) give_registers<40>();
    // Asking for a slice takes a thread as long as multiplying a small one: two of them take turns.
    const int loader = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 != 0 || loader >= kLoaders) return;
    Gemm90Ring<kStages> ring(1);
    ring.skip(loader);
    int i = loader;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x), i -= loads) {
      const Gemm90At at = walk.template at<Rows, kOutColumns>(s, tile);
      for (; i < loads; i += kLoaders, ring.skip(kLoaders)) {
        barrier_wait(empty + ring.stage * 8, ring.phase);
        const uint32_t ready = full + ring.stage * 8;
        const uint32_t to_a = base + ring.stage * kStageBytes, to_b = to_a + kTile.a_bytes();
        if (kAdded > 0 && i >= slices) {
          constexpr int kWidth = kTile.box_bytes() / static_cast<int>(sizeof(Out));
          barrier_expect(ready, kBoxesOfStage * kAddedBytes);
#pragma unroll
          for (int j = 0; j < kBoxesOfStage; ++j)
            tile_load(to_a + j * kAddedBytes, other, ready, at.column + ((i - slices) * kBoxesOfStage + j) * kWidth,
                      at.row, at.batch);
          continue;
        }
        barrier_expect(ready, kStageBytes);
        if (TransposeA == 0) {
          tile_load(to_a, a, ready, i * kSlice, at.row, at.batch * s.a_step);
        } else {
#pragma unroll
          for (int j = 0; j < Rows / kSlice; ++j)
            tile_load(to_a + j * kBoxBytes, a, ready, at.row + j * kSlice, i * kSlice, at.batch * s.a_step);
        }
        if constexpr (kBlocks > 1) {
          const int part = static_cast<int>(blockIdx.x) % kBlocks * kPart;
          constexpr uint16_t kAll = (1 << kBlocks) - 1;
          tile_load_multicast(to_b + part * 128, b, ready, i * kSlice, at.column + part, at.batch * s.b_step, kAll);
          if (kPair)
            tile_load_multicast(to_b + kTile.b_bytes() / 2 + part * 128, other, ready, i * kSlice, at.column + part,
                                at.batch * s.b_step, kAll);
        } else if (TransposeB == 0) {
          tile_load(to_b, b, ready, i * kSlice, at.column, at.batch * s.b_step);
          if (kPair) tile_load(to_b + kTile.b_bytes() / 2, other, ready, i * kSlice, at.column, at.batch * s.b_step);
        } else {
#pragma unroll
          for (int j = 0; j < kOutColumns / kSlice; ++j) {
            tile_load(to_b + j * kBoxBytes, b, ready, at.column + j * kSlice, i * kSlice, at.batch * s.b_step);
            if (kPair)
              tile_load(to_b + kTile.b_bytes() / 2 + j * kBoxBytes, other, ready, at.column + j * kSlice, i * kSlice,
                        at.batch * s.b_step);
          }
        }
      }
    }
    return;
  }

  if (kConsumers == 2) take_registers<232>();
  const int consumer = warpgroup - 1;
  const bool speaks = threadIdx.x % 128 == 0;
  using Slices = Gemm90Slices<kStages, kStageBytes, kBlocks>;
  Slices stages{base, full, empty, threadIdx.x % (128 / kReleases) == 0};
  Gemm90Ring<kStages>& ring = stages.ring;
  using Mma = Wgmma<T, Columns>;
  typename Mma::Sum d[Columns / 2];          // the totals, where slices are summed apart
  [[maybe_unused]] uint32_t taken[2][2][4];  // two steps of each half of a slice
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    auto at = walk.template at<Rows, kOutColumns>(s, tile);
    at.row += consumer * 64;
    int previous = 0, i = 0;
    if constexpr (kSumsInSlices<T>) {
#pragma unroll
      for (int j = 0; j < Columns / 2; ++j) d[j] = 0;
      // Two sets of sums and the totals take three quarters of the registers.
      constexpr int kChain = Columns <= 128 && !F::kBiased ? 4 : 1;
      typename Blocks::template Scales<Columns> scales;
      float sets[kChain > 1 ? 2 : 1][Columns / 2];
      blocks.fetch(scales, s, at, 0);
      for (; i + kChain <= slices; i += kChain)
        add_slices<kChain, T, Columns>(d, stages, sets, consumer * 8192, kTile.a_bytes(), i, slices, blocks, scales, s,
                                       at);
      for (; i < slices; ++i)
        add_slices<1, T, Columns>(d, stages, sets, consumer * 8192, kTile.a_bytes(), i, slices, blocks, scales, s, at);
    }
    for (; !kSumsInSlices<T> && i < slices; ++i, ring.next()) {
      const uint32_t from_a = stages.wait() + consumer * 8192;
      const uint32_t from_b = base + ring.stage * kStageBytes + kTile.a_bytes();
      if constexpr (kTakesA) {
        // One half of a slice is taken while the other is multiplied.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          wgmma_wait<1>();
          if (half == 1 && i > 0) stages.release(previous);
#pragma unroll
          for (int q = 0; q < 2; ++q) take_rows(taken[half][q], from_a, half * 2 + q);
          wgmma_fence();
#pragma unroll
          for (int q = 0; q < 2; ++q)
            WgmmaTaken<T, Columns>::run(d, taken[half][q], tile_descriptor(from_b + (half * 2 + q) * 32, 16, 1024),
                                        i | half | q);
          wgmma_commit();
        }
      } else {
        wgmma_fence();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
          // Along K: 32 bytes further in the row. Transposed: 16 rows of 128 bytes further.
          const uint64_t y = tile_descriptor(from_b + q * (TransposeB ? 2048 : 32), TransposeB ? 8192 : 16, 1024);
          const uint64_t x = tile_descriptor(from_a + q * (TransposeA ? 2048 : 32), 16, 1024);
          Mma::template run<TransposeA, TransposeB>(d, x, y, i | q);
        }
        wgmma_commit();
      }
      if (!kTakesA && i > 0) {
        wgmma_wait<1>();
        stages.release(previous);
      }
      previous = ring.stage;
    }
    AddedTile<Slices, Rows, kBoxesOfStage, kAdded> added;
    added.row = consumer * 64;
#pragma unroll
    for (int j = 0; j < kAdded; ++j, ring.next()) added.from[j] = stages;
    typename F::template Operands<kTile.box_bytes() / static_cast<int>(sizeof(Out))> operands;
    if (!kSumsInSlices<T>) finish.fetch(operands, at);
    if constexpr (!kSumsInSlices<T>) {
      wgmma_wait<0>();
      stages.release(previous);
    }
    keep_sums(d);
    if (kSumsInSlices<T>) finish.fetch(operands, at);
    if constexpr (kPair) {
#pragma unroll
      for (int j = 0; j < kOutColumns / 2; ++j) d[j] = silu_short(d[j]) * d[j + kOutColumns / 2];
    }
    const uint32_t buffers = leaving + consumer * kTile.store_bytes();
    if constexpr (Tiles::kScattered) {
      walk.template store<Out, kOutColumns, kStore>(out, buffers, d, 1 + consumer, s, at, finish, operands);
    } else if constexpr (kStore == Gemm90Store::tma) {
      store_by_tma<Out, kOutColumns, kTile.box_bytes()>(out_map, buffers, d, 1 + consumer, at, finish, operands, added);
    } else if constexpr (kStore == Gemm90Store::transposed_tma) {
      store_transposed<Out, kOutColumns, kTile.transposed_columns(), kTakesA>(out_map, buffers, d, 1 + consumer, at);
    } else {
      store_elements<Out, kOutColumns>(out + at.batch * s.out_batch, d, s, at);
    }
  }
  if (speaks) store_wait();
  if constexpr (kBlocks > 1) {  // others arrive at this block's barriers until they are done
    meet_cluster();
    wait_cluster();
  }
}

template <typename T, typename Out, int Rows, int Columns, int TransposeA, int TransposeB, Gemm90Store kStore>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
           const __grid_constant__ TileMap out_map, Out* out, const __grid_constant__ Gemm90Problem s) {
  run_gemm90<T, Out, Rows, Columns, TransposeA, TransposeB, kStore, false>(&a, &b, &b, &out_map, out, s, NoFinish{});
}

/// The same in clusters.
template <typename T, typename Out, int Rows, int Columns, Gemm90Store kStore, int kBlocks>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1) GPUKIT_CLUSTER(kBlocks)
    gemm90_cluster(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
                   const __grid_constant__ TileMap out_map, Out* out, const __grid_constant__ Gemm90Problem s) {
  run_gemm90<T, Out, Rows, Columns, 0, 0, kStore, false>(&a, &b, &b, &out_map, out, s, NoFinish{}, NoBlocks{},
                                                         ClusterTiles<kBlocks>{});
}

/// With an epilogue.
template <typename T, typename Out, int Rows, int Columns, int Steps>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90_fused(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
                 const __grid_constant__ TileMap out_map, Out* out, const __grid_constant__ Gemm90Problem s,
                 const __grid_constant__ Gemm90Epilogue e, const Out* bias, const float* scale_m,
                 const float* scale_n) {
  run_gemm90<T, Out, Rows, Columns, 0, 0, Gemm90Store::tma, false>(&a, &b, &b, &out_map, out, s,
                                                                   Finish<Out, Steps>{s, e, bias, scale_m, scale_n});
}

/// A layer: with a bias, an activation, and `residual`, which is not read where `Steps` does without.
template <typename T, int Rows, int Columns, int Steps>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90_linear(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
                  const __grid_constant__ TileMap residual, const __grid_constant__ TileMap out_map, T* out,
                  const __grid_constant__ Gemm90Problem s, const __grid_constant__ Gemm90Epilogue e, const T* bias) {
  run_gemm90<T, T, Rows, Columns, 0, 0, Gemm90Store::tma, false>(&a, &b, &residual, &out_map, out, s,
                                                                 Finish<T, Steps>{s, e, bias, nullptr, nullptr});
}

/// silu(a x b) times (a x other).
template <typename T, typename Out, int Rows, int Columns, int TransposeB>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90_swiglu(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
                  const __grid_constant__ TileMap other, const __grid_constant__ TileMap out_map, Out* out,
                  const __grid_constant__ Gemm90Problem s) {
  run_gemm90<T, Out, Rows, Columns, 0, TransposeB, Gemm90Store::tma, true>(&a, &b, &other, &out_map, out, s,
                                                                           NoFinish{});
}

/// FP8 operands with scales of blocks.
template <typename T, typename Out, int Rows, int Columns>
__global__ void __launch_bounds__(128 * (Rows / 64 + 1), 1)
    gemm90_blocks(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b,
                  const __grid_constant__ TileMap out_map, Out* out, const __grid_constant__ Gemm90Problem s,
                  const float* scale_a, const float* scale_b, int64_t scale_a_m, int64_t scale_b_n) {
  run_gemm90<T, Out, Rows, Columns, 0, 0, Gemm90Store::tma, false>(&a, &b, &b, &out_map, out, s, NoFinish{},
                                                                   BlockScales{scale_a, scale_b, scale_a_m, scale_b_n});
}

}  // namespace gpukit
