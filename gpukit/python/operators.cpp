// Operators of GPUArray. A foreign operand gives NotImplemented, so that its own class may answer.
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

using Binary = Array (*)(const Operand&, const Operand&, const Array*);

ArrayObject not_implemented() { return nb::borrow(Py_NotImplemented); }

template <Binary F, typename Other = OperandArg>
void bind_binary(nb::class_<Array>& c, const char* op, const char* forward, const char* reflected,
                 const char* in_place) {
  c.def(
      forward,
      [op](const Array& self, Other other) -> ArrayObject {
        auto operand = try_operand(op, other);
        if (!operand) return not_implemented();
        return wrap(in_scope([&] { return F(self, *operand, nullptr); }));
      },
      nb::is_operator());
  if (reflected != nullptr) {
    c.def(
        reflected,
        [op](const Array& self, Other other) -> ArrayObject {
          auto operand = try_operand(op, other);
          if (!operand) return not_implemented();
          return wrap(in_scope([&] { return F(*operand, self, nullptr); }));
        },
        nb::is_operator());
  }
  if (in_place != nullptr) {
    c.def(
        in_place,
        [op](nb::handle handle, Other other) -> ArrayObject {
          auto operand = try_operand(op, other);
          if (!operand) return not_implemented();
          const Array& self = to_array(op, "self", handle);
          in_scope([&] { return F(self, *operand, &self), 0; });
          return nb::borrow(handle);
        },
        nb::is_operator());
  }
}

template <Array (*F)(const Array&, const Array*)>
void bind_unary(nb::class_<Array>& c, const char* name) {
  c.def(name, [](const Array& self) { return wrap(in_scope([&] { return F(self, nullptr); })); });
}

ArrayObject matrix_product(nb::handle left, nb::handle right) {
  const Array *a = try_array(left), *b = try_array(right);
  if (is_numpy_array(left) || is_numpy_array(right)) refuse_numpy("matmul");
  if (a == nullptr || b == nullptr) return not_implemented();
  return wrap(in_scope([&] { return matmul(*a, *b); }));
}

}  // namespace

void bind_array_operators(nb::class_<Array>& c) {
  bind_binary<&add>(c, "add", "__add__", "__radd__", "__iadd__");
  bind_binary<&subtract>(c, "subtract", "__sub__", "__rsub__", "__isub__");
  bind_binary<&multiply>(c, "multiply", "__mul__", "__rmul__", "__imul__");
  bind_binary<&divide>(c, "divide", "__truediv__", "__rtruediv__", "__itruediv__");
  bind_binary<&floor_divide>(c, "floor_divide", "__floordiv__", "__rfloordiv__", "__ifloordiv__");
  bind_binary<&remainder>(c, "remainder", "__mod__", "__rmod__", "__imod__");
  bind_binary<&power>(c, "power", "__pow__", "__rpow__", "__ipow__");
  bind_binary<&bitwise_and>(c, "bitwise_and", "__and__", "__rand__", "__iand__");
  bind_binary<&bitwise_or>(c, "bitwise_or", "__or__", "__ror__", "__ior__");
  bind_binary<&bitwise_xor>(c, "bitwise_xor", "__xor__", "__rxor__", "__ixor__");
  bind_binary<&bitwise_left_shift>(c, "bitwise_left_shift", "__lshift__", "__rlshift__", "__ilshift__");
  bind_binary<&bitwise_right_shift>(c, "bitwise_right_shift", "__rshift__", "__rrshift__", "__irshift__");
  bind_binary<&equal, nb::handle>(c, "equal", "__eq__", nullptr, nullptr);
  bind_binary<&not_equal, nb::handle>(c, "not_equal", "__ne__", nullptr, nullptr);
  bind_binary<&less>(c, "less", "__lt__", nullptr, nullptr);
  bind_binary<&less_equal>(c, "less_equal", "__le__", nullptr, nullptr);
  bind_binary<&greater>(c, "greater", "__gt__", nullptr, nullptr);
  bind_binary<&greater_equal>(c, "greater_equal", "__ge__", nullptr, nullptr);
  bind_unary<&negative>(c, "__neg__");
  bind_unary<&positive>(c, "__pos__");
  bind_unary<&absolute>(c, "__abs__");
  bind_unary<&bitwise_invert>(c, "__invert__");
  c.def(
      "__matmul__", [](nb::handle a, ArrayArg b) { return matrix_product(a, b); }, nb::is_operator());
  c.def(
      "__rmatmul__", [](nb::handle b, ArrayArg a) { return matrix_product(a, b); }, nb::is_operator());
  c.def(
      "__imatmul__",
      [](nb::handle a, ArrayArg b) -> ArrayObject {
        const Array *left = try_array(a), *right = try_array(b);
        if (is_numpy_array(b)) refuse_numpy("matmul");
        if (left == nullptr || right == nullptr) return not_implemented();
        in_scope([&] { return matmul(*left, *right, left), 0; });
        return nb::borrow(a);
      },
      nb::is_operator());
}

}  // namespace gpukit::python
