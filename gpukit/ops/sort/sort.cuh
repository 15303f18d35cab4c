// Stable sorting of rows. Short rows: one block each, in shared memory. Longer ones: radix sort, the least significant
// digit of 8 bits first. Each pass counts digits per tile, adds the counts up in the order (digit, tile), and moves
// each element behind all that come before it.
#pragma once
#include "gpukit/ops/sort/sort_key.cuh"
#include "gpukit/ops/sort/sort_params.cuh"

namespace gpukit {

/// One block per row of at most kShortRow elements: a bitonic sort of (key, place); `padded` is n rounded up to a power
/// of two. Places make all pairs different, so the order is that of a stable sort.
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    argsort_short(int64_t* __restrict__ order, const U* __restrict__ bits, int64_t n, int32_t padded, KeyRule rule) {
  __shared__ U keys[kShortRow];
  __shared__ uint32_t places[kShortRow];
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < padded; i += kSortThreads) {
    keys[i] = i < n ? sort_key(bits[row * n + i], rule) : static_cast<U>(~U(0));
    places[i] = i;
  }
  __syncthreads();
  for (int size = 2; size <= padded; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      for (int pair = threadIdx.x; pair < padded / 2; pair += kSortThreads) {
        const int low = (pair / step) * 2 * step + pair % step;
        const int high = low + step;
        const bool upward = (low & size) == 0;
        const U a = keys[low], b = keys[high];
        const uint32_t at_a = places[low], at_b = places[high];
        const bool later = a > b || (a == b && at_a > at_b);
        if (later == upward) {
          keys[low] = b;
          keys[high] = a;
          places[low] = at_b;
          places[high] = at_a;
        }
      }
      __syncthreads();
    }
  }
  for (int i = threadIdx.x; i < n; i += kSortThreads) order[row * n + i] = places[i];
}

/// One thread per element.
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    radix_keys(U* __restrict__ keys, uint32_t* __restrict__ places, const U* __restrict__ bits, int64_t size, int64_t n,
               KeyRule rule) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i >= size) return;
  keys[i] = sort_key(bits[i], rule);
  places[i] = static_cast<uint32_t>(i % n);
}

/// One block per (row, tile): counts[row][digit][tile].
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    radix_count(uint32_t* __restrict__ counts, const U* __restrict__ keys, int64_t n, int64_t tiles, int32_t shift) {
  __shared__ uint32_t found[kSortDigits];
  const int64_t row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  found[threadIdx.x] = 0;
  __syncthreads();
  for (int round = 0; round < kSortRounds; ++round) {
    const int64_t i = tile * kSortTile + round * kSortThreads + threadIdx.x;
    if (i < n) atomicAdd(&found[static_cast<uint32_t>(keys[row * n + i] >> shift) & 0xff], 1u);
  }
  __syncthreads();
  counts[(row * kSortDigits + threadIdx.x) * tiles + tile] = found[threadIdx.x];
}

/// One block per row: counts become the sums of those before them in the row.
template <typename U>
__global__ void __launch_bounds__(kSortScanThreads) radix_scan(uint32_t* counts, int64_t length) {
  __shared__ uint32_t warps[kSortScanThreads / 32];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  uint32_t* row = counts + blockIdx.x * length;
  uint32_t carry = 0;
  for (int64_t first = 0; first < length; first += kSortScanThreads * kSortScanItems) {
    const int64_t begin = first + static_cast<int64_t>(threadIdx.x) * kSortScanItems;
    uint32_t items[kSortScanItems];
    uint32_t sum = 0;
#pragma unroll
    for (int i = 0; i < kSortScanItems; ++i) {
      items[i] = begin + i < length ? row[begin + i] : 0;
      sum += items[i];
    }
    uint32_t running = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(0xffffffffu, running, step);
      if (lane >= step) running += other;
    }
    if (lane == 31) warps[warp] = running;
    __syncthreads();
    uint32_t before = carry + running - sum, total = 0;
    for (int w = 0; w < kSortScanThreads / 32; ++w) {
      if (w < warp) before += warps[w];
      total += warps[w];
    }
#pragma unroll
    for (int i = 0; i < kSortScanItems; ++i) {
      if (begin + i < length) row[begin + i] = before;
      before += items[i];
    }
    carry += total;
    __syncthreads();
  }
}

/// One block per (row, tile), kSortThreads elements a round, in order.
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    radix_move(U* __restrict__ to_keys, uint32_t* __restrict__ to_places, const U* __restrict__ keys,
               const uint32_t* __restrict__ places, const uint32_t* __restrict__ starts, int64_t n, int64_t tiles,
               int32_t shift) {
  constexpr int kWarps = kSortThreads / 32;
  __shared__ uint32_t next[kSortDigits];             // where the digit's next element goes
  __shared__ uint32_t in_warp[kWarps][kSortDigits];  // elements of the round by warp, then where they start
  const int64_t row = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  next[threadIdx.x] = starts[(row * kSortDigits + threadIdx.x) * tiles + tile];
  for (int round = 0; round < kSortRounds; ++round) {
    const int64_t first = tile * kSortTile + round * kSortThreads;
    if (first >= n) break;
    for (int w = 0; w < kWarps; ++w) in_warp[w][threadIdx.x] = 0;
    __syncthreads();
    const int64_t i = first + threadIdx.x;
    const bool is_there = i < n;
    const U key = is_there ? keys[row * n + i] : U(0);
    const uint32_t place = is_there ? places[row * n + i] : 0;
    const uint32_t digit = static_cast<uint32_t>(key >> shift) & 0xff;
    uint32_t peers = __ballot_sync(0xffffffffu, is_there);
#pragma unroll
    for (int bit = 0; bit < 8; ++bit) {
      const bool set = (digit >> bit & 1) != 0;
      const uint32_t others = __ballot_sync(0xffffffffu, set);
      peers &= set ? others : ~others;
    }
    const uint32_t rank = __popc(peers & ((1u << lane) - 1));
    if (is_there && rank == 0) in_warp[warp][digit] = __popc(peers);
    __syncthreads();
    uint32_t start = next[threadIdx.x];
    for (int w = 0; w < kWarps; ++w) {
      const uint32_t count = in_warp[w][threadIdx.x];
      in_warp[w][threadIdx.x] = start;
      start += count;
    }
    next[threadIdx.x] = start;
    __syncthreads();
    if (is_there) {
      const int64_t at = row * n + in_warp[warp][digit] + rank;
      to_keys[at] = key;
      to_places[at] = place;
    }
    __syncthreads();
  }
}

/// One thread per element.
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    write_order(int64_t* __restrict__ order, const uint32_t* __restrict__ places, int64_t size) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i < size) order[i] = places[i];
}

/// One thread per value; `order` may be null.
template <typename U>
__global__ void __launch_bounds__(kSortThreads)
    search_sorted(int64_t* __restrict__ out, const U* __restrict__ sorted, const U* __restrict__ values,
                  const int64_t* __restrict__ order, int64_t n, int64_t count, int32_t right, KeyRule rule) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (i < count) out[i] = search_row(sorted, order, n, sort_key(values[i], rule), right != 0, rule);
}

}  // namespace gpukit
