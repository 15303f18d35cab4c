#include "gpukit/ops/matmul/scaled_matmul.h"

#include <nanobind/stl/string.h>

#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

Array optional(const char* op, const char* argument, nb::handle value) {
  const Array* array = python::to_optional_array(op, argument, value);
  return array != nullptr ? *array : Array();
}

Quantized to_left(const char* op, python::ArrayArg a, python::ArrayArg scale, python::ArrayArg tensor_scale) {
  return {
      python::to_array(op, "a", a), optional(op, "scale_a", scale), {}, optional(op, "tensor_scale_a", tensor_scale)};
}
Quantized to_right(const char* op, python::ArrayArg b, python::ArrayArg scale, python::ArrayArg zero,
                   python::ArrayArg tensor_scale) {
  return {python::to_array(op, "b", b), optional(op, "scale_b", scale), optional(op, "zero_b", zero),
          optional(op, "tensor_scale_b", tensor_scale)};
}

MatmulKernel to_kernel(const char* op, python::StringArg kernel) {
  if (kernel.is_none()) return MatmulKernel::automatic;
  std::string text;
  if (nb::try_cast(kernel, text)) {
    if (text == "wgmma") return MatmulKernel::wgmma;
    if (text == "cublaslt") return MatmulKernel::cublaslt;
  }
  throw ArgumentError(op, "kernel", "be 'wgmma', 'cublaslt' or None", nb::cast<std::string>(nb::str(kernel)));
}

ScaledMatmulOptions to_options(const char* op, float alpha, python::ArrayArg bias, python::DTypeArg out_dtype,
                               python::ArrayArg out_scale, python::StringArg kernel = nb::none()) {
  return {alpha, optional(op, "bias", bias), python::to_optional_dtype(out_dtype), optional(op, "out_scale", out_scale),
          to_kernel(op, kernel)};
}

}  // namespace

void bind_scaled_matmul(nb::module_& m) {
  using namespace python;
  m.def(
      "scaled_matmul",
      [](ArrayArg a, ArrayArg b, ArrayArg scale_a, ArrayArg scale_b, ArrayArg zero_b, ArrayArg tensor_scale_a,
         ArrayArg tensor_scale_b, float alpha, ArrayArg bias, DTypeArg out_dtype, ArrayArg out_scale, StringArg kernel,
         ArrayArg out) {
        constexpr const char* kOp = "scaled_matmul";
        const Quantized left = to_left(kOp, a, scale_a, tensor_scale_a);
        const Quantized right = to_right(kOp, b, scale_b, zero_b, tensor_scale_b);
        const ScaledMatmulOptions options = to_options(kOp, alpha, bias, out_dtype, out_scale, kernel);
        return with_out(kOp, out, [&](const Array* target) { return scaled_matmul(left, right, options, target); });
      },
      "a"_a, "b"_a, "scale_a"_a = nb::none(), "scale_b"_a = nb::none(), nb::kw_only(), "zero_b"_a = nb::none(),
      "tensor_scale_a"_a = nb::none(), "tensor_scale_b"_a = nb::none(), "alpha"_a = 1.0f, "bias"_a = nb::none(),
      "out_dtype"_a = nb::none(), "out_scale"_a = nb::none(), "kernel"_a = nb::none(), "out"_a = nb::none(),
      "a @ b.T * alpha + bias for a [m, k] and weights b [n, k], either or both quantised, with the scales that "
      "quantize "
      "made.\n"
      "Float results are float32, float16, bfloat16 or, divided by out_scale, float8; integers without scales are "
      "exact "
      "in int32.\n"
      "kernel='wgmma' or 'cublaslt' insists on one kind of kernel of a GPU for float8 by float8; 'wgmma' also "
      "multiplies bfloat16 by float8_e4m3 with Hopper's unit for float8, as large layers are; it keeps fewer bits of a "
      "sum.");
  m.def(
      "explain_scaled_matmul",
      [](ArrayArg a, ArrayArg b, ArrayArg scale_a, ArrayArg scale_b, ArrayArg zero_b, ArrayArg tensor_scale_a,
         ArrayArg tensor_scale_b, float alpha, ArrayArg bias, DTypeArg out_dtype, ArrayArg out_scale,
         StringArg kernel) {
        constexpr const char* kOp = "explain_scaled_matmul";
        const Quantized left = to_left(kOp, a, scale_a, tensor_scale_a);
        const Quantized right = to_right(kOp, b, scale_b, zero_b, tensor_scale_b);
        const ScaledMatmulOptions options = to_options(kOp, alpha, bias, out_dtype, out_scale, kernel);
        return in_scope([&] { return explain_scaled_matmul(left, right, options); });
      },
      "a"_a, "b"_a, "scale_a"_a = nb::none(), "scale_b"_a = nb::none(), nb::kw_only(), "zero_b"_a = nb::none(),
      "tensor_scale_a"_a = nb::none(), "tensor_scale_b"_a = nb::none(), "alpha"_a = 1.0f, "bias"_a = nb::none(),
      "out_dtype"_a = nb::none(), "out_scale"_a = nb::none(), "kernel"_a = nb::none(),
      "Which kernel scaled_matmul of the same arguments would use now, and the file it stands in.");
  m.def(
      "grouped_matmul",
      [](ArrayArg a, ArrayArg b, ArrayArg row_expert_ids, ArrayArg scale_a, ArrayArg scale_b, ArrayArg zero_b,
         ArrayArg tensor_scale_a, ArrayArg tensor_scale_b, float alpha, ArrayArg bias, DTypeArg out_dtype,
         ArrayArg out_scale, ArrayArg out) {
        constexpr const char* kOp = "grouped_matmul";
        const Quantized left = to_left(kOp, a, scale_a, tensor_scale_a);
        const Quantized right = to_right(kOp, b, scale_b, zero_b, tensor_scale_b);
        const Array& ids = to_array(kOp, "row_expert_ids", row_expert_ids);
        const ScaledMatmulOptions options = to_options(kOp, alpha, bias, out_dtype, out_scale);
        return with_out(kOp, out,
                        [&](const Array* target) { return grouped_matmul(left, right, ids, options, target); });
      },
      "a"_a, "b"_a, "row_expert_ids"_a, "scale_a"_a = nb::none(), "scale_b"_a = nb::none(), nb::kw_only(),
      "zero_b"_a = nb::none(), "tensor_scale_a"_a = nb::none(), "tensor_scale_b"_a = nb::none(), "alpha"_a = 1.0f,
      "bias"_a = nb::none(), "out_dtype"_a = nb::none(), "out_scale"_a = nb::none(), "out"_a = nb::none(),
      "scaled_matmul of each row of a [m, k] with the matrix of b [experts, n, k] that row_expert_ids, int32 [m], "
      "names.");
  m.def(
      "explain_grouped_matmul",
      [](ArrayArg a, ArrayArg b, ArrayArg row_expert_ids, ArrayArg scale_a, ArrayArg scale_b, ArrayArg zero_b,
         ArrayArg tensor_scale_a, ArrayArg tensor_scale_b, float alpha, ArrayArg bias, DTypeArg out_dtype,
         ArrayArg out_scale) {
        constexpr const char* kOp = "explain_grouped_matmul";
        const Quantized left = to_left(kOp, a, scale_a, tensor_scale_a);
        const Quantized right = to_right(kOp, b, scale_b, zero_b, tensor_scale_b);
        const Array& ids = to_array(kOp, "row_expert_ids", row_expert_ids);
        const ScaledMatmulOptions options = to_options(kOp, alpha, bias, out_dtype, out_scale);
        return in_scope([&] { return explain_grouped_matmul(left, right, ids, options); });
      },
      "a"_a, "b"_a, "row_expert_ids"_a, "scale_a"_a = nb::none(), "scale_b"_a = nb::none(), nb::kw_only(),
      "zero_b"_a = nb::none(), "tensor_scale_a"_a = nb::none(), "tensor_scale_b"_a = nb::none(), "alpha"_a = 1.0f,
      "bias"_a = nb::none(), "out_dtype"_a = nb::none(), "out_scale"_a = nb::none(),
      "How grouped_matmul of the same arguments would be computed now, in one line: kernel, tiles, grid and the order "
      "of the sums.");
}

}  // namespace gpukit
