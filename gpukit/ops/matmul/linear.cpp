#include "gpukit/ops/matmul/linear.h"

#include <initializer_list>
#include <optional>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/runtime/session.h"

namespace gpukit {
namespace {

Dims with_last(const Dims& shape, int64_t last) {
  Dims result = shape;
  result[shape.rank() - 1] = last;
  return result;
}

/// Checks input and one weight and gives the shape of the result.
Dims check_layer(const char* op, const Array& input, const char* weight_name, const Array& weight) {
  check_same_device(op, input, weight);
  check_floating(op, "input", input);
  check_dtype(op, weight_name, weight, input.dtype());
  if (input.ndim() == 0) throw ShapeError(op, "input", "have at least one dimension", "a 0-d array");
  if (weight.ndim() != 2) throw ShapeError(op, weight_name, "be a 2D array (2 dimensions)", weight.shape().str());
  const int64_t k = input.shape(input.ndim() - 1);
  if (weight.shape(1) != k)
    throw ShapeError(op, weight_name, "have " + std::to_string(k) + " columns, as input has", weight.shape().str());
  return with_last(input.shape(), weight.shape(0));
}

/// Any part of both is the same memory.
bool share_memory(const Array& a, const Array& b) { return b.defined() && a.storage() == b.storage(); }

/// The rows of an array as one matrix, where no copy is needed.
std::optional<Array> as_matrix(const Array& x) {
  if (x.ndim() == 2) return x;
  if (!x.is_contiguous() || x.size() == 0) return std::nullopt;
  const int64_t columns = x.shape(x.ndim() - 1);
  return x.reshape_view({x.size() / columns, columns});
}

/// `launch(out, input, residual)` takes matrices, and gives false where they lie in a way it cannot serve. The steps of
/// compose() round otherwise, so under batch_invariant a batch that lies so is copied: `has_kernel`, which follows from
/// the weights alone, then decides who serves. `overlaps`: the result is written before everything is read.
template <typename Launch>
bool launch_rows(const Array& result, const Array& input, const Array& residual, bool overlaps, bool has_kernel,
                 const Launch& launch) {
  if (!has_kernel) return false;
  if (!overlaps) {
    const auto out = as_matrix(result), rows = as_matrix(input);
    const auto added = residual.defined() ? as_matrix(residual) : std::optional<Array>(Array());
    if (out && rows && added && launch(*out, *rows, *added)) return true;
  }
  if (runtime::determinism() != env::Determinism::batch_invariant) return false;
  const Array out = empty(result.shape(), result.dtype(), result.device());
  const Array added = residual.defined() ? *as_matrix(copy(residual)) : Array();
  if (!launch(*as_matrix(out), *as_matrix(copy(input)), added)) return false;
  copy_into(result, out);
  return true;
}

void activate(const Array& x, Activation activation, const Array& out) {
  switch (activation) {
    case Activation::relu: relu(x, &out); break;
    case Activation::gelu: gelu(x, &out); break;
    case Activation::silu: silu(x, &out); break;
    case Activation::none: break;
  }
}

/// Step by step in the dtype of the sums.
Array compose(const char* op, const Array& input, const Array& weight, const LinearOptions& options, const Array* out) {
  const DType dtype = input.dtype(), wide = matmul_wide_dtype(dtype);
  const Array sums = matmul(input, weight.transpose(), nullptr, {.out_dtype = wide});
  if (options.alpha != 1.0f) multiply(sums, Scalar(static_cast<double>(options.alpha)), &sums);
  if (options.bias.defined()) add(sums, astype(options.bias, wide), &sums);
  if (options.activation != Activation::none) activate(sums, options.activation, sums);
  if (options.residual.defined()) add(sums, astype(options.residual, wide), &sums);
  return cast(op, sums, dtype, out);
}

/// The result may be written before the steps have read everything else.
bool writes_ahead(const Array& out, std::initializer_list<const Array*> inputs) {
  for (const Array* x : inputs)
    if (share_memory(out, *x)) return true;
  return false;
}

Array layer(const char* op, const Array& input, const Array& weight, const LinearOptions& options, const Array* out) {
  const Dims shape = check_layer(op, input, "weight", weight);
  if (options.bias.defined()) {
    check_same_device(op, input, options.bias);
    check_dtype(op, "bias", options.bias, input.dtype());
    check_shape(op, "bias", options.bias, {weight.shape(0)});
  }
  if (options.residual.defined()) {
    check_same_device(op, input, options.residual);
    check_dtype(op, "residual", options.residual, input.dtype());
    check_shape(op, "residual", options.residual, shape);
  }
  const Array result = gpukit::result(op, out, shape, input.dtype(), input.device());
  if (result.size() == 0) return result;
  const auto launch = [&](const Array& target, const Array& rows, const Array& residual) {
    return cuda::launch_linear(target, rows, weight, {options.bias, options.activation, residual, options.alpha});
  };
  const bool overlaps = out != nullptr && writes_ahead(result, {&input, &weight, &options.bias, &options.residual});
  const bool has_kernel = input.device().kind == DeviceKind::cuda && cuda::linear_has_kernel(weight);
  if (launch_rows(result, input, options.residual, overlaps, has_kernel, launch)) return result;
  return compose(op, input, weight, options, &result);
}

}  // namespace

Array linear(const Array& input, const Array& weight, const LinearOptions& options, const Array* out) {
  return layer("linear", input, weight, options, out);
}

Array linear_swiglu(const Array& input, const Array& gate, const Array& up, const Array* out) {
  constexpr const char* kOp = "linear_swiglu";
  const Dims shape = check_layer(kOp, input, "gate", gate);
  check_layer(kOp, input, "up", up);
  check_shape(kOp, "up", up, gate.shape());
  const Array result = gpukit::result(kOp, out, shape, input.dtype(), input.device());
  if (result.size() == 0) return result;
  const auto launch = [&](const Array& target, const Array& rows, const Array&) {
    return cuda::launch_linear_swiglu(target, rows, gate, up);
  };
  const bool overlaps = out != nullptr && writes_ahead(result, {&input, &gate, &up});
  const bool has_kernel = input.device().kind == DeviceKind::cuda && cuda::linear_has_kernel(gate);
  if (launch_rows(result, input, {}, overlaps, has_kernel, launch)) return result;
  const DType wide = matmul_wide_dtype(input.dtype());
  const Array gated = matmul(input, gate.transpose(), nullptr, {.out_dtype = wide});
  const Array other = matmul(input, up.transpose(), nullptr, {.out_dtype = wide});
  silu(gated, &gated);
  multiply(gated, other, &gated);
  return cast(kOp, gated, input.dtype(), &result);
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
