#include "gpukit/ops/norm/norm.h"

#include "gpukit/ops/norm/norm_residual.h"
#include "gpukit/python/bind.h"

namespace gpukit {

void bind_norm(nb::module_& m) {
  using namespace python;
  m.def(
      "layernorm",
      [](const ArrayObject& input, const ArrayObject& gamma, const ArrayObject& beta, double eps, ArrayArg out) {
        const Array& x = to_array("layernorm", "input", input);
        const Array& g = to_array("layernorm", "gamma", gamma);
        const Array& b = to_array("layernorm", "beta", beta);
        return with_out("layernorm", out, [&](const Array* target) { return layernorm(x, g, b, eps, target); });
      },
      "input"_a, "gamma"_a, "beta"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "(x - mean) / sqrt(var + eps) * gamma + beta over the last axis.");
  m.def(
      "rmsnorm",
      [](const ArrayObject& input, const ArrayObject& gamma, double eps, ArrayArg out) {
        const Array& x = to_array("rmsnorm", "input", input);
        const Array& g = to_array("rmsnorm", "gamma", gamma);
        return with_out("rmsnorm", out, [&](const Array* target) { return rmsnorm(x, g, eps, target); });
      },
      "input"_a, "gamma"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "x / sqrt(mean(x^2) + eps) * gamma over the last axis.");
  m.def(
      "l2norm",
      [](const ArrayObject& input, double eps, ArrayArg out) {
        const Array& x = to_array("l2norm", "input", input);
        return with_out("l2norm", out, [&](const Array* target) { return l2norm(x, eps, target); });
      },
      "input"_a, "eps"_a = 1e-6, nb::kw_only(), "out"_a = nb::none(),
      "x / sqrt(mean(x^2) + eps) over the last axis: rmsnorm without gamma.");
  m.def(
      "rmsnorm_residual",
      [](const ArrayObject& input, const ArrayObject& residual, const ArrayObject& gamma, double eps, ArrayArg out,
         ArrayArg sum) {
        constexpr const char* kOp = "rmsnorm_residual";
        const Array& x = to_array(kOp, "input", input);
        const Array& r = to_array(kOp, "residual", residual);
        const Array& g = to_array(kOp, "gamma", gamma);
        const Array* s = to_optional_array(kOp, "sum", sum);
        return with_out(kOp, out, [&](const Array* target) { return rmsnorm_residual(x, r, g, eps, target, s); });
      },
      "input"_a, "residual"_a, "gamma"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(), "sum"_a = nb::none(),
      "rmsnorm(input + residual, gamma); `sum` gets input + residual and may be residual itself.");
  m.def(
      "layernorm_residual",
      [](const ArrayObject& input, const ArrayObject& residual, const ArrayObject& gamma, const ArrayObject& beta,
         double eps, ArrayArg out, ArrayArg sum) {
        constexpr const char* kOp = "layernorm_residual";
        const Array& x = to_array(kOp, "input", input);
        const Array& r = to_array(kOp, "residual", residual);
        const Array& g = to_array(kOp, "gamma", gamma);
        const Array& b = to_array(kOp, "beta", beta);
        const Array* s = to_optional_array(kOp, "sum", sum);
        return with_out(kOp, out, [&](const Array* target) { return layernorm_residual(x, r, g, b, eps, target, s); });
      },
      "input"_a, "residual"_a, "gamma"_a, "beta"_a, "eps"_a = 1e-5, nb::kw_only(), "out"_a = nb::none(),
      "sum"_a = nb::none(), "layernorm(input + residual, gamma, beta); `sum` gets input + residual.");
  m.def(
      "bias_add_inplace",
      [](const ArrayObject& output, const ArrayObject& bias) {
        const Array& y = to_array("bias_add_inplace", "output", output);
        const Array& b = to_array("bias_add_inplace", "bias", bias);
        in_scope([&] { return bias_add_inplace(y, b), 0; });
      },
      "output"_a, "bias"_a, "output[..., :] += bias.");
}

}  // namespace gpukit
