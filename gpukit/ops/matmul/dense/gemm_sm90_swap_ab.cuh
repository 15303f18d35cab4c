// Few rows by many weights on sm_90a at the speed of memory. The weights are the rows of a tile, all rows of the other
// operand its columns. A tile has as many weights as makes the work of all multiprocessors the same: those are loaded,
// and whatever else of the 64 of a warpgroup lies in shared memory is multiplied and dropped. So are columns beyond the
// rows there are. Where that would be half of the work, warps multiply 16 weights each instead, which takes less power.
// All operands lie along K.
//
// One accumulator an element, K in ascending steps of 32 bytes, float8 in sums of 128 of K: the bits are those of
// gemm_sm90.cuh.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/hopper/wgmma.cuh"
#include "gpukit/ops/matmul/dense/gemm_sm90_epilogue.cuh"
#include "gpukit/ops/matmul/dense/linear_end.cuh"

namespace gpukit {

/// Sums as they are. A thread has those of weights `first` and first + 8, and of two neighbouring columns of every
/// eight.
struct SwapABSums {
  /// What a tile needs at its end, asked for at its start.
  template <int Columns>
  struct Operands {};
  /// What the sum of 128 of K needs before it is added.
  template <int Columns>
  struct Slice {
    GPUKIT_DEVICE float add(float total, float sum, int) const { return total + sum; }
  };

  template <int Columns>
  GPUKIT_DEVICE void fetch(Operands<Columns>&, const Gemm90Problem&, int) const {}
  template <int Columns>
  GPUKIT_DEVICE void fetch(Slice<Columns>&, const Gemm90Problem&, int, int) const {}
  template <int Columns>
  GPUKIT_DEVICE void apply(float (&)[Columns / 2], const Operands<Columns>&) const {}
};

/// Column c of the Columns / 4 of a thread.
GPUKIT_DEVICE int swap_ab_column(int c) { return c / 2 * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + c % 2; }

/// Scales of the tensor or of rows, then a bias: those of Finish in its order, but scale_m is that of a column of the
/// tile, scale_n and the bias those of a weight. 1 and -0 take the place of what is missing: they change nothing.
template <typename Out>
struct SwapABScales : SwapABSums {
  template <int Columns>
  struct Operands {
    float columns[Columns / 4], weights[2], all;
    Out bias[2];
  };
  const Gemm90Epilogue& e;
  const Out* bias;
  const float* scale_m;
  const float* scale_n;

  GPUKIT_DEVICE SwapABScales(const Gemm90Epilogue& e, const Out* bias, const float* scale_m, const float* scale_n)
      : e(e), bias(bias), scale_m(scale_m), scale_n(scale_n) {}

  using SwapABSums::fetch;
  template <int Columns>
  GPUKIT_DEVICE void fetch(Operands<Columns>& o, const Gemm90Problem& s, int first) const {
    const bool by_weight = scale_n != nullptr && e.scale_n != 0;
    o.all = scale_n != nullptr && !by_weight ? scale_n[0] : 1.0f;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int weight = min(first + h * 8, s.m - 1);
      o.weights[h] = by_weight ? scale_n[weight] : 1.0f;
      o.bias[h] = bias != nullptr ? bias[weight] : store<Out>(-0.0f);
    }
#pragma unroll
    for (int c = 0; c < Columns / 4; ++c)
      o.columns[c] = scale_m != nullptr ? scale_m[min(swap_ab_column(c), s.n - 1) * e.scale_m] : 1.0f;
  }
  template <int Columns>
  GPUKIT_DEVICE void apply(float (&d)[Columns / 2], const Operands<Columns>& o) const {
#pragma unroll
    for (int j = 0; j < Columns / 2; ++j) {
      const int h = j / 2 % 2;
      d[j] = d[j] * (e.alpha * o.columns[j / 4 * 2 + j % 2] * o.all) * o.weights[h] + load(o.bias[h]);
    }
  }
};

/// One scale for 128 of K of each column of the tile, and one for 128 weights and 128 of K: BlockScales, transposed.
struct SwapABBlocks : SwapABSums {
  const float* a;  // [columns, slices], rows `a_m` apart
  const float* b;  // [weights / 128, slices], rows `b_n` apart
  int64_t a_m, b_n;

  GPUKIT_DEVICE SwapABBlocks(const float* a, const float* b, int64_t a_m, int64_t b_n)
      : a(a), b(b), a_m(a_m), b_n(b_n) {}

  template <int Columns>
  struct Slice {
    float columns[Columns / 4], weights[2];
    GPUKIT_DEVICE float add(float total, float sum, int j) const {
      return __fmaf_rn(sum, columns[j / 4 * 2 + j % 2] * weights[j / 2 % 2], total);
    }
  };

  using SwapABSums::fetch;
  /// Past the end of K sums are 0, and -0 times that is what changes no total, be it -0.
  template <int Columns>
  GPUKIT_DEVICE void fetch(Slice<Columns>& slice, const Gemm90Problem& s, int first, int i) const {
    const bool inside = i * 128 < s.k;
#pragma unroll
    for (int h = 0; h < 2; ++h) slice.weights[h] = inside ? b[min(first + h * 8, s.m - 1) / 128 * b_n + i] : -0.0f;
#pragma unroll
    for (int c = 0; c < Columns / 4; ++c)
      slice.columns[c] = inside ? a[min(swap_ab_column(c), s.n - 1) * a_m + i] : 1.0f;
  }
};

/// The steps of a layer.
template <typename T>
struct SwapABLinear : SwapABSums {
  template <int Columns>
  struct Operands {
    T bias[2], residual[Columns / 2];
  };
  const LinearSteps& e;
  const T* bias;
  const T* residual;

  GPUKIT_DEVICE SwapABLinear(const LinearSteps& e, const T* bias, const T* residual)
      : e(e), bias(bias), residual(residual) {}

  using SwapABSums::fetch;
  template <int Columns>
  GPUKIT_DEVICE void fetch(Operands<Columns>& o, const Gemm90Problem& s, int first) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) o.bias[h] = bias != nullptr ? bias[min(first + h * 8, s.m - 1)] : store<T>(-0.0f);
#pragma unroll
    for (int j = 0; j < Columns / 2; ++j) {
      const int weight = min(first + j / 2 % 2 * 8, s.m - 1), column = min(swap_ab_column(j / 4 * 2 + j % 2), s.n - 1);
      o.residual[j] = residual != nullptr ? residual[column * e.residual_m + weight] : store<T>(-0.0f);
    }
  }
  template <int Columns>
  GPUKIT_DEVICE void apply(float (&d)[Columns / 2], const Operands<Columns>& o) const {
#pragma unroll
    for (int j = 0; j < Columns / 2; ++j) d[j] = end_layer(d[j], e, load(o.bias[j / 2 % 2]), load(o.residual[j]));
  }
};

/// The sums of a thread's weights up to `end`, from `row` on its warp's.
template <typename Out, int Columns>
GPUKIT_DEVICE void store_swap_ab(Out* out, const float (&d)[Columns / 2], const Gemm90Problem& s, int row, int end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (sizeof(Out) == 2) {
    uint32_t pairs[Columns / 4];  // of weights, in column lane / 4 of eight
#pragma unroll
    for (int j = 0; j < Columns / 4; ++j) pairs[j] = turn_matrix(Pair<Out>::of(d[2 * j], d[2 * j + 1]));
    const int first = row + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < Columns / 4; ++j) {
      const int column = j / 2 * 8 + lane / 4;
      if (column < s.n && first + j % 2 * 8 < end)
        *reinterpret_cast<uint32_t*>(out + first + column * s.out_n + j % 2 * 8) = pairs[j];
    }
  } else {
    const int first = row + lane / 4;
#pragma unroll
    for (int j = 0; j < Columns / 2; ++j) {
      const int column = swap_ab_column(j / 4 * 2 + j % 2), weight = first + j / 2 % 2 * 8;
      if (column < s.n && weight < end) out[column * s.out_n + weight] = d[j];
    }
  }
}

/// A slice of 16-bit numbers as mma takes it, of 16 weights by all columns: four steps of 16 of K.
template <int Columns>
struct SwapABSlice {
  uint32_t weights[4][4], columns[4][Columns / 16][4];

  /// `x` and `y`: row 0 of both in a slice; rows are 128 swizzled bytes.
  GPUKIT_DEVICE void load(uint32_t x, uint32_t y) {
    const int lane = static_cast<int>(threadIdx.x) % 32, by = lane % 8;
    const uint32_t weight = x + lane % 16 * 128, column = y + (lane / 16 * 8 + by) * 128;
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      load_matrices(weights[q], weight + ((q * 2 + lane / 16) ^ by) * 16);
#pragma unroll
      for (int j = 0; j < Columns / 16; ++j)
        load_matrices(columns[q][j], column + j * 16 * 128 + ((q * 2 + lane / 8 % 2) ^ by) * 16);
    }
  }

  /// Adds the products to the sums, which lie as those of wgmma.
  template <typename T>
  GPUKIT_DEVICE void add(float (&d)[Columns / 2]) const {
#pragma unroll
    for (int q = 0; q < 4; ++q)
#pragma unroll
      for (int j = 0; j < Columns / 8; ++j) {
        const uint32_t(&pair)[4] = columns[q][j / 2];
        Mma<T>::add(*reinterpret_cast<float(*)[4]>(d + j * 4), weights[q], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
      }
  }
};

/// The whole of a block's work. A stage is kDepth slices of K. The first warpgroups multiply 64 weights each; the two
/// warps after them load. kByWarps: a tile has at most 32 weights, and one or two warps instead multiply 16 each.
template <typename T, typename Out, int Columns, int kDepth, bool kByWarps, typename F>
GPUKIT_DEVICE void run_gemm90_swap_ab(const TileMap* a, const TileMap* b, Out* out, const T* weights,
                                      const Gemm90Problem& s, const Gemm90SwapAB& swap_ab, const F& finish) {
  constexpr int kLoaders = Gemm90SwapAB::kLoaders, kSlice = Gemm90SwapAB::slice(sizeof(T)), kRowBytes = Columns * 128;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32, loader = warp - (threads / 32 - kLoaders);
  const int consumers = kByWarps ? threads / 32 - kLoaders : threads / 128;  // warps or warpgroups
  const auto batch_of = [&](int tile) { return s.batches == 1 ? 0 : tile / swap_ab.tiles; };
  const auto row_of = [&](int tile, int batch) { return (tile - batch * swap_ab.tiles) * swap_ab.rows; };

  let_next_start();
  // A map takes the copy engine as long to fetch as the first weights take: these are asked for meanwhile.
  if (thread < swap_ab.rows && swap_ab.ahead > 0) {
    const int tile = static_cast<int>(blockIdx.x), batch = batch_of(tile), row = row_of(tile, batch) + thread;
    if (row < s.m) prefetch_bytes(weights + batch * swap_ab.batch + row * swap_ab.line, swap_ab.ahead);
  }

  const int weight_bytes = swap_ab.weight_bytes(), rows_at = kDepth * weight_bytes;  // of a slice; in a stage
  const int stage_bytes = kDepth * (weight_bytes + kRowBytes);
  extern __shared__ unsigned char shared[];
  const uint32_t base = (shared_address(shared) + 1023) & ~1023u;
  const uint32_t full = base + swap_ab.stages * stage_bytes, empty = full + swap_ab.stages * 8;
  if (loader == 0) {
    if (lane < swap_ab.stages) {
      barrier_init(full + lane * 8, 1);
      barrier_init(empty + lane * 8, consumers);
      barrier_publish();
    }
    if (lane == 0) tile_prefetch(a), tile_prefetch(b);
    __syncwarp();
    named_arrive(1, threads);  // and does not wait
  } else {
    named_barrier(1, threads);
  }
  wait_for_previous();

  const int tiles = swap_ab.tiles * s.batches;
  int stage = 0, phase = 0;
  const auto advance = [&](int by) {
    stage += by;
    if (stage >= swap_ab.stages) {
      stage -= swap_ab.stages;
      phase ^= 1;
    }
  };

  if (loader >= 0) {
    if (lane != 0) return;
    const uint64_t once = cache_policy_once();
    phase = 1;
    advance(loader);
    int i = loader;
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles;
         tile += static_cast<int>(gridDim.x), i -= swap_ab.fills) {
      const int batch = batch_of(tile), row = row_of(tile, batch);
      for (; i < swap_ab.fills; i += kLoaders, advance(kLoaders)) {
        barrier_wait(empty + stage * 8, phase);
        const uint32_t ready = full + stage * 8, to = base + stage * stage_bytes;
        barrier_expect(ready, kDepth * (swap_ab.rows + s.n) * 128);
        const int k = i * kDepth * kSlice;
#pragma unroll
        for (int h = 0; h < kDepth; ++h)
          tile_load(to + h * weight_bytes, a, ready, k + h * kSlice, row, batch * s.a_step, once);
#pragma unroll
        for (int h = 0; h < kDepth; ++h)
          tile_load(to + rows_at + h * kRowBytes, b, ready, k + h * kSlice, 0, batch * s.b_step);
      }
    }
    return;
  }

  if constexpr (kByWarps) {
    for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
      const int batch = batch_of(tile), row = row_of(tile, batch);
      typename F::template Operands<Columns> operands;
      finish.fetch(operands, s, row + warp * 16 + lane / 4);
      float d[Columns / 2] = {};
      for (int i = 0; i < swap_ab.fills; ++i, advance(1)) {
        barrier_wait(full + stage * 8, phase);
        const uint32_t x = base + stage * stage_bytes + warp * 16 * 128, y = base + stage * stage_bytes + rows_at;
        SwapABSlice<Columns> slices[2];  // one is loaded while the other is multiplied
        slices[0].load(x, y);
#pragma unroll
        for (int h = 0; h < kDepth; ++h) {
          if (h + 1 < kDepth) slices[(h + 1) % 2].load(x + (h + 1) * weight_bytes, y + (h + 1) * kRowBytes);
          slices[h % 2].template add<T>(d);
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + stage * 8);
      }
      finish.apply(d, operands);
      store_swap_ab<Out, Columns>(out + batch * s.out_batch, d, s, row + warp * 16, min(row + swap_ab.rows, s.m));
    }
    return;
  }

  const int consumer = warp / 4;
  const bool releases = thread % 128 == 0;
  float d[Columns / 2];  // the totals, where slices are summed apart
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    const int batch = batch_of(tile), row = row_of(tile, batch), of_warp = row + warp * 16, first = of_warp + lane / 4;
    typename F::template Operands<Columns> operands;
    finish.fetch(operands, s, first);
    if constexpr (kSumsInSlices<T>) {
#pragma unroll
      for (int j = 0; j < Columns / 2; ++j) d[j] = 0;
      // One slice is multiplied while the sums of the one before are added up; straight code, as in gemm_sm90.cuh.
      float sums[2][Columns / 2];
      typename F::template Slice<Columns> slices[kDepth], next[kDepth];
#pragma unroll
      for (int h = 0; h < kDepth; ++h) finish.fetch(next[h], s, first, h);
      for (int i = 0; i < swap_ab.fills; ++i, advance(1)) {
        barrier_wait(full + stage * 8, phase);
        const uint32_t x = base + stage * stage_bytes + consumer * 8192, y = base + stage * stage_bytes + rows_at;
        const auto multiply = [&](float(&to)[Columns / 2], int h) {
          wgmma_fence();
#pragma unroll
          for (int q = 0; q < 4; ++q)
            Wgmma<T, Columns>::template run<0, 0>(to, tile_descriptor(x + h * weight_bytes + q * 32, 16, 1024),
                                                  tile_descriptor(y + h * kRowBytes + q * 32, 16, 1024), q);
          wgmma_commit();
        };
        multiply(sums[0], 0);
#pragma unroll
        for (int h = 0; h < kDepth; ++h) {
          slices[h] = next[h];
          finish.fetch(next[h], s, first, (i + 1) * kDepth + h);
        }
#pragma unroll
        for (int h = 0; h < kDepth; ++h) {
          if (h + 1 < kDepth) {
            multiply(sums[(h + 1) % 2], h + 1);
            wgmma_wait<1>();
          } else {
            wgmma_wait<0>();
            if (releases) barrier_arrive(empty + stage * 8);
          }
          keep_sums(sums[h % 2]);
#pragma unroll
          for (int j = 0; j < Columns / 2; ++j) d[j] = slices[h].add(d[j], sums[h % 2][j], j);
        }
      }
    } else {
      int previous = 0;
      for (int i = 0; i < swap_ab.fills; ++i, advance(1)) {
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
    }
    finish.apply(d, operands);
    store_swap_ab<Out, Columns>(out + batch * s.out_batch, d, s, of_warp, min(row + swap_ab.rows, s.m));
  }
}

template <typename T, typename Out, int Columns, int kDepth, bool kByWarps>
__global__ void __launch_bounds__(Gemm90SwapAB::kMaxThreads, 1)
    gemm90_swap_ab(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, Out* out, const T* weights,
                   const __grid_constant__ Gemm90Problem s, const __grid_constant__ Gemm90SwapAB swap_ab) {
  run_gemm90_swap_ab<T, Out, Columns, kDepth, kByWarps>(&a, &b, out, weights, s, swap_ab, SwapABSums{});
}

/// A layer.
template <typename T, int Columns, int kDepth, bool kByWarps>
__global__ void __launch_bounds__(Gemm90SwapAB::kMaxThreads, 1)
    gemm90_swap_ab_linear(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, T* out,
                          const T* weights, const __grid_constant__ Gemm90Problem s,
                          const __grid_constant__ Gemm90SwapAB swap_ab, const T* bias, const T* residual,
                          const __grid_constant__ LinearSteps e) {
  run_gemm90_swap_ab<T, T, Columns, kDepth, kByWarps>(&a, &b, out, weights, s, swap_ab,
                                                      SwapABLinear<T>(e, bias, residual));
}

/// FP8 operands, stages of kDeep slices, with scales of the tensor or of rows, and a bias.
template <typename T, typename Out, int Columns>
__global__ void __launch_bounds__(Gemm90SwapAB::kMaxThreads, 1)
    gemm90_swap_ab_scaled(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, Out* out,
                          const T* weights, const __grid_constant__ Gemm90Problem s,
                          const __grid_constant__ Gemm90SwapAB swap_ab, const __grid_constant__ Gemm90Epilogue e,
                          const Out* bias, const float* scale_m, const float* scale_n) {
  run_gemm90_swap_ab<T, Out, Columns, Gemm90SwapAB::kDeep, false>(&a, &b, out, weights, s, swap_ab,
                                                                  SwapABScales<Out>(e, bias, scale_m, scale_n));
}

/// The same with scales of blocks: scale_a and scale_b are those of the rows and of the weights.
template <typename T, typename Out, int Columns>
__global__ void __launch_bounds__(Gemm90SwapAB::kMaxThreads, 1)
    gemm90_swap_ab_blocks(const __grid_constant__ TileMap a, const __grid_constant__ TileMap b, Out* out,
                          const T* weights, const __grid_constant__ Gemm90Problem s,
                          const __grid_constant__ Gemm90SwapAB swap_ab, const float* scale_a, const float* scale_b,
                          int64_t scale_a_m, int64_t scale_b_n) {
  run_gemm90_swap_ab<T, Out, Columns, Gemm90SwapAB::kDeep, false>(&a, &b, out, weights, s, swap_ab,
                                                                  SwapABBlocks(scale_a, scale_b, scale_a_m, scale_b_n));
}

}  // namespace gpukit
