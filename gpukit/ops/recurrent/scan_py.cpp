#include "gpukit/ops/recurrent/scan.h"

#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

Array to_optional(const char* op, const char* argument, nb::handle value) {
  const Array* array = to_optional_array(op, argument, value);
  return array == nullptr ? Array() : *array;
}

}  // namespace

void bind_scan(nb::module_& m) {
  m.def(
      "causal_conv1d",
      [](const ArrayObject& x, const ArrayObject& weight, ArrayArg bias, ArrayArg state, bool silu, ArrayArg out) {
        constexpr const char* kOp = "causal_conv1d";
        const Array &input = to_array(kOp, "x", x), &w = to_array(kOp, "weight", weight);
        const CausalConvOptions o{to_optional(kOp, "bias", bias), to_optional(kOp, "state", state), silu};
        return with_out(kOp, out, [&](const Array* target) { return causal_conv1d(input, w, o, target); });
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), nb::kw_only(), "state"_a = nb::none(), "silu"_a = false,
      "out"_a = nb::none(),
      "Each channel of x [batch, channels, length] by its own weights [channels, taps], of inputs up to its own step. "
      "`state` [batch, channels, taps - 1] holds the inputs before the first, and then the last ones.");
  m.def(
      "selective_scan",
      [](const ArrayObject& x, const ArrayObject& delta, const ArrayObject& a, const ArrayObject& b,
         const ArrayObject& c, ArrayArg d, ArrayArg z, ArrayArg delta_bias, bool delta_softplus, ArrayArg state,
         ArrayArg out) {
        constexpr const char* kOp = "selective_scan";
        const Array &input = to_array(kOp, "x", x), &steps = to_array(kOp, "delta", delta);
        const Array &rates = to_array(kOp, "A", a), &in = to_array(kOp, "B", b), &back = to_array(kOp, "C", c);
        const SelectiveScanOptions o{to_optional(kOp, "D", d), to_optional(kOp, "z", z),
                                     to_optional(kOp, "delta_bias", delta_bias), delta_softplus,
                                     to_optional(kOp, "state", state)};
        return with_out(kOp, out,
                        [&](const Array* target) { return selective_scan(input, steps, rates, in, back, o, target); });
      },
      "x"_a, "delta"_a, "A"_a, "B"_a, "C"_a, "D"_a = nb::none(), "z"_a = nb::none(), "delta_bias"_a = nb::none(),
      "delta_softplus"_a = false, nb::kw_only(), "state"_a = nb::none(), "out"_a = nb::none(),
      "h = exp(delta A) h + delta B x and C h along time, for x and delta [batch, channels, length], A [channels, "
      "states] and B, C [batch, states, length]; then + D x, times silu(z). `state` [batch, channels, states] is read "
      "and set to the last h.");
}

}  // namespace gpukit
