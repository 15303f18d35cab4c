#include <vector>

#include "gpukit/ops/linalg/products.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/bind.h"

namespace gpukit {
namespace {

using namespace python;

ArrayObject einsum_py(StringArg subscripts, const nb::args& operands, ArrayArg out) {
  const std::string text = to_text("einsum", "subscripts", subscripts);
  std::vector<Array> arrays;
  for (nb::handle operand : operands) arrays.push_back(to_array("einsum", "operands", operand));
  return with_out("einsum", out, [&](const Array* target) { return einsum(text, arrays, target); });
}

/// One axis or several.
Dims to_axes(nb::handle value) { return to_dims("tensordot", value, "axes"); }

ArrayObject tensordot_py(const ArrayObject& x1, const ArrayObject& x2, AnyArg axes, ArrayArg out) {
  constexpr const char* kOp = "tensordot";
  const Array &a = to_array(kOp, "x1", x1), &b = to_array(kOp, "x2", x2);
  if (is_one_int(axes)) {
    const int64_t count = to_int(kOp, "axes", axes);
    return with_out(kOp, out, [&](const Array* target) { return tensordot(a, b, count, target); });
  }
  const nb::tuple pair = to_items(kOp, "axes", axes);
  if (pair.size() != 2) throw ArgumentError(kOp, "axes", "be a number or a pair of sequences", shown(axes));
  const Dims of_a = to_axes(pair[0]), of_b = to_axes(pair[1]);
  return with_out(kOp, out, [&](const Array* target) { return tensordot(a, b, of_a, of_b, target); });
}

using OfTwo = Array (*)(const Array&, const Array&, const Array*);
template <OfTwo kFunction>
void bind_two(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x1, const ArrayObject& x2, ArrayArg out) {
        const Array &a = to_array(op, "x1", x1), &b = to_array(op, "x2", x2);
        return with_out(op, out, [&](const Array* target) { return kFunction(a, b, target); });
      },
      "x1"_a, "x2"_a, nb::kw_only(), "out"_a = nb::none(), doc);
}

using Along = Array (*)(const Array&, const Array&, int64_t, const Array*);
template <Along kFunction>
void bind_along(nb::module_& m, const char* op, const char* doc) {
  m.def(
      op,
      [op](const ArrayObject& x1, const ArrayObject& x2, IntArg axis, ArrayArg out) {
        const Array &a = to_array(op, "x1", x1), &b = to_array(op, "x2", x2);
        const int64_t along = to_int(op, "axis", axis);
        return with_out(op, out, [&](const Array* target) { return kFunction(a, b, along, target); });
      },
      "x1"_a, "x2"_a, nb::kw_only(), "axis"_a = -1, "out"_a = nb::none(), doc);
}

Array outer_flat(const Array& a, const Array& b, const Array* out) { return outer(ravel(a), ravel(b), out); }

}  // namespace

void bind_products(nb::module_& m) {
  m.def("einsum", &einsum_py, "subscripts"_a, "operands"_a, nb::kw_only(), "out"_a = nb::none(),
        nb::sig("def einsum(subscripts: str, *operands: GPUArray, out: GPUArray | None = None) -> GPUArray"),
        "A sum of products by Einstein's convention, such as einsum('bij,bjk->bik', a, b): any number of operands, "
        "'...', repeated labels. Contracted pair by pair in the order with the fewest multiplications.");
  m.def("tensordot", &tensordot_py, "x1"_a, "x2"_a, "axes"_a = 2, nb::kw_only(), "out"_a = nb::none(),
        "The sum of products over the last `axes` axes of x1 and the first ones of x2, or over the axes that a pair of "
        "sequences names.");
  bind_along<&vecdot>(m, "vecdot", "The sum of conj(x1) * x2 along an axis; the other axes broadcast.");
  bind_along<&cross>(m, "cross", "The cross product of vectors of three elements; the other axes broadcast.");
  bind_two<&outer_flat>(m, "outer", "The matrix of all products of an element of x1 and one of x2, both flattened.");
  bind_two<&inner>(m, "inner", "The sum of products over the last axes; with a 0-d array the product.");
  bind_two<&dot>(m, "dot",
                 "The sum of products over the last axis of x1 and the last but one of x2, or its only one; with a 0-d "
                 "array the product.");
  m.def(
      "matrix_transpose",
      [](const ArrayObject& x) { return wrap(matrix_transpose(to_array("matrix_transpose", "x", x))); }, "x"_a,
      "The view with the last two axes exchanged.");
  m.def(
      "diagonal",
      [](const ArrayObject& x, int64_t offset, int64_t axis1, int64_t axis2) {
        return wrap(diagonal(to_array("diagonal", "x", x), offset, axis1, axis2));
      },
      "x"_a, "offset"_a = 0, "axis1"_a = 0, "axis2"_a = 1,
      "A view of the elements (i, i + offset) of two axes, as the last axis.");
  m.def(
      "trace",
      [](const ArrayObject& x, int64_t offset, int64_t axis1, int64_t axis2, DTypeArg dtype, ArrayArg out) {
        const Array& input = to_array("trace", "x", x);
        const std::optional<DType> wanted = to_optional_dtype(dtype);
        return with_out("trace", out,
                        [&](const Array* target) { return trace(input, offset, axis1, axis2, wanted, target); });
      },
      "x"_a, "offset"_a = 0, "axis1"_a = 0, "axis2"_a = 1, nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(),
      "The sum of a diagonal of two axes; dtype as for sum.");
}

}  // namespace gpukit
