// Sizes and strides of a product with few tokens, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct SkinnySpace {
  int64_t n, k;
  int64_t w_stride, x_stride;  // bytes from a row of w, a token of x, to the next
  int64_t scale_stride;        // scales from one row (float8: 128 rows) to the next, where they change along k
  int32_t tokens;
  int32_t chain;  // of k; a multiple of what a stage of multiply_skinny holds
};

}  // namespace gpukit
