// What the host's plan tells the reduction kernels. Shared by both sides.
#pragma once
#include "gpukit/ops/common/divide.cuh"

namespace gpukit {

struct ReduceParams {
  int64_t length;  // elements merged into one output, at least 1
  int64_t outputs;
  Divisor segments;  // partial results per output; 1: the first kernel writes the output itself

  // Axes that stay, the fastest in memory last: sizes, element strides of input and output.
  int32_t kept_rank;
  int32_t reduced_rank;
  Divisor kept_shape[kKernelRank];
  int64_t kept_in[kKernelRank];
  int64_t kept_out[kKernelRank];
  // Axes that go, in the order of the tree.
  Divisor reduced_shape[kKernelRank];
  int64_t reduced_in[kKernelRank];

  // Rows: a group of `warps` warps takes chunks_per_warp chunks each.
  int64_t chunks_per_warp;
  int32_t warps;
  // Short rows (`narrow`): `lanes` lanes of a warp take kReduceNarrow elements each.
  int32_t lanes;
  int32_t narrow;

  // Columns: blocks of tx * ty threads; the last kept axis is walked by x.
  int64_t segment_rows;
  int64_t batches;  // outputs / columns
  Divisor column_blocks;
  int32_t tx, ty;
  int32_t rows_per_thread;
  int32_t vector;  // each thread reads columns_per_thread() of them at once; else one

  // Second kernel: threads per output, and where the partial (output, segment) is.
  int32_t finish_slots;
  int32_t partials_by_segment;  // [segment][output] instead of [output][segment]

  int32_t last_block;  // the block that is done last merges the partials; its counter lies kCounterOffset before them

  int32_t flip;       // min, argmin, all
  int32_t mean;       // sum: divide by the length; var: take the root
  double correction;  // var
};

inline constexpr int kReduceThreads = 256;
inline constexpr int kCounterOffset = 256;
inline constexpr int kReduceUnits = 8;         // loads in flight per thread
inline constexpr int kReduceShiftedUnits = 4;  // pairs of them, for rows that start anywhere
inline constexpr int kReduceNarrow = 4, kReduceNarrowLength = 32 * kReduceNarrow;
inline constexpr int kReduceMaxSegments = 8192;

}  // namespace gpukit
