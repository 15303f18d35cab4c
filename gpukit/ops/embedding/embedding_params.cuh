// What the embedding kernels are told. Shared by host and kernels.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct EmbeddingParams {
  int64_t rows, width, vocab;  // width and strides in elements
  int64_t out_row, out_step, table_row, table_step, id_step;
  int64_t piece;  // columns of one block
  int32_t log2_lanes, wide_ids, sequential, fault_op;
};

}  // namespace gpukit
