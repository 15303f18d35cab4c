// Sizes of one product of a matrix and a vector, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kGemvThreads = 256;

struct GemvProblem {
  int64_t n, k;
  int64_t w_stride;      // elements from one row of w to the next
  int64_t out_stride;    // elements from one output to the next
  int64_t early_blocks;  // that may start before the kernel before has ended, and ask the L2 for their weights
};

}  // namespace gpukit
