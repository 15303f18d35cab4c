// Rows brought into the order of their experts, for products of many rows by few matrices.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/matmul/dense/grouped_problem.cuh"

namespace gpukit {

/// The sum of `value` over the threads before this one, of a block of kOrderThreads.
GPUKIT_DEVICE uint64_t sum_before(uint64_t value) {
  __shared__ uint64_t of_warps[kOrderWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto inclusive = [lane](uint64_t v) {
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const uint64_t before = __shfl_up_sync(0xffffffffu, v, step);
      if (lane >= step) v += before;
    }
    return v;
  };
  const uint64_t sum = inclusive(value);
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const uint64_t whole = of_warps[lane];
    of_warps[lane] = inclusive(whole) - whole;
  }
  __syncthreads();
  return of_warps[warp] + sum - value;
}

/// One block. `order`: the rows, expert by expert, those of an expert ascending, at last the rows whose id is none.
/// `list`: the tiles of at most `tile_rows` of them, in that order. Each warp counts and places a stretch of rows, so
/// that no order depends on time. order_bytes(experts) of shared memory.
__global__ void __launch_bounds__(kOrderThreads)
    order_rows(int32_t* order, ExpertTiles* list, const int32_t* ids, int64_t id_m, int32_t m, int32_t experts,
               int32_t tile_rows, Fault* fault, int32_t fault_op) {
  constexpr int kPitch = kOrderWarps + 1;
  extern __shared__ int32_t counts[];  // [experts + 1][kPitch]: rows of an expert in a warp's stretch
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  for (int i = thread; i < (experts + 1) * kPitch; i += kOrderThreads) counts[i] = 0;
  __syncthreads();

  const int stretch = (m + kOrderThreads - 1) / kOrderThreads * 32, from = warp * stretch;
  const int to = min(from + stretch, m);
  // visit(row, id, where the rows of its expert are counted, how many of those are on lanes before, and for the first
  // of them the number of all, else 0), by whole warps.
  const auto each = [&](auto visit) {
    int32_t next = from + lane < to ? ids[(from + lane) * id_m] : -1;
    for (int row = from + lane; row - lane < to; row += 32) {
      const int32_t id = next;
      if (row + 32 < to) next = ids[(row + 32) * id_m];
      const int32_t expert = id < 0 || id >= experts ? experts : id;
      const unsigned here = __ballot_sync(0xffffffffu, row < to);
      const unsigned peers = __match_any_sync(0xffffffffu, expert) & here, below = peers & ((1u << lane) - 1);
      visit(row, id, counts + expert * kPitch + warp, __popc(below), row < to && below == 0 ? __popc(peers) : 0);
      __syncwarp();
    }
  };
  each([&](int row, int32_t id, int32_t* count, int, int more) {
    if (more > 0) *count += more;
    if (row < to && (id < -1 || id >= experts)) note_fault(fault, fault_op, id, experts);
  });
  __syncthreads();

  const bool counts_rows = thread <= experts;
  int32_t rows = 0;
  for (int w = 0; counts_rows && w < kOrderWarps; ++w) rows += counts[thread * kPitch + w];
  const int32_t tiles = thread < experts ? (rows + tile_rows - 1) / tile_rows : 0;
  const uint64_t before = sum_before(static_cast<uint64_t>(tiles) << 32 | static_cast<uint32_t>(rows));
  const int32_t first_tile = static_cast<int32_t>(before >> 32), first_row = static_cast<int32_t>(before);
  if (counts_rows) {
    int32_t place = first_row;
    for (int w = 0; w < kOrderWarps; ++w) {
      const int32_t count = counts[thread * kPitch + w];
      counts[thread * kPitch + w] = place;
      place += count;
    }
    ExpertTile* tile = reinterpret_cast<ExpertTile*>(list + 1) + first_tile;
    for (int i = 0; i < tiles; ++i)
      tile[i] = {thread, first_row + i * tile_rows, first_row + min((i + 1) * tile_rows, rows), 0};
    if (thread == experts) *list = {first_tile, first_row, {0, 0}};
  }
  __syncthreads();

  each([&](int row, int32_t, int32_t* count, int rank, int more) {
    const int32_t place = *count + rank;
    __syncwarp();
    if (more > 0) *count += more;
    if (row < to) order[place] = row;
  });
}

/// A block a row: the row at that place of the order, and its scales; a row without an expert is cleared in the result.
template <typename T>
__global__ void __launch_bounds__(256)
    gather_rows(T* sorted, float* sorted_scale, void* out, const T* a, const float* scale, const int32_t* order,
                const ExpertTiles* list, const __grid_constant__ GatherProblem s) {
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t place = blockIdx.x, row = order[place];
  if (place >= list->rows) {
    for (int c = thread; c < s.n; c += 256) {
      const int64_t at = row * s.out_m + c * s.out_n;
      if (s.out_bytes == 4)
        static_cast<uint32_t*>(out)[at] = 0;
      else
        static_cast<uint16_t*>(out)[at] = 0;
    }
    return;
  }
  const T* from = a + row * s.a_m;
  T* to = sorted + place * s.pitch;
  if (s.pieces != 0) {
    constexpr int kPiece = 16 / static_cast<int>(sizeof(T));
    for (int i = thread; i < s.k / kPiece; i += 256)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  } else {
    for (int i = thread; i < s.k; i += 256) to[i] = from[i * s.a_k];
  }
  for (int i = thread; i < s.scales; i += 256)
    sorted_scale[place * s.scales + i] = scale[row * s.scale_m + i * s.scale_k];
}

}  // namespace gpukit
