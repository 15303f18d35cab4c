#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/softmax/softmax.h"

namespace gpukit::cuda {

namespace {

/// Forms of RowForm, each with 16-byte accesses and without.
const jit::KernelSet kernels("gpukit/ops/softmax/softmax.cuh",
                             {"gpukit::softmax_rows<{T}, true>", "gpukit::softmax_rows<{T}, false>",
                              "gpukit::softmax_wide<{T}, true>", "gpukit::softmax_wide<{T}, false>",
                              "gpukit::softmax_columns<{T}, true>", "gpukit::softmax_columns<{T}, false>"},
                             {DType::float16, DType::bfloat16, DType::float32, DType::float64});

}  // namespace

void softmax(const Array& out, const Array& input, int axis) {
  const bool aligned = is_aligned(out) && is_aligned(input);
  const RowPlan plan =
      plan_rows(input.shape(), input.strides(), out.strides(), axis, itemsize(input.dtype()), aligned, true);
  const jit::LaunchConfig config{.grid_x = plan.grid, .block_x = plan.block, .shared_bytes = plan.shared_bytes};
  const int kernel = 2 * static_cast<int>(plan.form) + (plan.vector ? 0 : 1);
  jit::launch(kernels.get(kernel, input.dtype()), input.device(), config, write(out), read(input), plan.params);
}

}  // namespace gpukit::cuda
