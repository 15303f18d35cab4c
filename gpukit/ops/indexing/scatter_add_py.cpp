#include "gpukit/ops/indexing/scatter_add.h"

#include "gpukit/python/bind.h"

namespace gpukit {

void bind_scatter_add(nb::module_& m) {
  using namespace python;
  m.def(
      "scatter_add",
      [](const ArrayObject& x, const ArrayObject& indices, OperandArg values, int64_t axis) {
        const Array &source = to_array("scatter_add", "x", x), &where = to_array("scatter_add", "indices", indices);
        const Operand given = to_operand("scatter_add", "values", values);
        return wrap(in_scope([&] { return scatter_add(source, where, given, axis); }));
      },
      "x"_a, "indices"_a, "values"_a, "axis"_a = -1,
      "A copy of x with values added along axis at the indices (see put_along_axis).\n\n"
      "Equal indices add up, in their order: the same bits on every device.");
}

}  // namespace gpukit
