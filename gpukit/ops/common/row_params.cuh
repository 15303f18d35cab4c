// Rows of an array, whatever its strides, for ops that work row by row. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/divide.cuh"

namespace gpukit {

struct RowParams {
  int64_t rows, width;
  int64_t in_step, out_step;        // element strides along a row
  int32_t rank;                     // of the other axes
  int32_t lanes;                    // below 32: several rows per warp, each at most lanes * V wide
  int32_t warps;                    // per row, a power of two
  int32_t tx, ty, rows_per_thread;  // columns form: threads across and along
  int64_t chunks_per_warp;          // wide rows
  Divisor column_blocks;
  int64_t columns;
  Divisor shape[kKernelRank];
  int64_t in[kKernelRank];
  int64_t out[kKernelRank];
};

inline constexpr int kRowThreads = 256;  // of a block when a row takes fewer
inline constexpr int kRowMaxThreads = 1024;

/// Elements of a row one thread keeps in registers. Single elements need an address each, so fewer of them.
inline constexpr int row_elements(int element_bytes, bool vector) {
  return element_bytes == 8 || !vector ? 8 : element_bytes == 2 ? 32 : 16;
}
/// Loads in flight per thread where the row does not fit.
inline constexpr int wide_units(int element_bytes) { return element_bytes == 8 ? 2 : element_bytes == 2 ? 4 : 8; }

}  // namespace gpukit
