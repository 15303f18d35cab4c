#include "gpukit/ops/matmul/linear.h"

#include <optional>
#include <string>

#include "gpukit/ops/activation/activation.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/matmul/linear_impl.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit {
namespace {

bool is_short(DType d) { return d == DType::float16 || d == DType::bfloat16; }

Dims with_last(const Dims& shape, int64_t last) {
  Dims result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

/// A matrix as the caller gave it: an array in any layout, or a Weight.
struct Matrix {
  Quantized operand;
  bool quantized = false;
  Matrix(const Array& dense) : operand(dense) {}
  Matrix(const Weight& w) : operand(w.parts()), quantized(w.is_quantized()) {}
  const Array& data() const { return operand.data; }
  int64_t columns() const { return data().shape(1) * (is_packed(data().dtype()) ? 2 : 1); }
};

void check_same_place(const char* op, const Array& input, const char* argument, const Array& x) {
  if (x.device() == input.device()) return;
  throw DeviceError(std::string(op) + ": " + argument + " is on " + str(x.device()) + ", input is on " +
                    str(input.device()) + "; move one with x.to(device)");
}

/// Checks input and one weight and gives the shape of the result.
Dims check_layer(const char* op, const Array& input, const char* weight_name, const Matrix& weight) {
  if (!weight.data().defined()) throw ArgumentError(op, weight_name, "be a matrix", "an empty Weight");
  check_same_place(op, input, weight_name, weight.data());
  check_floating(op, "input", input);
  if (!weight.quantized)
    check_dtype(op, weight_name, weight.data(), input.dtype());
  else if (input.dtype() == DType::float64)
    throw DTypeError(op, "input", "be float16, bfloat16 or float32 beside quantised weights", name(input.dtype()));
  if (input.ndim() == 0) throw ShapeError(op, "input", "have at least one dimension", "a 0-d array");
  if (weight.data().ndim() != 2)
    throw ShapeError(op, weight_name, "be a 2D array (2 dimensions)", weight.data().shape().str());
  const int64_t k = input.shape(input.ndim() - 1);
  if (weight.columns() != k)
    throw ShapeError(op, weight_name, "have " + std::to_string(k) + " columns, as input has",
                     "[" + std::to_string(weight.data().shape(0)) + ", " + std::to_string(weight.columns()) + "]");
  return with_last(input.shape(), weight.data().shape(0));
}

bool same_view(const Array& a, const Array& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

/// The result is written before all that shares its memory is read; a residual is read where it is written.
bool writes_ahead(const Array& out, const Array& input, const Matrix& weight, const LinearOptions& options) {
  for (const Array* x : {&input, &weight.operand.data, &weight.operand.scale, &weight.operand.zero,
                         &weight.operand.tensor_scale, &options.bias})
    if (x->defined() && may_share_memory(out, *x)) return true;
  const Array& residual = options.residual;
  return residual.defined() && may_share_memory(out, residual) && !same_view(out, residual);
}

/// The rows of an array as one matrix, where no copy is needed.
std::optional<Array> as_matrix(const Array& x) {
  if (x.ndim() == 2) return x;
  if (!x.is_contiguous() || x.size() == 0) return std::nullopt;
  const int64_t columns = x.shape(x.ndim() - 1);
  return x.reshape_view({x.size() / columns, columns});
}

/// The same, copied where one is.
Array to_matrix(const Array& x, Temporaries& temporaries) {
  if (const auto matrix = as_matrix(x)) return *matrix;
  const Array dense = temporaries.empty_like(x);
  copy_into(dense, x);
  return *as_matrix(dense);
}

/// In `dtype`, cast where it has another.
Array widen(const Array& x, DType dtype, Temporaries& temporaries) {
  if (x.dtype() == dtype) return x;
  const Array wide = temporaries.empty(x.shape(), dtype, x.device());
  return cast(temporaries.op(), x, dtype, &wide);
}

/// out = alpha * input @ weight.T + bias; a dense product has neither.
void multiply(const Array& out, const Array& input, const Matrix& weight, float alpha, const Array& bias,
              Temporaries& temporaries) {
  if (weight.quantized)
    scaled_product(temporaries.op(), Quantized(input), weight.operand, {.alpha = alpha, .bias = bias}, &out);
  else
    matmul_product(temporaries.op(), input, weight.data().transpose(), {.out_dtype = out.dtype()}, &out);
}

void activate(const Array& x, Activation activation) {
  switch (activation) {
    case Activation::relu: relu(x, &x); break;
    case Activation::gelu: gelu(x, &x); break;
    case Activation::silu: silu(x, &x); break;
    case Activation::gelu_erf: gelu_erf(x, &x); break;
    case Activation::none: break;
  }
}

/// Step by step in the dtype of the sums, in `out` itself where that is its dtype and nothing there is still read.
void compose(const Array& out, const Array& input, const Matrix& weight, const LinearOptions& options,
             Temporaries& temporaries) {
  const DType wide = matmul_wide_dtype(input.dtype());
  const bool in_place = out.dtype() == wide && !(options.residual.defined() && may_share_memory(out, options.residual));
  const Array sums = in_place ? out : temporaries.empty(out.shape(), wide, out.device());
  multiply(sums, input, weight, 1.0f, {}, temporaries);
  if (options.alpha != 1.0f) gpukit::multiply(sums, Scalar(static_cast<double>(options.alpha)), &sums);
  if (options.bias.defined()) add(sums, widen(options.bias, wide, temporaries), &sums);
  activate(sums, options.activation);
  if (options.residual.defined()) {
    const bool last = out.dtype() == wide;
    add(sums, widen(options.residual, wide, temporaries), last ? &out : &sums);
    if (last) return;
  }
  if (!in_place) copy_into(out, sums);
}

/// One product of matrices, into an `out` that shares memory with a residual alone, if at all.
void run_layer(const Array& out, const Array& input, const Matrix& weight, const LinearOptions& options,
               Temporaries& temporaries) {
  const bool ends = options.activation != Activation::none || options.residual.defined();
  if (!ends && (weight.quantized || (!options.bias.defined() && options.alpha == 1.0f)))
    return multiply(out, input, weight, options.alpha, options.bias, temporaries);
  if (out.device().kind == DeviceKind::cpu || !is_short(input.dtype()))
    return compose(out, input, weight, options, temporaries);
  if (!weight.quantized && cuda::launch_linear(out, input, weight.data(), options)) return;
  const Array sums = temporaries.empty(out.shape(), DType::float32, out.device());
  multiply(sums, input, weight, 1.0f, {}, temporaries);
  cuda::end_linear(out, sums, options);
}

/// `run(out, rows, temporaries)` over the rows of input as a matrix.
template <typename Run>
Array over_rows(const char* op, const Array& result, const Array& input, bool apart, const Run& run) {
  if (result.size() == 0) return result;
  Temporaries temporaries(op);
  const auto target = apart ? std::nullopt : as_matrix(result);
  const Array made = target ? Array() : temporaries.empty_like(result);
  run(target ? *target : *as_matrix(made), to_matrix(input, temporaries), temporaries);
  if (!target) copy_into(result, made);
  return result;
}

Array layer(const char* op, const Array& input, const Matrix& weight, const LinearOptions& options, const Array* out) {
  const Dims shape = check_layer(op, input, "weight", weight);
  if (options.bias.defined()) {
    check_same_place(op, input, "bias", options.bias);
    check_dtype(op, "bias", options.bias, input.dtype());
    check_shape(op, "bias", options.bias, {weight.data().shape(0)});
  }
  if (options.residual.defined()) {
    check_same_place(op, input, "residual", options.residual);
    check_dtype(op, "residual", options.residual, input.dtype());
    check_shape(op, "residual", options.residual, shape);
  }
  const Array result = gpukit::result(op, out, shape, input.dtype(), input.device());
  const bool apart = out != nullptr && writes_ahead(result, input, weight, options);
  return over_rows(op, result, input, apart, [&](const Array& target, const Array& rows, Temporaries& temporaries) {
    LinearOptions own = options;
    if (options.residual.defined()) own.residual = to_matrix(options.residual, temporaries);
    run_layer(target, rows, weight, own, temporaries);
  });
}

Array gated(const Array& input, const Matrix& gate, const Matrix& up, const Array* out) {
  constexpr const char* kOp = "linear_swiglu";
  const Dims shape = check_layer(kOp, input, "gate", gate);
  if (check_layer(kOp, input, "up", up) != shape)
    throw ShapeError(kOp, "up", "have as many rows as gate: " + std::to_string(gate.data().shape(0)),
                     std::to_string(up.data().shape(0)));
  const Array result = gpukit::result(kOp, out, shape, input.dtype(), input.device());
  const bool apart = out != nullptr && (writes_ahead(result, input, gate, {}) || writes_ahead(result, input, up, {}));
  return over_rows(kOp, result, input, apart, [&](const Array& target, const Array& rows, Temporaries& temporaries) {
    const bool short_on_gpu = target.device().kind == DeviceKind::cuda && is_short(input.dtype());
    if (short_on_gpu && !gate.quantized && !up.quantized &&
        cuda::launch_linear_swiglu(target, rows, gate.data(), up.data()))
      return;
    const DType wide = matmul_wide_dtype(input.dtype());
    const Array first = temporaries.empty(target.shape(), wide, target.device());
    const Array second = temporaries.empty(target.shape(), wide, target.device());
    multiply(first, rows, gate, 1.0f, {}, temporaries);
    multiply(second, rows, up, 1.0f, {}, temporaries);
    if (short_on_gpu) return cuda::end_swiglu(target, first, second);
    silu(first, &first);
    gpukit::multiply(first, second, &first);
    copy_into(target, first);
  });
}

}  // namespace

Array linear(const Array& input, const Array& weight, const LinearOptions& options, const Array* out) {
  return layer("linear", input, weight, options, out);
}
Array linear(const Array& input, const Weight& weight, const LinearOptions& options, const Array* out) {
  return layer("linear", input, weight, options, out);
}

Array linear_swiglu(const Array& input, const Array& gate, const Array& up, const Array* out) {
  return gated(input, gate, up, out);
}
Array linear_swiglu(const Array& input, const Weight& gate, const Weight& up, const Array* out) {
  return gated(input, gate, up, out);
}

Array linear_bias_gelu(const Array& input, const Array& weight, const Array& bias, const Array* out) {
  constexpr const char* kOp = "linear_bias_gelu";
  if (input.ndim() != 2) {
    check_floating(kOp, "input", input);
    throw ShapeError(kOp, "input", "be a 2D array (2 dimensions)", input.shape().str());
  }
  return layer(kOp, input, weight, {.bias = bias, .activation = Activation::gelu}, out);
}

}  // namespace gpukit
