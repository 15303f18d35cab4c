// Rows in the order of their experts: a stable counting sort.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/moe/moe_space.cuh"

namespace gpukit {

/// The counter of a row: that of its expert, or the last one of a row that goes nowhere.
GPUKIT_DEVICE int32_t counter_of(int32_t id, int32_t experts) { return id >= 0 && id < experts ? id : experts; }

/// A warp takes the rows of a chunk in order, 32 at a time: f(row, counter, how many of them before have it, start),
/// where start, counter's value so far in `line`, then grows by all of them.
template <typename F>
GPUKIT_DEVICE void for_rows_of_chunk(const OrderSpace& s, const int32_t* ids, int64_t chunk, int32_t* line, F&& f) {
  const int lane = threadIdx.x & 31;
  const int64_t begin = chunk * s.chunk_rows, past = begin + s.chunk_rows, end = past < s.rows ? past : s.rows;
  for (int64_t first = begin; first < end; first += 32) {
    const int64_t row = first + lane;
    const bool inside = row < end;
    const int32_t counter = inside ? counter_of(ids[row], s.experts) : -1;
    const uint32_t same = __match_any_sync(0xffffffffu, counter);
    const int before = __popc(same & ((1u << lane) - 1));
    const int32_t start = inside ? line[counter] : 0;
    __syncwarp();
    if (inside && before == 0) line[counter] = start + __popc(same);
    __syncwarp();
    if (inside) f(row, counter, before, start);
  }
}

// moe_count_experts: one warp per chunk of rows, which has a line of counters of its own.
__global__ void __launch_bounds__(256)
    moe_count_experts(int32_t* lines, const int32_t* ids, Fault* fault, const __grid_constant__ OrderSpace s) {
  const int64_t chunk = (blockIdx.x * int64_t{256} + threadIdx.x) / 32;
  if (chunk >= s.chunks) return;
  int32_t* const line = lines + chunk * (s.experts + 1);
  for (int counter = threadIdx.x & 31; counter <= s.experts; counter += 32) line[counter] = 0;
  __syncwarp();
  for_rows_of_chunk(s, ids, chunk, line, [&](int64_t row, int32_t counter, int, int32_t) {
    if (counter == s.experts && ids[row] != -1) note_fault(fault, s.fault_op, ids[row], s.experts);
  });
}

// moe_start_experts: one block. A warp makes the counters of an expert the rows of it in the chunks before.
__global__ void __launch_bounds__(1024)
    moe_start_experts(int32_t* counts, int32_t* offsets, int32_t* lines, const __grid_constant__ OrderSpace s) {
  const int lane = threadIdx.x & 31;
  for (int counter = threadIdx.x / 32; counter <= s.experts; counter += 32) {
    int32_t before = 0;
    for (int64_t first = 0; first < s.chunks; first += 32) {
      const bool inside = first + lane < s.chunks;
      int32_t* const at = lines + (first + lane) * (s.experts + 1) + counter;
      const int32_t mine = inside ? *at : 0;
      int32_t sum = mine;
      for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_up_sync(0xffffffffu, sum, step);
        if (lane >= step) sum += other;
      }
      if (inside) *at = before + sum - mine;
      before += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (lane == 0 && counter < s.experts) counts[counter] = before;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  int32_t before = 0;
  for (int expert = 0; expert < s.experts; ++expert) {
    offsets[expert] = before;
    before += counts[expert];
  }
  offsets[s.experts] = before;
}

// moe_place_rows: one warp per chunk, its counters being where those before it stop.
__global__ void __launch_bounds__(256)
    moe_place_rows(int32_t* permute, int32_t* reverse, int32_t* lines, const int32_t* offsets, const int32_t* ids,
                   const __grid_constant__ OrderSpace s) {
  const int64_t chunk = (blockIdx.x * int64_t{256} + threadIdx.x) / 32;
  if (chunk >= s.chunks) return;
  for_rows_of_chunk(s, ids, chunk, lines + chunk * (s.experts + 1),
                    [&](int64_t row, int32_t counter, int before, int32_t start) {
                      const int32_t place = offsets[counter] + start + before;
                      permute[place] = static_cast<int32_t>(row);
                      reverse[row] = place;
                    });
}

// moe_expand_offsets: a thread per row finds the first offset above its place.
__global__ void __launch_bounds__(256)
    moe_expand_offsets(int32_t* ids, const int32_t* offsets, int64_t rows, int32_t count) {
  for (int64_t row = blockIdx.x * 256ll + threadIdx.x; row < rows; row += 256ll * gridDim.x) {
    int low = 0, high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (offsets[middle] > row)
        high = middle;
      else
        low = middle + 1;
    }
    ids[row] = low == count ? -1 : low - 1;
  }
}

}  // namespace gpukit
