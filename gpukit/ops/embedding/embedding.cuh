// embedding: rows of a table, moved in pieces of V elements by 2^log2_lanes threads a row. T stands for any type of its
// size. A thread has up to four pieces in flight.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/common/vec.cuh"
#include "gpukit/ops/embedding/embedding_params.cuh"
#include "gpukit/ops/hopper/pdl.cuh"

namespace gpukit {

template <typename T, int kBytes>
__global__ void __launch_bounds__(256)
    embedding_rows(T* out, const T* table, const void* ids, Fault* fault, const __grid_constant__ EmbeddingParams p) {
  constexpr int V = kBytes / sizeof(T);
  start_in_turn();
  const int lanes = 1 << p.log2_lanes;
  const int lane = threadIdx.x & (lanes - 1);
  const int64_t piece = blockIdx.y;  // of a row
  for (int64_t row = blockIdx.x * static_cast<int64_t>(blockDim.x >> p.log2_lanes) + (threadIdx.x >> p.log2_lanes);
       row < p.rows; row += static_cast<int64_t>(gridDim.x) * (blockDim.x >> p.log2_lanes)) {
    const int64_t at = p.sequential ? 0 : row * p.id_step;
    int64_t id = p.wide_ids ? static_cast<const int64_t*>(ids)[at] : static_cast<const int32_t*>(ids)[at];
    if (p.sequential) id += row;
    const bool good = id >= 0 && id < p.vocab;
    if (!good && lane == 0 && piece == 0) note_fault(fault, p.fault_op, id, p.vocab);
    const T* from = table + (good ? id : 0) * p.table_row;
    T* to = out + row * p.out_row;
    const int64_t end = p.width < (piece + 1) * p.piece ? p.width : (piece + 1) * p.piece;
    for (int64_t i = piece * p.piece + lane * V; i < end; i += 4 * lanes * V) {
      Vec<T, V> x[4];
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int64_t j = i + u * (lanes * V);
        x[u] = {};
        if (j < end && good) {
          if constexpr (V == 1)
            x[u].v[0] = from[j * p.table_step];
          else
            x[u] = load_vec<T, V>(from + j);
        }
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int64_t j = i + u * (lanes * V);
        if (j < end) {
          if constexpr (V == 1)
            to[j * p.out_step] = x[u].v[0];
          else
            store_vec<T, V>(to + j, x[u]);
        }
      }
    }
  }
}

}  // namespace gpukit
