#include "gpukit/ops/activation/activation.h"

#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

template <Array (*kFunction)(const Array&, const Array*)>
void bind_one(nb::module_& m, const char* name, const char* argument, const char* doc) {
  m.def(
      name,
      [name, argument](const ArrayObject& a, ArrayArg out) {
        const Array& x = to_array(name, argument, a);
        return with_out(name, out, [&](const Array* target) { return kFunction(x, target); });
      },
      nb::arg(argument), nb::kw_only(), "out"_a = nb::none(), doc);
}

template <Array (*kFunction)(const Array&, const Array&, const Array*)>
void bind_two(nb::module_& m, const char* name, const char* first, const char* second, const char* doc) {
  m.def(
      name,
      [name, first, second](const ArrayObject& a, const ArrayObject& b, ArrayArg out) {
        const Array& x = to_array(name, first, a);
        const Array& y = to_array(name, second, b);
        return with_out(name, out, [&](const Array* target) { return kFunction(x, y, target); });
      },
      nb::arg(first), nb::arg(second), nb::kw_only(), "out"_a = nb::none(), doc);
}

template <Array (*kFunction)(const Array&, const Array&, const Array&, const Array*)>
void bind_three(nb::module_& m, const char* name, const char* first, const char* second, const char* third,
                const char* doc) {
  m.def(
      name,
      [=](const ArrayObject& a, const ArrayObject& b, const ArrayObject& c, ArrayArg out) {
        const Array& x = to_array(name, first, a);
        const Array& y = to_array(name, second, b);
        const Array& z = to_array(name, third, c);
        return with_out(name, out, [&](const Array* target) { return kFunction(x, y, z, target); });
      },
      nb::arg(first), nb::arg(second), nb::arg(third), nb::kw_only(), "out"_a = nb::none(), doc);
}

}  // namespace

void bind_activation(nb::module_& m) {
  bind_two<swiglu>(m, "swiglu", "gate", "up", "silu(gate) * up.");
  bind_two<geglu>(m, "geglu", "gate", "up", "gelu(gate) * up, by the tanh approximation.");
  bind_one<swiglu_packed>(m, "swiglu_packed", "x", "silu(first half) * second half of the last axis.");
  bind_one<geglu_packed>(m, "geglu_packed", "x", "gelu(first half) * second half of the last axis.");
  bind_one<gelu_erf>(m, "gelu_erf", "a", "0.5 a (1 + erf(a / sqrt(2))).");
  bind_two<snake>(m, "snake", "x", "alpha",
                  "x + sin(alpha x)^2 / alpha; alpha is [channels] of axis 1, or broadcasts to x.");
  bind_three<modulate>(m, "modulate", "x", "scale", "shift", "x * (1 + scale) + shift.");
  bind_three<gated_residual>(m, "gated_residual", "residual", "gate", "value", "residual + gate * value.");
  m.def(
      "leaky_relu",
      [](const ArrayObject& a, double slope, ArrayArg out) {
        const Array& x = to_array("leaky_relu", "a", a);
        return with_out("leaky_relu", out, [&](const Array* target) { return leaky_relu(x, slope, target); });
      },
      "a"_a, "slope"_a = 0.01, nb::kw_only(), "out"_a = nb::none(), "a where a > 0, else slope * a.");
}

}  // namespace gpukit
