#include "gpukit/ops/matmul/weight.h"

#include <nanobind/stl/string.h>

#include "gpukit/ops/quantize/quantize_py.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

Array optional(const char* argument, nb::handle value) {
  const Array* array = python::to_optional_array("Weight", argument, value);
  return array != nullptr ? *array : Array();
}

python::ShownObject<"GPUArray | None"> part(const Array& array) {
  if (array.defined()) return python::wrap(Array(array));
  return nb::none();
}

Weight make(nb::handle data, nb::handle scale, nb::handle zero, nb::handle tensor_scale) {
  const Array& matrix = python::to_array("Weight", "data", data);
  const Quantized values(matrix, optional("scale", scale), optional("zero", zero),
                         optional("tensor_scale", tensor_scale));
  if (!values.scale.defined() && !values.zero.defined() && !values.tensor_scale.defined() &&
      !is_storage_only(matrix.dtype()) && matrix.dtype() != DType::int8)
    return python::in_scope([&] { return Weight(matrix); });
  return python::in_scope([&] { return Weight(values); });
}

std::string repr(const Weight& w) {
  return "Weight([" + std::to_string(w.rows()) + ", " + std::to_string(w.columns()) + "], " + name(w.dtype()) + ", " +
         str(w.device()) + ")";
}

}  // namespace

void bind_weight(nb::module_& m) {
  using namespace python;
  nb::class_<Weight>(
      m, "Weight",
      "The matrix of a layer, [n, k] with a row for each output: dense or quantised, packed once for the "
      "kernels. linear and linear_swiglu take it in place of an array.")
      .def(
          "__init__",
          [](Weight* self, ArrayArg data, ArrayArg scale, ArrayArg zero, ArrayArg tensor_scale) {
            new (self) Weight(make(data, scale, zero, tensor_scale));
          },
          "data"_a, "scale"_a = nb::none(), nb::kw_only(), "zero"_a = nb::none(), "tensor_scale"_a = nb::none(),
          "A dense matrix of floats, or codes with the scales that quantize gave them.")
      .def_static(
          "quantize",
          [](const ArrayObject& matrix, DTypeArg format, Shown<"str | int | tuple[int, int] | None"> block,
             bool zero_point, bool tensor_scale) {
            const Array& numbers = to_array("Weight.quantize", "matrix", matrix);
            const DType dtype = to_format(format);
            const QuantizeOptions options{to_block(dtype, block), zero_point, tensor_scale};
            return in_scope([&] { return Weight::quantize(numbers, dtype, options); });
          },
          "matrix"_a, "format"_a, nb::kw_only(), "block"_a = nb::none(), "zero_point"_a = false,
          "tensor_scale"_a = true, "A dense matrix in a format of quantize, with the same keywords.")
      .def_prop_ro(
          "shape",
          [](const Weight& w) {
            return from_dims({w.rows(), w.columns()});
          },
          "(n, k)")
      .def_prop_ro(
          "dtype", [](const Weight& w) { return from_dtype(w.dtype()); }, "Of the numbers, or of the codes.")
      .def_prop_ro("is_quantized", &Weight::is_quantized, "Whether it holds codes.")
      .def_prop_ro("nbytes", &Weight::nbytes, "Bytes of numbers or codes, scales and zero points.")
      .def_prop_ro(
          "data", [](const Weight& w) { return part(w.parts().data); }, "The matrix, or its codes.")
      .def_prop_ro(
          "scale", [](const Weight& w) { return part(w.parts().scale); }, "Scales of blocks, or None.")
      .def_prop_ro(
          "zero", [](const Weight& w) { return part(w.parts().zero); }, "Zero points, or None.")
      .def_prop_ro(
          "tensor_scale", [](const Weight& w) { return part(w.parts().tensor_scale); },
          "The scale of the whole matrix, or None.")
      .def(
          "dense",
          [](const Weight& w, DTypeArg dtype) {
            const DType wanted = to_dtype(dtype);
            return wrap(in_scope([&] { return w.dense(wanted); }));
          },
          "dtype"_a, "The numbers in that dtype.")
      .def("__repr__", &repr);
}

}  // namespace gpukit
