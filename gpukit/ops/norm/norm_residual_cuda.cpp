#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/norm/norm_residual.h"

namespace gpukit::cuda {

namespace {

/// Of norm_residual.cuh.
struct ResidualParams {
  int64_t residual_row, sum_row;
};

/// Forms registers and wide of RowForm, each with 16-byte accesses and without.
std::vector<std::string> kernel_names(const char* shift) {
  std::vector<std::string> names;
  for (const char* form : {"rows", "wide"})
    for (const char* vector : {"true", "false"})
      names.push_back(std::string("gpukit::norm_residual_") + form + "<{T}, " + vector + ", " + shift + ">");
  return names;
}

constexpr const char* kSource = "gpukit/ops/norm/norm_residual.cuh";
using enum DType;
const jit::KernelSet rmsnorms(kSource, kernel_names("false"), {float16, bfloat16, float32, float64});
const jit::KernelSet layernorms(kSource, kernel_names("true"), {float16, bfloat16, float32, float64});

template <typename Real>
void launch(const RowPlan& plan, const ResidualRows& r, Real eps) {
  const ResidualParams q{r.residual.strides()[0], r.sum.defined() ? r.sum.strides()[0] : 0};
  const int kernel = 2 * static_cast<int>(plan.form) + (plan.vector ? 0 : 1);
  jit::launch((r.beta.defined() ? layernorms : rmsnorms).get(kernel, r.x.dtype()), r.x.device(),
              {.grid_x = plan.grid, .block_x = plan.block}, write(r.out), write_if(r.sum), read(r.x), read(r.residual),
              read(r.gamma), read_if(r.beta), eps, q, plan.params);
}

}  // namespace

void norm_residual(const ResidualRows& r, double eps) {
  const int bytes = itemsize(r.x.dtype());
  const int64_t v = 16 / bytes;
  bool aligned = true;
  for (const Array* a : {&r.out, &r.x, &r.residual, &r.gamma, &r.sum, &r.beta})
    if (a->defined()) aligned = aligned && is_aligned(*a) && (a->ndim() == 1 || a->strides()[0] % v == 0);
  const RowPlan plan = plan_rows(r.x.shape(), r.x.strides(), r.out.strides(), 1, bytes, aligned, false);
  if (r.x.dtype() == float64)
    launch(plan, r, eps);
  else
    launch(plan, r, static_cast<float>(eps));
}

}  // namespace gpukit::cuda
