#include "gpukit/ops/elementwise/closeness.h"

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

bool truth_of(const char* op, const Array& flag) {
  bool value = false;
  to_host(&value, flag, op);
  return value;
}

}  // namespace

void bind_closeness(nb::module_& m) {
  m.def(
      "isclose",
      [](const ArrayObject& a, OperandArg b, double rtol, double atol, bool equal_nan) {
        const Array& x = to_array("isclose", "a", a);
        const Operand y = to_operand("isclose", "b", b);
        return wrap(in_scope([&] { return isclose(x, y, rtol, atol, equal_nan); }));
      },
      "a"_a, "b"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false, "|a - b| <= atol + rtol * |b|, as bool.");
  m.def(
      "allclose",
      [](const ArrayObject& a, OperandArg b, double rtol, double atol, bool equal_nan) {
        const Array& x = to_array("allclose", "a", a);
        const Operand y = to_operand("allclose", "b", b);
        return in_scope([&] { return truth_of("allclose", all(isclose(x, y, rtol, atol, equal_nan))); });
      },
      "a"_a, "b"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false,
      "Whether isclose holds for every element. Waits for the device.");
  m.def(
      "array_equal",
      [](const ArrayObject& a, const ArrayObject& b) {
        const Array &x = to_array("array_equal", "a", a), &y = to_array("array_equal", "b", b);
        if (!(x.shape() == y.shape())) return false;
        return in_scope([&] { return truth_of("array_equal", all(equal(x, y))); });
      },
      "a"_a, "b"_a, "Whether two arrays have one shape and equal elements. Waits for the device.");
}

}  // namespace gpukit
