#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/softmax/softmax.h"

namespace gpukit::cuda {

namespace {

constexpr int kSplit = 6;  // after the forms of RowForm, each with 16-byte accesses and without; three passes

const jit::KernelSet kernels("gpukit/ops/softmax/softmax.cuh",
                             {"gpukit::softmax_rows<{T}, true>", "gpukit::softmax_rows<{T}, false>",
                              "gpukit::softmax_wide<{T}, true>", "gpukit::softmax_wide<{T}, false>",
                              "gpukit::softmax_columns<{T}, true>", "gpukit::softmax_columns<{T}, false>",
                              "gpukit::softmax_split<{T}, true, gpukit::SplitPass::maxima>",
                              "gpukit::softmax_split<{T}, false, gpukit::SplitPass::maxima>",
                              "gpukit::softmax_split<{T}, true, gpukit::SplitPass::sums>",
                              "gpukit::softmax_split<{T}, false, gpukit::SplitPass::sums>",
                              "gpukit::softmax_split<{T}, true, gpukit::SplitPass::results>",
                              "gpukit::softmax_split<{T}, false, gpukit::SplitPass::results>"},
                             {DType::float16, DType::bfloat16, DType::float32, DType::float64});

/// Few long rows: several blocks each.
void softmax_split(const Array& out, const Array& input, const RowPlan& plan, const RowSplit& split) {
  Temporaries temporaries("softmax");
  const DType dtype = input.dtype();
  RowParams p = plan.params;
  p.chunks_per_warp = split.chunks_per_warp;
  const Array partials = temporaries.empty({2 * p.rows * split.segments},
                                           dtype == DType::float64 ? dtype : DType::float32, input.device());
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(p.rows * split.segments), .block_x = plan.block};
  for (int pass = 0; pass < 3; ++pass)
    jit::launch(kernels.get(kSplit + 2 * pass + (plan.vector ? 0 : 1), dtype), input.device(), config, write(out),
                read(input), write(partials), p, make_divisor(split.segments));
}

}  // namespace

void softmax(const Array& out, const Array& input, int axis) {
  const bool aligned = is_aligned(out) && is_aligned(input);
  const int bytes = itemsize(input.dtype());
  const RowPlan plan = plan_rows(input.shape(), input.strides(), out.strides(), axis, bytes, aligned, true);
  const RowSplit split = split_rows(plan, bytes);
  if (split.segments > 1) return softmax_split(out, input, plan, split);
  const jit::LaunchConfig config{.grid_x = plan.grid, .block_x = plan.block, .shared_bytes = plan.shared_bytes};
  const int kernel = 2 * static_cast<int>(plan.form) + (plan.vector ? 0 : 1);
  jit::launch(kernels.get(kernel, input.dtype()), input.device(), config, write(out), read(input), plan.params);
}

}  // namespace gpukit::cuda
