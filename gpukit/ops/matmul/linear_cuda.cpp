#include <algorithm>
#include <limits>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/matmul/linear.h"

namespace gpukit::cuda {
namespace {

constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max() / 2;
const std::vector<DType> kDTypes = {DType::float16, DType::bfloat16};

jit::KernelSet make_set(const std::string& name) {
  return jit::KernelSet("gpukit/ops/matmul/gemm90.cuh", {name}, kDTypes, {"90a"});
}

/// A bias or an activation, a residual, or both; by form. With both there is room for narrow shared tiles alone. Low
/// tiles have 64 rows.
const jit::KernelSet wide_bias = make_set("gpukit::gemm90_fused<{T}, {T}, 128, 256, 0, 0, gpukit::kBias>");
const jit::KernelSet wide_residual = make_set("gpukit::gemm90_fused<{T}, {T}, 128, 256, 0, 0, gpukit::kResidual>");
const jit::KernelSet narrow_bias = make_set("gpukit::gemm90_fused<{T}, {T}, 128, 128, 0, 0, gpukit::kBias>");
const jit::KernelSet narrow_residual = make_set("gpukit::gemm90_fused<{T}, {T}, 128, 128, 0, 0, gpukit::kResidual>");
const jit::KernelSet narrow_both =
    make_set("gpukit::gemm90_fused<{T}, {T}, 128, 128, 0, 0, gpukit::kBias + gpukit::kResidual>");
const jit::KernelSet low_bias = make_set("gpukit::gemm90_fused<{T}, {T}, 64, 128, 0, 0, gpukit::kBias>");
const jit::KernelSet low_residual = make_set("gpukit::gemm90_fused<{T}, {T}, 64, 128, 0, 0, gpukit::kResidual>");
const jit::KernelSet low_both =
    make_set("gpukit::gemm90_fused<{T}, {T}, 64, 128, 0, 0, gpukit::kBias + gpukit::kResidual>");
const jit::KernelSet turns_bias = make_set("gpukit::gemm90_fused<{T}, {T}, 128, 128, 0, 0, gpukit::kBias, true>");
const jit::KernelSet turns_residual =
    make_set("gpukit::gemm90_fused<{T}, {T}, 128, 128, 0, 0, gpukit::kResidual, true>");
const jit::KernelSet wide_swiglu = make_set("gpukit::gemm90_swiglu<{T}, {T}, 128, 256, 0>");
const jit::KernelSet narrow_swiglu = make_set("gpukit::gemm90_swiglu<{T}, {T}, 128, 128, 0>");

/// Rows of dense 16-bit elements that start at multiples of 16 bytes, whether there is one or more, and end there: the
/// copy engine writes whole pieces.
bool engine_takes(const Array& x) {
  return is_aligned(x) && x.strides()[1] == 1 && x.shape(1) % 8 == 0 &&
         (x.shape(0) == 1 || (x.strides()[0] > 0 && x.strides()[0] % 8 == 0));
}

bool fits(const Array& out, const Array& input, const Array& weight) {
  return linear_has_kernel(weight) && out.shape(0) <= kMaxExtent && engine_takes(out) && engine_takes(input);
}

jit::Boxes boxes(const memory::Use& use, const Array& x, int columns, int rows) {
  driver::BoxLayout l;
  l.dtype = x.dtype();
  l.shape[0] = x.shape(1);
  l.shape[1] = x.shape(0);
  l.strides[0] = l.strides[1] = x.shape(0) == 1 ? ceil_div(x.shape(1) * 2, 16) * 16 : x.strides()[0] * 2;
  l.box[0] = columns;
  l.box[1] = rows;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  return {use, l};
}

/// A tile of `form`, which has `columns` columns of the output.
struct Shape {
  Gemm90Tile tile;
  jit::LaunchConfig config;
  Gemm90Space space;

  Shape(const Array& out, const Array& input, const LinearForm& form, int columns)
      : tile{form.rows, form.columns, 2, 2, Gemm90Store::boxes} {
    const int64_t m = out.shape(0), n = out.shape(1), row_tiles = ceil_div(m, form.rows);
    const int64_t tiles = row_tiles * ceil_div(n, columns);
    config = {.grid_x = static_cast<unsigned>(std::min<int64_t>(tiles, runtime::current_sm_count(out.device()))),
              .block_x = static_cast<unsigned>(tile.threads()),
              .shared_bytes = static_cast<unsigned>(tile.shared_bytes())};
    space = {.m = static_cast<int32_t>(m),
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

bool linear_has_kernel(const Array& weight) {
  return weight.context().properties().sm_major == 9 &&
         (weight.dtype() == DType::float16 || weight.dtype() == DType::bfloat16) && weight.shape(0) % 8 == 0 &&
         weight.shape(1) > 0 && std::max(weight.shape(0), weight.shape(1)) <= kMaxExtent && engine_takes(weight);
}

LinearForm choose_linear_form(int64_t m, int64_t n, int64_t k, int loaded, bool narrow, int sm_count) {
  // In slices of 64 of K of a narrow tile (measured on an H200): a slice, what follows a tile while no one multiplies,
  // and what follows the last one.
  struct Cost {
    LinearForm form;
    double slice, tile, last;
  };
  constexpr Cost kCosts[] = {{{128, 128, false}, 1.03, 3, 0},
                             {{128, 256, false}, 2, 6, 0},
                             {{128, 128, true}, 1.03, 0, 6},
                             {{64, 128, false}, 0.57, 4, 0}};
  const auto slices = static_cast<double>(ceil_div(k, 64));
  const auto cost = [&](const Cost& c) {
    const int64_t tiles = ceil_div(m, c.form.rows) * ceil_div(n, c.form.columns / loaded);
    return static_cast<double>(ceil_div(tiles, sm_count)) * (slices * c.slice + c.tile) + c.last;
  };
  const Cost* best = &kCosts[0];
  for (const Cost& c : kCosts) {
    const bool fits = !narrow || (c.form.columns == 128 && !c.form.turns);
    // A pair is finished too soon for turns to pay, and has no low tiles.
    const bool has_pairs = !c.form.turns && c.form.rows == 128;
    if (fits && (loaded == 1 || has_pairs) && cost(c) < cost(*best)) best = &c;
  }
  return best->form;
}

bool launch_linear(const Array& out, const Array& input, const Array& weight, const LinearOptions& options) {
  if (!fits(out, input, weight)) return false;
  const Array &bias = options.bias, &residual = options.residual;
  if (bias.defined() && (!is_aligned(bias) || (bias.strides()[0] != 1 && bias.shape(0) > 1))) return false;
  if (residual.defined() && !engine_takes(residual)) return false;
  const bool first = bias.defined() || options.activation != Activation::none;
  const bool both = first && residual.defined();
  const LinearForm form =
      choose_linear_form(out.shape(0), out.shape(1), input.shape(1), 1, both, runtime::current_sm_count(out.device()));
  const auto by_form = [&](const auto& narrow, const auto& low, const auto& wide, const auto& turns) -> const auto& {
    return form.turns ? turns : form.columns == 256 ? wide : form.rows == 64 ? low : narrow;
  };
  const jit::KernelSet& set = both && form.rows == 64 ? low_both
                              : both                  ? narrow_both
                              : residual.defined()
                                  ? by_form(narrow_residual, low_residual, wide_residual, turns_residual)
                                  : by_form(narrow_bias, low_bias, wide_bias, turns_bias);
  const Shape shape(out, input, form, form.columns);
  const Gemm90Epilogue epilogue{.alpha = options.alpha,
                                .activation = options.activation,
                                .scale_m = 0,
                                .scale_n = 0,
                                .residual_m = residual.defined() ? residual.strides()[0] : 0,
                                .residual_batch = 0};
  jit::launch(set.get(0, input.dtype()), out.device(), shape.config, boxes(read(input), input, 64, form.rows),
              boxes(read(weight), weight, 64, form.columns), boxes(write(out), out, 64, 64), write(out), shape.space,
              epilogue, read_if(bias), read_if(residual), memory::Use{}, memory::Use{});
  return true;
}

bool launch_linear_swiglu(const Array& out, const Array& input, const Array& gate, const Array& up) {
  if (!fits(out, input, gate) || !engine_takes(up)) return false;
  const LinearForm form =
      choose_linear_form(out.shape(0), out.shape(1), input.shape(1), 2, false, runtime::current_sm_count(out.device()));
  const int columns = form.columns / 2;
  const Shape shape(out, input, form, columns);
  const jit::KernelSet& set = form.columns == 256 ? wide_swiglu : narrow_swiglu;
  jit::launch(set.get(0, input.dtype()), out.device(), shape.config, boxes(read(input), input, 64, form.rows),
              boxes(read(gate), gate, 64, columns), boxes(read(up), up, 64, columns), boxes(write(out), out, 64, 64),
              write(out), shape.space);
  return true;
}

}  // namespace gpukit::cuda
