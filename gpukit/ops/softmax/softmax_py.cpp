#include "gpukit/ops/softmax/softmax.h"
#include "gpukit/python/bind.h"

namespace gpukit {

void bind_softmax(nb::module_& m) {
  using namespace python;
  m.def(
      "softmax",
      [](const ArrayObject& input, IntArg axis, ArrayArg out) {
        const Array& x = to_array("softmax", "input", input);
        const int64_t along = to_int("softmax", "axis", axis);
        return with_out("softmax", out, [&](const Array* target) { return softmax(x, along, target); });
      },
      "input"_a, "axis"_a = -1, nb::kw_only(), "out"_a = nb::none(),
      "exp(x) / sum(exp(x)) along an axis, safe for large x.");
}

}  // namespace gpukit
