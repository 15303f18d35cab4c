// Matrix by vector at the speed of memory (gemv.cuh): which kernel serves, and its launch.
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/dense/linear_steps.cuh"
#include "gpukit/ops/matmul/matmul_impl.h"

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

/// A product [m, k] x [k, n] by sizes and element strides.
struct GemvProduct {
  int64_t m, n, k;
  int64_t a_m, a_k, b_k, b_n, out_m, out_n;
  bool a_aligned, b_aligned;  // element 0 lies at a multiple of 16 bytes
  DType input, out;
};

GemvProduct gemv_product(const MatmulProblem& problem, const Array& a, const Array& b, DType out);

/// nullopt where neither operand is a vector of 16-bit floats, there are batches, or something does not lie at
/// multiples of 16 bytes. The order of sums depends on the sizes and the layout alone, and is not that of other
/// products.
std::optional<GemvPlan> plan_gemv(const GemvProduct& product);
void launch_gemv(const GemvPlan& plan, const Array& out, const Array& a, const Array& b);
/// A layer of one row, by a plan for input @ weight.T that is neither `columns` nor `w_is_a`. Bias and residual are
/// dense.
void launch_gemv_linear(const GemvPlan& plan, const Array& out, const Array& input, const Array& weight,
                        const LinearSteps& steps, const Array& bias, const Array& residual);
/// silu(input @ gate.T) * (input @ up.T) of one row, by the plan for gate. `up` lies as gate does.
void launch_gemv_swiglu(const GemvPlan& plan, const Array& out, const Array& input, const Array& gate, const Array& up);

}  // namespace gpukit::cuda
