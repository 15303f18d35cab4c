// Running sums and products: element i becomes the tree sum (common/reduce.cuh) of elements 0 .. i of its row.
//
// The tree over 0 .. i consists of one whole node per set bit of i + 1. So inside a node of 2^k elements every element
// of the right half gets the sum of the left half added in front, level by level, from the smallest node to the
// largest.
#pragma once
#include "gpukit/ops/reduce/cumsum_params.cuh"
#include "gpukit/ops/reduce/reduce_ops.cuh"

namespace gpukit {

template <typename T>
struct ScanLoad {
  using Raw = T;
  const T* row;
  int64_t stride;
  template <int N>
  GPUKIT_DEVICE void fetch(Raw (&raw)[N], int64_t i, int step, int64_t last) const {
#pragma unroll
    for (int u = 0; u < N; ++u) raw[u] = row[at_most(i + u * step, last) * stride];
  }
  GPUKIT_DEVICE accumulate_t<T> unit(const Raw& raw, int64_t) const { return static_cast<accumulate_t<T>>(load(raw)); }
};

/// Node `index` of `level` in the pyramid of a row: sums of segments, of pairs of them, and so on.
GPUKIT_DEVICE int64_t pyramid_at(int levels, int level, int64_t index) {
  return (int64_t(2) << levels) - (int64_t(2) << (levels - level)) + index;
}

template <typename A>
GPUKIT_DEVICE A shuffle_from(const A& value, int lane) {
  Words<A> words(value);
#pragma unroll
  for (int i = 0; i < Words<A>::kCount; ++i) words.word[i] = __shfl_sync(kAllLanes, words.word[i], lane);
  return words.value();
}

// scan_totals: one block per (row, segment) writes the segment's sum.
template <typename Op, typename T>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_totals(accumulate_t<T>* pyramids, const T* __restrict__ x, const __grid_constant__ ScanParams p) {
  using Acc = accumulate_t<T>;
  constexpr int kWarps = kScanThreads / 32;
  __shared__ Acc slots[kWarps][kWalkLevels];
  __shared__ Acc totals[kWarps];
  const int warp = threadIdx.x >> 5;
  // A warp's share of a tile is one chunk.
  for (int64_t index = blockIdx.x; index < p.rows * p.segments.value; index += gridDim.x) {
    int64_t segment;
    const int64_t row = quotient(index, p.segments, segment);
    const ScanLoad<T> load{x + space_offset(p.rank, p.other_shape, p.other_in, row), p.in};
    const int64_t first = (segment * kWarps + warp) * p.segment_tiles;
    Acc v = walk_chunks<Op, 1, kScanUnits>(load, first, p.segment_tiles, p.length, slots[warp]);
    v = warps_tree<Op>(v, kWarps, totals);
    if (threadIdx.x == 0) pyramids[row * (int64_t(2) << p.levels) + segment] = v;
  }
}

// scan_pyramid: one block per row adds the segments' sums up in pairs, level by level.
template <typename Op, typename T>
__global__ void __launch_bounds__(kScanThreads)
    scan_pyramid(accumulate_t<T>* pyramids, const __grid_constant__ ScanParams p) {
  using Acc = accumulate_t<T>;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    Acc* pyramid = pyramids + row * (int64_t(2) << p.levels);
    for (int level = 0; level < p.levels; ++level) {
      const Acc* from = pyramid + pyramid_at(p.levels, level, 0);
      Acc* to = pyramid + pyramid_at(p.levels, level + 1, 0);
      // Nodes past the last segment are never read.
      const int64_t whole = p.segments.value >> (level + 1);
      for (int64_t i = threadIdx.x; i < whole; i += kScanThreads) to[i] = Op::merge(from[2 * i], from[2 * i + 1]);
      __syncthreads();
    }
  }
}

/// Rows of at most kScanShort elements: a warp takes one.
template <typename Op, typename T>
GPUKIT_DEVICE void scan_short(void* out, const T* x, const ScanParams& p) {
  using Acc = accumulate_t<T>;
  constexpr int kWarps = kScanThreads / 32;
  static_assert(kScanUnits == 8 && kScanShort == 32 * kScanUnits, "nodes of three levels");
  const int lane = threadIdx.x & 31;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + (threadIdx.x >> 5); row < p.rows;
       row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const ScanLoad<T> load{x + space_offset(p.rank, p.other_shape, p.other_in, row), p.in};
    const int64_t out_row = space_offset(p.rank, p.other_shape, p.other_out, row);
    T raw[kScanUnits];
    Acc v[kScanUnits], of_32[kScanUnits];
#pragma unroll
    for (int u = 0; u < kScanUnits; ++u) {
      const bool inside = u * 32 + lane < p.length;
      raw[u] = load.row[inside ? (u * 32 + lane) * load.stride : 0];
      v[u] = of_32[u] = Op::identity();
    }
#pragma unroll
    for (int u = 0; u < kScanUnits; ++u) {
      if (u * 32 >= p.length) continue;
      if (u * 32 + lane < p.length) v[u] = load.unit(raw[u], 0);
#pragma unroll
      for (int k = 0; k < 5; ++k) {
        const Acc left = shuffle_from(v[u], (lane >> (k + 1) << (k + 1)) + (1 << k) - 1);
        if (lane >> k & 1) v[u] = Op::merge(left, v[u]);
      }
      of_32[u] = shuffle_from(v[u], 31);
    }
    const Acc of_64[] = {Op::merge(of_32[0], of_32[1]), Op::merge(of_32[2], of_32[3]), Op::merge(of_32[4], of_32[5])};
    const Acc of_128 = Op::merge(of_64[0], of_64[1]);
#pragma unroll
    for (int u = 0; u < kScanUnits; ++u) {
      if (u & 1) v[u] = Op::merge(of_32[u - 1], v[u]);
      if (u & 2) v[u] = Op::merge(of_64[u / 2 - 1], v[u]);
      if (u & 4) v[u] = Op::merge(of_128, v[u]);
      if (u * 32 + lane < p.length) store_accumulated<T>(out, out_row + (u * 32 + lane) * p.out, v[u]);
    }
  }
}

// scan_rows: one block per (row, segment), or a warp for each short row. Without segments `pyramids` is not read.
template <typename Op, typename T>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_rows(void* out, const T* x, const accumulate_t<T>* pyramids, const __grid_constant__ ScanParams p) {
  using Acc = accumulate_t<T>;
  constexpr int kWarps = kScanThreads / 32;
  constexpr int kNodes = kWarps * kScanUnits;  // warp results of a tile
  constexpr int kNodeLevels = 6;
  static_assert(kNodes == 1 << kNodeLevels, "levels of a tile");
  if (p.length <= kScanShort) return scan_short<Op>(out, x, p);
  __shared__ Acc nodes[2 * kNodes];
  __shared__ Acc slots[kWalkLevels];
  const int lane = threadIdx.x & 31;
  const int warp = threadIdx.x >> 5;
  for (int64_t index = blockIdx.x; index < p.rows * p.segments.value; index += gridDim.x) {
    int64_t segment = 0;
    const int64_t row = quotient(index, p.segments, segment);
    const ScanLoad<T> load{x + space_offset(p.rank, p.other_shape, p.other_in, row), p.in};
    const int64_t out_row = space_offset(p.rank, p.other_shape, p.other_out, row);
    const Acc* pyramid = pyramids + row * (int64_t(2) << p.levels);
    for (int64_t tile = 0; tile < p.segment_tiles; ++tile) {
      const int64_t begin = (segment * p.segment_tiles + tile) * kScanTile;
      if (begin >= p.length) break;
      T raw[kScanUnits];
      Acc v[kScanUnits];
      load.fetch(raw, begin + threadIdx.x, kScanThreads, p.length - 1);
#pragma unroll
      for (int u = 0; u < kScanUnits; ++u) {
        v[u] = load.unit(raw[u], 0);
        if (begin + u * kScanThreads + threadIdx.x >= p.length) v[u] = Op::identity();
#pragma unroll
        for (int k = 0; k < 5; ++k) {
          const Acc left = shuffle_from(v[u], (lane >> (k + 1) << (k + 1)) + (1 << k) - 1);
          if (lane >> k & 1) v[u] = Op::merge(left, v[u]);
        }
        if (lane == 31) nodes[u * kWarps + warp] = v[u];
      }
      __syncthreads();
      if (warp == 0) {
        for (int level = 0; level < kNodeLevels; ++level) {
          const Acc* from = nodes + pyramid_at(kNodeLevels, level, 0);
          Acc* to = nodes + pyramid_at(kNodeLevels, level + 1, 0);
          if (lane < kNodes >> (level + 1)) to[lane] = Op::merge(from[2 * lane], from[2 * lane + 1]);
          __syncwarp();
        }
      }
      __syncthreads();
#pragma unroll
      for (int u = 0; u < kScanUnits; ++u) {
        const int node = u * kWarps + warp;
#pragma unroll
        for (int level = 0; level < kNodeLevels; ++level) {
          if (node >> level & 1) v[u] = Op::merge(nodes[pyramid_at(kNodeLevels, level, (node >> level) - 1)], v[u]);
        }
      }
      // Earlier tiles of this segment, then earlier segments.
      for (int level = 0; (tile >> level) != 0; ++level) {
        if (tile >> level & 1) {
          const Acc left = slots[level];
#pragma unroll
          for (int u = 0; u < kScanUnits; ++u) v[u] = Op::merge(left, v[u]);
        }
      }
      for (int level = 0; (segment >> level) != 0; ++level) {
        if (segment >> level & 1) {
          const Acc left = pyramid[pyramid_at(p.levels, level, (segment >> level) - 1)];
#pragma unroll
          for (int u = 0; u < kScanUnits; ++u) v[u] = Op::merge(left, v[u]);
        }
      }
#pragma unroll
      for (int u = 0; u < kScanUnits; ++u) {
        const int64_t i = begin + u * kScanThreads + threadIdx.x;
        if (i < p.length) store_accumulated<T>(out, out_row + i * p.out, v[u]);
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        Acc total = nodes[pyramid_at(kNodeLevels, kNodeLevels, 0)];
        int level = 0;
        for (int64_t n = tile; n & 1; n >>= 1) total = Op::merge(slots[level++], total);
        slots[level] = total;
      }
      __syncthreads();
    }
  }
}

}  // namespace gpukit
