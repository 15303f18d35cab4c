#include "gpukit/ops/conv/conv.h"

#include <nanobind/stl/string.h>

#include <array>
#include <utility>

#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

ConvActivation to_activation(const char* op, StringArg value) {
  if (value.is_none()) return ConvActivation::none;
  constexpr std::array<std::pair<const char*, ConvActivation>, 5> kNames = {
      {{"relu", ConvActivation::relu},
       {"gelu", ConvActivation::gelu},
       {"gelu_erf", ConvActivation::gelu_erf},
       {"silu", ConvActivation::silu},
       {"leaky_relu", ConvActivation::leaky_relu}}};
  const std::string text = to_text(op, "activation", value);
  for (const auto& [name, activation] : kNames)
    if (text == name) return activation;
  throw ArgumentError(op, "activation", "be 'relu', 'gelu', 'gelu_erf', 'silu', 'leaky_relu' or None", text);
}

Array to_bias(const char* op, nb::handle value) {
  const Array* bias = to_optional_array(op, "bias", value);
  return bias == nullptr ? Array() : *bias;
}

/// One number for both axes, or one for each.
std::array<int64_t, 2> to_pair(const char* op, const char* argument, nb::handle value) {
  if (is_one_int(value)) {
    const int64_t both = to_int(op, argument, value);
    return {both, both};
  }
  const Dims pair = to_dims(op, value, argument);
  if (pair.size() != 2) throw ArgumentError(op, argument, "be one or two integers", pair.str());
  return {pair[0], pair[1]};
}

std::optional<bool> to_choice(BoolArg value) {
  if (value.is_none()) return std::nullopt;
  const int truth = PyObject_IsTrue(value.ptr());
  if (truth < 0) throw nb::python_error();
  return truth != 0;
}

template <typename Options>
Options to_options(const char* op, nb::handle bias, IntArg stride, IntArg padding, IntArg dilation, IntArg groups,
                   StringArg activation, double slope, BoolArg use_tf32) {
  Options o;
  o.bias = to_bias(op, bias);
  o.stride = to_int(op, "stride", stride);
  o.padding = to_int(op, "padding", padding);
  o.dilation = to_int(op, "dilation", dilation);
  o.groups = to_int(op, "groups", groups);
  o.activation = to_activation(op, activation);
  o.slope = slope;
  o.use_tf32 = to_choice(use_tf32);
  return o;
}

Conv2dOptions to_options_2d(const char* op, nb::handle bias, IntsArg stride, IntsArg padding, IntsArg dilation,
                            IntArg groups, StringArg activation, double slope, BoolArg use_tf32) {
  Conv2dOptions o;
  o.bias = to_bias(op, bias);
  o.stride = to_pair(op, "stride", stride);
  o.padding = to_pair(op, "padding", padding);
  o.dilation = to_pair(op, "dilation", dilation);
  o.groups = to_int(op, "groups", groups);
  o.activation = to_activation(op, activation);
  o.slope = slope;
  o.use_tf32 = to_choice(use_tf32);
  return o;
}

void bind_explanations(nb::module_& m) {
  m.def(
      "lay_out_conv_weight",
      [](const ArrayObject& weight, bool transposed) {
        const Array& w = to_array("lay_out_conv_weight", "weight", weight);
        return wrap(in_scope([&] { return lay_out_conv_weight(w, transposed); }));
      },
      "weight"_a, "transposed"_a = false,
      "The same weight where the tensor cores read it as it lies; calls of float16 and bfloat16 pack any other one "
      "first, each time. transposed: of conv_transpose1d.");
  m.def(
      "explain_conv1d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntArg stride, IntArg padding,
         IntArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32) {
        constexpr const char* kOp = "explain_conv1d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        const auto o =
            to_options<ConvOptions>(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        return in_scope([&] { return explain_conv1d(x, w, o); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(), "dilation"_a = 1,
      "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01, "use_tf32"_a = nb::none(),
      "What conv1d does for such arrays, in one line: the kernel, its tiles and its grid.");
  m.def(
      "explain_conv_transpose1d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntArg stride, IntArg padding,
         IntArg output_padding, IntArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32) {
        constexpr const char* kOp = "explain_conv_transpose1d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        auto o =
            to_options<ConvTransposeOptions>(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        o.output_padding = to_int(kOp, "output_padding", output_padding);
        return in_scope([&] { return explain_conv_transpose1d(x, w, o); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(),
      "output_padding"_a = 0, "dilation"_a = 1, "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01,
      "use_tf32"_a = nb::none(),
      "What conv_transpose1d does for such arrays, in one line: the kernel, its tiles and its grid.");
  m.def(
      "explain_conv2d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntsArg stride, IntsArg padding,
         IntsArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32) {
        constexpr const char* kOp = "explain_conv2d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        const Conv2dOptions o =
            to_options_2d(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        return in_scope([&] { return explain_conv2d(x, w, o); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(), "dilation"_a = 1,
      "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01, "use_tf32"_a = nb::none(),
      "What conv2d does for such arrays, in one line: the kernel, its tiles and its grid.");
}

}  // namespace

void bind_conv(nb::module_& m) {
  m.def(
      "conv1d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntArg stride, IntArg padding,
         IntArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32, ArrayArg out) {
        constexpr const char* kOp = "conv1d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        const auto o =
            to_options<ConvOptions>(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        return with_out(kOp, out, [&](const Array* target) { return conv1d(x, w, o, target); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(), "dilation"_a = 1,
      "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01, "use_tf32"_a = nb::none(), "out"_a = nb::none(),
      "Cross-correlation of [batch, channels, length] with weight [out channels, channels / groups, taps], zeros "
      "beyond "
      "the ends; then bias and `activation`: 'relu', 'gelu', 'gelu_erf', 'silu' or 'leaky_relu' of `slope`. float32 is "
      "exact unless TF32 is permitted: use_tf32=True, or PYGPUKIT_ALLOW_TF32 where it is None.");
  m.def(
      "conv_transpose1d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntArg stride, IntArg padding,
         IntArg output_padding, IntArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32,
         ArrayArg out) {
        constexpr const char* kOp = "conv_transpose1d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        auto o =
            to_options<ConvTransposeOptions>(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        o.output_padding = to_int(kOp, "output_padding", output_padding);
        return with_out(kOp, out, [&](const Array* target) { return conv_transpose1d(x, w, o, target); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(),
      "output_padding"_a = 0, "dilation"_a = 1, "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01,
      "use_tf32"_a = nb::none(), "out"_a = nb::none(),
      "The transpose of conv1d: weight is [channels, out channels / groups, taps], and `stride` steps lie between what "
      "neighbours add to. `output_padding` more steps at the end are kept.");
  m.def(
      "conv2d",
      [](const ArrayObject& input, const ArrayObject& weight, ArrayArg bias, IntsArg stride, IntsArg padding,
         IntsArg dilation, IntArg groups, StringArg activation, double slope, BoolArg use_tf32, ArrayArg out) {
        constexpr const char* kOp = "conv2d";
        const Array &x = to_array(kOp, "input", input), &w = to_array(kOp, "weight", weight);
        const Conv2dOptions o =
            to_options_2d(kOp, bias, stride, padding, dilation, groups, activation, slope, use_tf32);
        return with_out(kOp, out, [&](const Array* target) { return conv2d(x, w, o, target); });
      },
      "input"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, nb::kw_only(), "dilation"_a = 1,
      "groups"_a = 1, "activation"_a = nb::none(), "slope"_a = 0.01, "use_tf32"_a = nb::none(), "out"_a = nb::none(),
      "conv1d over two axes: [batch, channels, height, width] with weight [out channels, channels / groups, rows, "
      "columns]; stride, padding and dilation are one integer or a pair.");
  bind_explanations(m);
}

}  // namespace gpukit
