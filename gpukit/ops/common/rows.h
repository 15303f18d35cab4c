// Rows of an array for ops that work row by row, and how the kernels of rows.cuh are to take them. Pure.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/row_params.cuh"

namespace gpukit {

enum class RowForm : uint8_t {
  registers,  // RowPart
  wide,       // WideRow
  columns,    // columns_tree: the rows run across memory
};

struct RowPlan {
  RowForm form = RowForm::registers;
  bool vector = false;  // accesses of 16 bytes
  unsigned grid = 1, block = kRowThreads, shared_bytes = 0;
  RowParams params{};
};

/// The first element lies at a multiple of 16 bytes.
bool is_aligned(const Array& a);

/// Rows along `axis` of two arrays of one shape, neither empty. `aligned`: both, and all other operands, start at
/// multiples of 16 bytes and have contiguous rows. The columns form is taken only when `columns_too`.
RowPlan plan_rows(const Dims& shape, const Dims& in_strides, const Dims& out_strides, int axis, int element_bytes,
                  bool aligned, bool columns_too);

/// How few rows of the wide form are shared by several blocks each. A segment is a whole node of the tree of sums.
struct RowSplit {
  int64_t segments = 1;
  int64_t chunks_per_warp = 1;  // in place of those of the plan
};
inline constexpr int64_t kMaxRowSegments = kRowMaxThreads;  // one value a thread merges them

/// By the sizes alone; one segment where splitting does not pay for the kernels more that it takes.
RowSplit split_rows(const RowPlan& plan, int element_bytes);

/// Element offset of row `index` in the input or the output (p.in, p.out).
int64_t row_offset(const RowParams& p, const int64_t (&strides)[kKernelRank], int64_t index);

}  // namespace gpukit
