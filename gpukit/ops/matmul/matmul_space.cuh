// Sizes and element strides of one batched product, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct MatmulSpace {
  static constexpr int kMaxBatchRank = 6;
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, out_m, out_n;
  int64_t batches;
  int32_t batch_rank;
  int64_t batch_shape[kMaxBatchRank];
  int64_t batch_a[kMaxBatchRank], batch_b[kMaxBatchRank], batch_out[kMaxBatchRank];
};

struct MatmulOffsets {
  int64_t a, b, out;
};

/// Where batch number `batch` starts.
GPUKIT_DEVICE MatmulOffsets batch_offsets(const MatmulSpace& s, int64_t batch) {
  MatmulOffsets at = {0, 0, 0};
  for (int axis = s.batch_rank - 1; axis >= 0; --axis) {
    const int64_t i = batch % s.batch_shape[axis];
    batch /= s.batch_shape[axis];
    at.a += i * s.batch_a[axis];
    at.b += i * s.batch_b[axis];
    at.out += i * s.batch_out[axis];
  }
  return at;
}

}  // namespace gpukit
