#include <algorithm>
#include <limits>
#include <vector>

#include "gpukit/base/env.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/tensor_map.h"
#include "gpukit/ops/matmul/dense/gemm_sm90.h"
#include "gpukit/ops/matmul/dense/gemv.h"
#include "gpukit/ops/matmul/dense/linear_steps_of.h"
#include "gpukit/ops/matmul/linear_impl.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/runtime/session.h"

namespace gpukit::cuda {
namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max() / 2;
const std::vector<DType> kDTypes = {DType::float16, DType::bfloat16};

jit::KernelSet make_set(const std::string& name) {
  return jit::KernelSet("gpukit/ops/matmul/dense/gemm_sm90.cuh", {name}, kDTypes, {"90a"});
}

/// What a kernel is made for, and what its tiles cost, in slices of 64 of K of a tile of 128 x 128 (measured on an
/// H200): a slice, and what follows a tile while no one multiplies.
struct Form {
  LinearForm tile;
  double slice, end;
};
constexpr Form kForms[] = {{{128, 128}, 1.03, 3}, {{128, 256}, 2, 6}, {{64, 128}, 0.57, 4}};

/// What follows the product: a bias or an activation, a residual, or both.
enum class Steps { bias, residual, both };
constexpr const char* kSteps[] = {"gpukit::kBias", "gpukit::kResidual", "gpukit::kBias + gpukit::kResidual"};

/// By steps and form.
const std::vector<jit::KernelSet> sets = [] {
  std::vector<jit::KernelSet> made;
  for (const char* steps : kSteps)
    for (const Form& f : kForms)
      made.push_back(make_set("gpukit::gemm90_linear<{T}, " + std::to_string(f.tile.rows) + ", " +
                              std::to_string(f.tile.columns) + ", " + steps + ">"));
  return made;
}();

const jit::KernelSet& set_of(Steps steps, const LinearForm& tile) {
  const auto form = std::ranges::find(kForms, tile, &Form::tile) - std::begin(kForms);
  return sets[static_cast<size_t>(steps) * std::size(kForms) + static_cast<size_t>(form)];
}

const jit::KernelSet wide_swiglu = make_set("gpukit::gemm90_swiglu<{T}, {T}, 128, 256, 0>");
const jit::KernelSet narrow_swiglu = make_set("gpukit::gemm90_swiglu<{T}, {T}, 128, 128, 0>");

/// Rows of dense 16-bit elements that start at multiples of 16 bytes, whether there is one or more, and end there: the
/// copy engine writes whole pieces.
bool engine_takes(const Array& x) {
  return is_aligned(x) && x.strides()[1] == 1 && x.shape(1) % 8 == 0 &&
         (x.shape(0) == 1 || (x.strides()[0] > 0 && x.strides()[0] % 8 == 0));
}

/// Whether a fused kernel serves these weights, of any number of rows whose elements lie densely and aligned.
bool has_kernel(const Array& weight) {
  return weight.context().properties().sm_major == 9 && weight.shape(0) % 8 == 0 && weight.shape(1) > 0 &&
         std::max(weight.shape(0), weight.shape(1)) <= kMaxExtent && engine_takes(weight);
}

bool fits(const Array& out, const Array& input, const Array& weight) {
  return has_kernel(weight) && out.shape(0) <= kMaxExtent && engine_takes(out) && engine_takes(input);
}

jit::Boxes tensor_map(const memory::Use& use, const Array& x, int columns, int rows) {
  return {use, row_boxes(x.dtype(), x.shape(1), x.shape(0), x.strides()[0], columns, rows)};
}

/// A tile of `form`, which has `columns` columns of the output.
struct Shape {
  Gemm90Tile tile;
  jit::LaunchConfig config;
  Gemm90Problem problem;

  Shape(const Array& out, const Array& input, const LinearForm& form, int columns)
      : tile{form.rows, form.columns, 2, 2, Gemm90Store::tma} {
    const int64_t m = out.shape(0), n = out.shape(1), row_tiles = ceil_div(m, form.rows);
    const int64_t tiles = row_tiles * ceil_div(n, columns);
    const int sm_count = runtime::current_sm_count(out.device());
    config = {.grid_x = static_cast<unsigned>(std::min<int64_t>(tiles, sm_count)),
              .block_x = static_cast<unsigned>(tile.threads()),
              .shared_bytes = static_cast<unsigned>(tile.shared_bytes()),
              .overlaps = fused_gemm90_overlaps(tile, input.shape(1), tiles, sm_count)};
    problem = {.m = static_cast<int32_t>(m),
               .n = static_cast<int32_t>(n),
               .k = static_cast<int32_t>(input.shape(1)),
               .batches = 1,
               .a_step = 0,
               .b_step = 0,
               .group = static_cast<int32_t>(std::min<int64_t>(8, row_tiles)),
               .out_m = out.strides()[0],
               .out_n = 1,
               .out_batch = 0};
  }
};

}  // namespace

LinearForm choose_linear_form(int64_t m, int64_t n, int64_t k, int loaded, int sm_count) {
  const auto slices = static_cast<double>(ceil_div(k, 64));
  const auto cost = [&](const Form& f) {
    const int64_t tiles = ceil_div(m, f.tile.rows) * ceil_div(n, f.tile.columns / loaded);
    return static_cast<double>(ceil_div(tiles, sm_count)) * (slices * f.slice + f.end);
  };
  const Form* best = &kForms[0];
  for (const Form& f : kForms)
    // A pair has no low tiles.
    if ((loaded == 1 || f.tile.rows == 128) && cost(f) < cost(*best)) best = &f;
  return best->tile;
}

namespace {

bool is_dense(const Array& x) { return !x.defined() || x.strides()[x.ndim() - 1] == 1 || x.shape(-1) == 1; }

/// Many rows: tiles of gemm_sm90.cuh with an epilogue.
bool launch_tiles(const Array& out, const Array& input, const Array& weight, const LinearOptions& options) {
  const Array &bias = options.bias, &residual = options.residual;
  if (!fits(out, input, weight) || (bias.defined() && !is_aligned(bias))) return false;
  if (residual.defined() && !engine_takes(residual)) return false;
  const LinearForm form =
      choose_linear_form(out.shape(0), out.shape(1), input.shape(1), 1, runtime::current_sm_count(out.device()));
  const Shape shape(out, input, form, form.columns);
  const Gemm90Epilogue epilogue{
      .alpha = options.alpha, .activation = code_of(options.activation), .scale_m = 0, .scale_n = 0};
  const bool first = bias.defined() || options.activation != Activation::none;
  const Steps steps = !residual.defined() ? Steps::bias : first ? Steps::both : Steps::residual;
  // The third map is read where there is a residual; else any will do.
  const jit::Boxes results = tensor_map(write(out), out, 64, 64);
  const jit::Boxes added = residual.defined() ? tensor_map(read(residual), residual, 64, form.rows) : results;
  jit::launch(set_of(steps, form).get(0, input.dtype()), out.device(), shape.config,
              tensor_map(read(input), input, 64, form.rows), tensor_map(read(weight), weight, 64, form.columns), added,
              results, write(out), shape.problem, epilogue, read_if(bias));
  return true;
}

}  // namespace

namespace {

/// Of one row, where its bits may differ from those of more.
std::optional<GemvPlan> plan_gemv_layer(const Array& out, const Array& input, const Array& weight) {
  if (input.shape(0) != 1 || runtime::determinism() == env::Determinism::batch_invariant) return std::nullopt;
  const MatmulProblem problem = matrix_problem(out.strides(), input, weight.transpose());
  const auto plan = plan_gemv(gemv_product(problem, input, weight, out.dtype()));
  return plan && !plan->columns && !plan->w_is_a ? plan : std::nullopt;
}

}  // namespace

bool launch_linear(const Array& out, const Array& input, const Array& weight, const LinearOptions& options) {
  if (!is_dense(options.bias) || !is_dense(options.residual)) return false;
  const LinearSteps steps = steps_of(options, options.residual);
  if (const auto plan = plan_gemv_layer(out, input, weight)) {
    launch_gemv_linear(*plan, out, input, weight, steps, options.bias, options.residual);
    return true;
  }
  const MatmulProblem problem = matrix_problem(out.strides(), input, weight.transpose());
  if (weight.context().properties().sm_major != 9) return false;
  const auto& plan = cached_plan_gemm90(problem, {.input = input.dtype(),
                                                  .out = out.dtype(),
                                                  .a_aligned = is_aligned(input),
                                                  .b_aligned = is_aligned(weight),
                                                  .out_aligned = is_aligned(out),
                                                  .sm_count = runtime::current_sm_count(out.device())});
  if (plan && plan->swap_ab.rows > 0 && plan->swapped) {
    launch_gemm90_swap_ab_linear(*plan, out, input, weight, steps, options.bias, options.residual);
    return true;
  }
  return launch_tiles(out, input, weight, options);
}

bool launch_linear_swiglu(const Array& out, const Array& input, const Array& gate, const Array& up) {
  if (const auto plan = plan_gemv_layer(out, input, gate); plan && is_aligned(up) && up.strides() == gate.strides()) {
    launch_gemv_swiglu(*plan, out, input, gate, up);
    return true;
  }
  // Few rows are two products at the speed of memory.
  constexpr int64_t kMostOfTwoProducts = 64;
  if (out.shape(0) <= kMostOfTwoProducts || !fits(out, input, gate) || !engine_takes(up)) return false;
  const LinearForm form =
      choose_linear_form(out.shape(0), out.shape(1), input.shape(1), 2, runtime::current_sm_count(out.device()));
  const int columns = form.columns / 2;
  const Shape shape(out, input, form, columns);
  const jit::KernelSet& set = form.columns == 256 ? wide_swiglu : narrow_swiglu;
  jit::launch(set.get(0, input.dtype()), out.device(), shape.config, tensor_map(read(input), input, 64, form.rows),
              tensor_map(read(gate), gate, 64, columns), tensor_map(read(up), up, 64, columns),
              tensor_map(write(out), out, 64, 64), write(out), shape.problem);
  return true;
}

}  // namespace gpukit::cuda
