// What the kernels of routing are told. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct RouteSpace {
  int64_t tokens, row, column, id_step;  // strides of the logits and the ids, in elements
  int32_t experts, k;
  int32_t softmax_first, normalize;
};

struct CombineSpace {
  int64_t width, k;
  int64_t rows_row, rows_column, weights_row, weights_column, reverse_step;  // strides in elements
  int64_t shared_row, gate_row, id_step, out_row, out_column;
  int64_t rows;
  int32_t fault_op;
};

struct OrderSpace {
  int64_t rows, chunk_rows, chunks;
  int32_t experts;
  int32_t fault_op;
};

}  // namespace gpukit
