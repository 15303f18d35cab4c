// Matrix by vector at the speed of memory (gemv.cuh): which kernel serves, and its launch.
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/matmul_space.cuh"

namespace gpukit::cuda {

/// out = w x. `columns`: w is dense along its outputs instead of along k.
struct GemvPlan {
  bool columns;
  bool w_is_a;  // the matrix is a and b the vector, or the other way round
  int instance;
  unsigned grid, block;
  int64_t n, k, w_stride, out_stride;

  std::string str() const;  // e.g. "gemv, w along k, 4096 blocks"
};

/// nullopt where neither operand is a vector of 16-bit floats, there are batches, or something does not lie at
/// multiples of 16 bytes. The order of sums depends on the sizes and the layout alone, and is not that of other
/// products.
std::optional<GemvPlan> plan_gemv(const MatmulSpace& space, DType input, DType out, bool a_aligned, bool b_aligned);
void launch_gemv(const GemvPlan& plan, const Array& out, const Array& a, const Array& b);

}  // namespace gpukit::cuda
