#include "gpukit/ops/norm/group_norm.h"

#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

Array to_weight(const char* op, const char* argument, nb::handle value) {
  const Array* array = to_optional_array(op, argument, value);
  return array == nullptr ? Array() : *array;
}

template <Array (*kFunction)(const Array&, const Array&, const Array&, int64_t, double, const Array*)>
void bind_groups(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& input, ArrayArg gamma, ArrayArg beta, IntArg num_groups, double eps, ArrayArg out) {
        const Array& x = to_array(name, "input", input);
        const Array g = to_weight(name, "gamma", gamma), b = to_weight(name, "beta", beta);
        const int64_t groups = to_int(name, "num_groups", num_groups);
        return with_out(name, out, [&](const Array* target) { return kFunction(x, g, b, groups, eps, target); });
      },
      "input"_a, "gamma"_a.none(), "beta"_a.none(), "num_groups"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      doc);
}

template <Array (*kFunction)(const Array&, const Array&, const Array&, double, const Array*)>
void bind_modulated(nb::module_& m, const char* name, const char* first, const char* second, const char* doc) {
  m.def(
      name,
      [=](const ArrayObject& input, const ArrayObject& a, const ArrayObject& b, double eps, ArrayArg out) {
        const Array& x = to_array(name, "input", input);
        const Array &factor = to_array(name, first, a), &offset = to_array(name, second, b);
        return with_out(name, out, [&](const Array* target) { return kFunction(x, factor, offset, eps, target); });
      },
      "input"_a, nb::arg(first), nb::arg(second), "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(), doc);
}

}  // namespace

void bind_group_norm(nb::module_& m) {
  bind_groups<group_norm>(m, "group_norm",
                          "(x - mean) / sqrt(var + eps) * gamma + beta over each of `num_groups` groups of channels of "
                          "[batch, channels, ...]; gamma and beta are [channels] or None.");
  bind_groups<group_norm_silu>(m, "group_norm_silu", "silu(group_norm(...)) in one pass.");
  m.def(
      "instance_norm",
      [](const ArrayObject& input, ArrayArg gamma, ArrayArg beta, double eps, ArrayArg out) {
        constexpr const char* kOp = "instance_norm";
        const Array& x = to_array(kOp, "input", input);
        const Array g = to_weight(kOp, "gamma", gamma), b = to_weight(kOp, "beta", beta);
        return with_out(kOp, out, [&](const Array* target) { return instance_norm(x, g, b, eps, target); });
      },
      "input"_a, "gamma"_a = nb::none(), "beta"_a = nb::none(), "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "group_norm with a group for every channel.");
  bind_modulated<adain>(m, "adain", "gamma", "beta",
                        "instance_norm(x) * (1 + gamma) + beta; gamma and beta are [batch, channels].");
  m.def(
      "adain_leaky_relu",
      [](const ArrayObject& input, const ArrayObject& gamma, const ArrayObject& beta, double slope, double eps,
         ArrayArg out) {
        constexpr const char* kOp = "adain_leaky_relu";
        const Array& x = to_array(kOp, "input", input);
        const Array &g = to_array(kOp, "gamma", gamma), &b = to_array(kOp, "beta", beta);
        return with_out(kOp, out, [&](const Array* target) { return adain_leaky_relu(x, g, b, slope, eps, target); });
      },
      "input"_a, "gamma"_a, "beta"_a, "slope"_a = 0.01, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "leaky_relu(adain(input, gamma, beta), slope) in one pass, rounded once.");
  m.def(
      "adain_snake",
      [](const ArrayObject& input, const ArrayObject& gamma, const ArrayObject& beta, const ArrayObject& alpha,
         double eps, ArrayArg out) {
        constexpr const char* kOp = "adain_snake";
        const Array& x = to_array(kOp, "input", input);
        const Array &g = to_array(kOp, "gamma", gamma), &b = to_array(kOp, "beta", beta);
        const Array& a = to_array(kOp, "alpha", alpha);
        return with_out(kOp, out, [&](const Array* target) { return adain_snake(x, g, b, a, eps, target); });
      },
      "input"_a, "gamma"_a, "beta"_a, "alpha"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "snake(adain(input, gamma, beta), alpha) in one pass, rounded once; alpha is [channels].");
  bind_modulated<adaln>(
      m, "adaln", "scale", "shift",
      "(x - mean) / sqrt(var + eps) * (1 + scale) + shift over the last axis of [batch, tokens, width] "
      "or [tokens, width]; scale and shift are [batch, width] or [width].");
  m.def(
      "adaln_zero",
      [](const ArrayObject& input, const ArrayObject& scale, const ArrayObject& shift, const ArrayObject& gate,
         const ArrayObject& residual, double eps, ArrayArg out) {
        constexpr const char* kOp = "adaln_zero";
        const Array& x = to_array(kOp, "input", input);
        const Array &factor = to_array(kOp, "scale", scale), &offset = to_array(kOp, "shift", shift);
        const Array &g = to_array(kOp, "gate", gate), &r = to_array(kOp, "residual", residual);
        return with_out(kOp, out,
                        [&](const Array* target) { return adaln_zero(x, factor, offset, g, r, eps, target); });
      },
      "input"_a, "scale"_a, "shift"_a, "gate"_a, "residual"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "residual + gate * adaln(input, scale, shift); gate is like scale, residual like input.");
}

}  // namespace gpukit
