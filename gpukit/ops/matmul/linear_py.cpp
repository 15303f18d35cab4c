#include <nanobind/stl/string.h>

#include <algorithm>
#include <vector>

#include "gpukit/base/files.h"
#include "gpukit/ops/matmul/linear.h"
#include "gpukit/python/bind.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

Activation to_activation(python::StringArg activation) {
  if (activation.is_none()) return Activation::none;
  std::string text;
  if (nb::try_cast(activation, text)) {
    if (text == "relu") return Activation::relu;
    if (text == "gelu") return Activation::gelu;
    if (text == "gelu_erf") return Activation::gelu_erf;
    if (text == "silu") return Activation::silu;
  }
  throw ArgumentError("linear", "activation", "be 'relu', 'gelu', 'gelu_erf', 'silu' or None",
                      nb::cast<std::string>(nb::str(activation)));
}

Array to_optional(const char* argument, nb::handle value) {
  const Array* array = python::to_optional_array("linear", argument, value);
  return array == nullptr ? Array() : *array;
}

/// Median microseconds of one of `calls` calls into `out` on an idle stream, the wait not counted.
double time_linear(const Array& input, const Array& weight, const Array& out, int calls, int rounds) {
  if (calls < 1 || rounds < 1)
    throw ArgumentError("_time_linear", "calls and rounds", "be positive",
                        std::to_string(calls) + " and " + std::to_string(rounds));
  std::vector<double> samples;
  for (int round = 0; round < rounds + 1; ++round) {
    runtime::synchronize(*runtime::current_stream(out.device()), "time_linear");
    const int64_t begin = files::monotonic_ns();
    for (int i = 0; i < calls; ++i) linear(input, weight, {}, &out);
    const int64_t end = files::monotonic_ns();
    if (round > 0) samples.push_back(static_cast<double>(end - begin) / 1e3 / calls);
  }
  std::nth_element(samples.begin(), samples.begin() + rounds / 2, samples.end());
  return samples[static_cast<size_t>(rounds) / 2];
}

/// Both matrices of a pair are arrays, or both are Weights.
template <typename Wanted, typename Given>
const Wanted& like(const Given& given) {
  if constexpr (std::is_same_v<Wanted, Given>) return given;
  throw ArgumentError("linear_swiglu", "up", "be a Weight if gate is one, else an array", "the other");
}

/// `call` with an array, or with a Weight.
template <typename Call>
auto with_matrix(const char* op, const char* argument, nb::handle value, const Call& call) {
  const Weight* weight = nullptr;
  if (nb::try_cast(value, weight) && weight != nullptr) return call(*weight);
  return call(python::to_array(op, argument, value));
}

}  // namespace

void bind_linear(nb::module_& m) {
  m.def(
      "_time_linear",
      [](const python::ArrayObject& input, const python::ArrayObject& weight, const python::ArrayObject& out, int calls,
         int rounds) {
        const Array& x = python::to_array("_time_linear", "input", input);
        const Array& w = python::to_array("_time_linear", "weight", weight);
        const Array& target = python::to_array("_time_linear", "out", out);
        return python::in_scope([&] { return time_linear(x, w, target, calls, rounds); });
      },
      "input"_a, "weight"_a, "out"_a, "calls"_a = 64, "rounds"_a = 50,
      "Median host microseconds of one linear(input, weight, out=out) called from C++, on an idle stream.");
  m.def(
      "linear",
      [](python::ArrayArg input, python::ArrayArg weight, python::ArrayArg bias, python::StringArg activation,
         python::ArrayArg residual, double alpha, python::ArrayArg out) {
        const Array& x = python::to_array("linear", "input", input);
        const LinearOptions options{to_optional("bias", bias), to_activation(activation),
                                    to_optional("residual", residual), static_cast<float>(alpha)};
        return with_matrix("linear", "weight", weight, [&](const auto& w) {
          return python::with_out("linear", out, [&](const Array* target) { return linear(x, w, options, target); });
        });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), nb::kw_only(), "activation"_a = nb::none(),
      "residual"_a = nb::none(), "alpha"_a = 1.0, "out"_a = nb::none(),
      "activation(alpha * input @ weight.T + bias) + residual for input [..., k] and weight [n, k], an array or a "
      "Weight, in one pass where the chip can.\n"
      "activation: 'relu', 'gelu' (the tanh form), 'gelu_erf' (the exact one), 'silu' or None. Computed in float32 and "
      "rounded once.");
  m.def(
      "linear_swiglu",
      [](python::ArrayArg input, python::ArrayArg gate, python::ArrayArg up, python::ArrayArg out) {
        const Array& x = python::to_array("linear_swiglu", "input", input);
        return with_matrix("linear_swiglu", "gate", gate, [&](const auto& g) {
          using Matrix = std::remove_cvref_t<decltype(g)>;
          return with_matrix("linear_swiglu", "up", up, [&](const auto& u) {
            const Matrix& other = like<Matrix>(u);
            return python::with_out("linear_swiglu", out,
                                    [&](const Array* target) { return linear_swiglu(x, g, other, target); });
          });
        });
      },
      "input"_a, "gate"_a, "up"_a, nb::kw_only(), "out"_a = nb::none(),
      "silu(input @ gate.T) * (input @ up.T) for input [..., k], gate and up [n, k], in one pass where the chip can.");
  m.def(
      "linear_bias_gelu",
      [](python::ArrayArg input, python::ArrayArg weight, python::ArrayArg bias, python::ArrayArg out) {
        const Array& x = python::to_array("linear_bias_gelu", "input", input);
        const Array& w = python::to_array("linear_bias_gelu", "weight", weight);
        const Array& b = python::to_array("linear_bias_gelu", "bias", bias);
        return python::with_out("linear_bias_gelu", out,
                                [&](const Array* target) { return linear_bias_gelu(x, w, b, target); });
      },
      "input"_a, "weight"_a, "bias"_a, nb::kw_only(), "out"_a = nb::none(),
      "gelu(input @ weight.T + bias) in the tanh form, for input [m, k], weight [n, k] and bias [n].");
}

}  // namespace gpukit
