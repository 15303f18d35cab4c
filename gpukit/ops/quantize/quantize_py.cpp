#include "gpukit/ops/quantize/quantize_py.h"

#include <nanobind/stl/string.h>

namespace gpukit {
namespace {

using ArrayTuple = nb::typed<nb::tuple, Array, nb::ellipsis>;

QuantizeBlock default_block(DType format) {
  switch (format) {
    case DType::int4: return {1, 128};
    case DType::float4_e2m1: return {1, 16};
    default: return kPerRow;
  }
}

/// The caller's tuple as parts, in the order in which quantize returns them.
Quantized to_parts(nb::handle out, const QuantizeOptions& options) {
  Quantized parts;
  const nb::tuple given = nb::cast<nb::tuple>(out);
  Array* members[] = {&parts.data, &parts.scale, options.zero_point ? &parts.zero : &parts.tensor_scale};
  if (given.size() > 3)
    throw ArgumentError("quantize", "out", "be a tuple as quantize returns it",
                        std::to_string(given.size()) + " arrays");
  for (size_t i = 0; i < given.size(); ++i) *members[i] = python::to_array("quantize", "out", given[i]);
  return parts;
}

ArrayTuple to_tuple(Quantized&& q) {
  nb::list parts;
  for (Array* part : {&q.data, &q.scale, &q.zero, &q.tensor_scale})
    if (part->defined()) parts.append(python::wrap(std::move(*part)));
  return ArrayTuple(nb::tuple(parts));
}

}  // namespace

DType python::to_format(nb::handle value) {
  std::string text;
  if (nb::try_cast(value, text)) {
    if (text == "fp8_e4m3") return DType::float8_e4m3;
    if (text == "fp8_e5m2") return DType::float8_e5m2;
    if (text == "nvfp4") return DType::float4_e2m1;
    if (text != "int8" && text != "int4")
      throw ArgumentError("quantize", "format", "be 'fp8_e4m3', 'fp8_e5m2', 'int8', 'int4' or 'nvfp4'",
                          "'" + text + "'");
  }
  return to_dtype(value);
}

QuantizeBlock python::to_block(DType format, nb::handle value) {
  if (value.is_none()) return default_block(format);
  std::string text;
  if (nb::try_cast(value, text)) {
    if (text == "tensor") return kPerTensor;
    if (text == "row") return kPerRow;
    throw ArgumentError("quantize", "block", "be 'tensor', 'row', a number of columns or (rows, columns)",
                        "'" + text + "'");
  }
  const Dims sizes = to_dims("quantize", value);
  if (sizes.rank() > 2 || sizes.rank() == 0 || sizes[0] < 1 || sizes[sizes.rank() - 1] < 1)
    throw ArgumentError("quantize", "block", "be 'tensor', 'row', a number of columns or (rows, columns)", sizes.str());
  return sizes.rank() == 1 ? QuantizeBlock{1, sizes[0]} : QuantizeBlock{sizes[0], sizes[1]};
}

void bind_quantize(nb::module_& m) {
  using namespace python;
  m.def(
      "quantize",
      [](const ArrayObject& x, DTypeArg format, Shown<"str | pygpukit.typing.ShapeLike"> block, bool zero_point,
         bool tensor_scale, nb::typed<nb::handle, ArrayTuple> out) -> ArrayTuple {
        const Array& numbers = to_array("quantize", "x", x);
        const DType codes = to_format(format);
        const QuantizeOptions options{to_block(codes, block), zero_point, tensor_scale};
        if (out.is_none()) return to_tuple(in_scope([&] { return quantize(numbers, codes, options); }));
        const Quantized parts = to_parts(out, options);
        in_scope([&] { return quantize(numbers, codes, options, &parts); });
        return nb::borrow<ArrayTuple>(out);
      },
      "x"_a, "format"_a, nb::kw_only(), "block"_a = nb::none(), "zero_point"_a = false, "tensor_scale"_a = true,
      "out"_a = nb::none(),
      "Codes and scales of x in 'fp8_e4m3', 'fp8_e5m2', 'int8', 'int4' or 'nvfp4': (data, scale), with zero points "
      "(data, "
      "scale, zero), for nvfp4 (data, scale, tensor_scale).\n"
      "block is what shares a scale: 'tensor', 'row', a number of columns, or (rows, columns).");
  m.def(
      "dequantize",
      [](const ArrayObject& data, const ArrayObject& scale, ArrayArg zero, ArrayArg tensor_scale, DTypeArg dtype,
         ArrayArg out) {
        const auto optional = [](const char* argument, nb::handle value) {
          const Array* array = to_optional_array("dequantize", argument, value);
          return array != nullptr ? *array : Array();
        };
        const Quantized q(to_array("dequantize", "data", data), to_array("dequantize", "scale", scale),
                          optional("zero", zero), optional("tensor_scale", tensor_scale));
        const DType wanted = to_dtype(dtype);
        return with_out("dequantize", out, [&](const Array* target) { return dequantize(q, wanted, target); });
      },
      "data"_a, "scale"_a, nb::kw_only(), "zero"_a = nb::none(), "tensor_scale"_a = nb::none(), "dtype"_a = "float32",
      "out"_a = nb::none(), "The numbers of codes that quantize made, in float32, float16 or bfloat16.");
}

}  // namespace gpukit
