// Reductions and fills as methods of GPUArray.
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

namespace {

using Typed = Array (*)(const Array&, const Axes&, bool, std::optional<DType>, const Array*);
using Plain = Array (*)(const Array&, const Axes&, bool, const Array*);
using Spread = Array (*)(const Array&, const Axes&, double, bool, const Array*);
using Place = Array (*)(const Array&, std::optional<int64_t>, bool, const Array*);

template <Typed F>
void bind_typed(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, AxisArg axis, DTypeArg dtype, bool keepdims, ArrayArg out) {
        Axes axes = to_optional_axes(name, axis);
        std::optional<DType> type = to_optional_dtype(dtype);
        return with_out(name, out, [&](const Array* target) { return F(self, axes, keepdims, type, target); });
      },
      "axis"_a = nb::none(), "dtype"_a = nb::none(), "keepdims"_a = false, "out"_a = nb::none(), doc);
}

template <Plain F>
void bind_plain(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, AxisArg axis, bool keepdims, ArrayArg out) {
        Axes axes = to_optional_axes(name, axis);
        return with_out(name, out, [&](const Array* target) { return F(self, axes, keepdims, target); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "out"_a = nb::none(), doc);
}

template <Spread F>
void bind_spread(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, AxisArg axis, double correction, bool keepdims, ArrayArg out) {
        Axes axes = to_optional_axes(name, axis);
        return with_out(name, out, [&](const Array* target) { return F(self, axes, correction, keepdims, target); });
      },
      "axis"_a = nb::none(), "correction"_a = 0.0, "keepdims"_a = false, "out"_a = nb::none(), doc);
}

template <Place F>
void bind_place(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, IntArg axis, bool keepdims, ArrayArg out) {
        std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        return with_out(name, out, [&](const Array* target) { return F(self, along, keepdims, target); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false, "out"_a = nb::none(), doc);
}

}  // namespace

void bind_array_methods(nb::class_<Array>& c) {
  bind_typed<&sum>(c, "sum", "Sum over the axes, all by default.");
  bind_typed<&prod>(c, "prod", "Product over the axes, all by default.");
  bind_plain<&mean>(c, "mean", "Mean over the axes, all by default.");
  bind_plain<&max>(c, "max", "Largest element over the axes; NaN wins.");
  bind_plain<&min>(c, "min", "Smallest element over the axes; NaN wins.");
  bind_plain<&any>(c, "any", "Whether any element over the axes is not zero.");
  bind_plain<&all>(c, "all", "Whether all elements over the axes are not zero.");
  bind_spread<&var>(c, "var", "Variance over the axes, divided by count - correction.");
  bind_spread<&std>(c, "std", "Standard deviation over the axes, by count - correction.");
  bind_place<&argmax>(c, "argmax", "First index of the largest element along an axis, or in the flattened array.");
  bind_place<&argmin>(c, "argmin", "First index of the smallest element along an axis, or in the flattened array.");
  c.def(
      "cumsum",
      [](const Array& self, IntArg axis, DTypeArg dtype, ArrayArg out) {
        std::optional<int64_t> along = to_optional_int("cumsum", "axis", axis);
        std::optional<DType> type = to_optional_dtype(dtype);
        return with_out("cumsum", out, [&](const Array* target) { return cumsum(self, along, type, target); });
      },
      "axis"_a = nb::none(), "dtype"_a = nb::none(), "out"_a = nb::none(), "Running sums along an axis.");
  c.def(
      "fill",
      [](const Array& self, NumberArg value) {
        Scalar number = to_scalar("fill", "value", value);
        in_scope([&] { return gpukit::fill(self, number), 0; });
      },
      "value"_a, "Every element becomes a number.");
}

}  // namespace gpukit::python
