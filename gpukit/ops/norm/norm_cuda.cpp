#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/norm/norm.h"

namespace gpukit::cuda {

namespace {

/// Forms registers and wide of RowForm, each with 16-byte accesses and without.
std::vector<std::string> kernel_names(const std::string& op) {
  const std::string name = "gpukit::" + op;
  return {name + "_rows<{T}, true>", name + "_rows<{T}, false>", name + "_wide<{T}, true>", name + "_wide<{T}, false>"};
}

constexpr const char* kSource = "gpukit/ops/norm/norm.cuh";
using enum DType;
const jit::KernelSet rmsnorms(kSource, kernel_names("rmsnorm"), {float16, bfloat16, float32, float64});
const jit::KernelSet layernorms(kSource, kernel_names("layernorm"), {float16, bfloat16, float32, float64});

const jit::KernelSet l2norms(kSource, kernel_names("l2norm"), {float16, bfloat16, float32, float64});

bool is_vector(const Array& weight) { return is_aligned(weight) && weight.is_contiguous(); }

template <typename Real>
void launch(const RowPlan& plan, const Array& out, const Array& input, const Array* gamma, const Array* beta,
            Real eps) {
  const jit::LaunchConfig config{
      .grid_x = plan.grid, .block_x = plan.block, .overlaps = may_start_early(out, plan.grid)};
  const int kernel = 2 * static_cast<int>(plan.form) + (plan.vector ? 0 : 1);
  if (gamma == nullptr) {
    jit::launch(l2norms.get(kernel, input.dtype()), input.device(), config, write(out), read(input), eps, plan.params);
    return;
  }
  const int64_t gamma_step = gamma->strides()[0];
  if (beta == nullptr) {
    jit::launch(rmsnorms.get(kernel, input.dtype()), input.device(), config, write(out), read(input), read(*gamma), eps,
                gamma_step, plan.params);
    return;
  }
  jit::launch(layernorms.get(kernel, input.dtype()), input.device(), config, write(out), read(input), read(*gamma),
              read(*beta), eps, gamma_step, beta->strides()[0], plan.params);
}

}  // namespace

void normalize(const Array& out, const Array& input, const Array* gamma, const Array* beta, double eps) {
  const bool aligned = is_aligned(out) && is_aligned(input) && (gamma == nullptr || is_vector(*gamma)) &&
                       (beta == nullptr || is_vector(*beta));
  const RowPlan plan = plan_rows(input.shape(), input.strides(), out.strides(), input.ndim() - 1,
                                 itemsize(input.dtype()), aligned, false);
  if (input.dtype() == float64)
    launch(plan, out, input, gamma, beta, eps);
  else
    launch(plan, out, input, gamma, beta, static_cast<float>(eps));
}

}  // namespace gpukit::cuda
