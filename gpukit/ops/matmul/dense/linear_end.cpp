#include <algorithm>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/matmul/dense/linear_steps_of.h"
#include "gpukit/ops/matmul/linear_impl.h"

namespace gpukit::cuda {
namespace {

const std::vector<DType> kDTypes = {DType::float16, DType::bfloat16};
const jit::KernelSet end_kernels("gpukit/ops/matmul/dense/linear_end.cuh", {"gpukit::linear_end<{T}>"}, kDTypes);
const jit::KernelSet swiglu_kernels("gpukit/ops/matmul/dense/linear_end.cuh", {"gpukit::swiglu_end<{T}>"}, kDTypes);

jit::LaunchConfig config_of(const Array& out) {
  constexpr int64_t kThreads = 256, kMaxBlocks = 1 << 20;
  const int64_t blocks = std::min(ceil_div(out.size(), kThreads), kMaxBlocks);
  return {.grid_x = static_cast<unsigned>(blocks),
          .block_x = static_cast<unsigned>(kThreads),
          .overlaps = may_start_early(out, blocks)};
}

LinearEnd shape_of(const Array& out) { return {out.shape(0), out.shape(1), out.strides()[0]}; }

bool has_dense_rows(const Array& x) { return x.strides()[x.ndim() - 1] == 1 || x.shape(-1) == 1; }

/// `x`, or a copy whose rows are dense.
Array dense_rows(const Array& x, Temporaries& temporaries) {
  if (!x.defined() || has_dense_rows(x)) return x;
  const Array dense = temporaries.empty_like(x);
  copy_into(dense, x);
  return dense;
}

}  // namespace

void end_linear(const Array& out, const Array& sums, const LinearOptions& options) {
  Temporaries temporaries("linear");
  const Array bias = dense_rows(options.bias, temporaries), residual = dense_rows(options.residual, temporaries);
  const Array target = has_dense_rows(out) ? out : temporaries.empty_like(out);
  jit::launch(end_kernels.get(0, out.dtype()), out.device(), config_of(out), write(target), read(sums), read_if(bias),
              read_if(residual), steps_of(options, residual), shape_of(target));
  if (!has_dense_rows(out)) copy_into(out, target);
}

void end_swiglu(const Array& out, const Array& gate, const Array& up) {
  Temporaries temporaries("linear_swiglu");
  const Array target = has_dense_rows(out) ? out : temporaries.empty_like(out);
  jit::launch(swiglu_kernels.get(0, out.dtype()), out.device(), config_of(out), write(target), read(gate), read(up),
              shape_of(target));
  if (!has_dense_rows(out)) copy_into(out, target);
}

}  // namespace gpukit::cuda
