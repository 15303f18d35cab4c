// Reductions and fills as methods of GPUArray.
#include <nanobind/stl/optional.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/ops/sort/sort.h"
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
      [name](const Array& self, AxisArg axis, bool keepdims, DTypeArg dtype, ArrayArg out) {
        Axes axes = to_optional_axes(name, axis);
        std::optional<DType> type = to_optional_dtype(dtype);
        return with_out(name, out, [&](const Array* target) { return F(self, axes, keepdims, type, target); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(), doc);
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
      [name](const Array& self, AxisArg axis, bool keepdims, double correction, std::optional<double> ddof,
             ArrayArg out) {
        if (ddof && correction != 0)
          throw ArgumentError(name, "ddof", "not be given beside correction", std::to_string(*ddof));
        Axes axes = to_optional_axes(name, axis);
        const double taken = ddof.value_or(correction);
        return with_out(name, out, [&](const Array* target) { return F(self, axes, taken, keepdims, target); });
      },
      "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "correction"_a = 0.0, "ddof"_a = nb::none(),
      "out"_a = nb::none(), doc);
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

template <Array (*F)(const Array&, const Array*)>
void bind_unary(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, ArrayArg out) {
        return with_out(name, out, [&](const Array* target) { return F(self, target); });
      },
      nb::kw_only(), "out"_a = nb::none(), doc);
}

template <Array (*F)(const Array&, std::optional<int64_t>, std::optional<DType>, const Array*)>
void bind_running(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, IntArg axis, DTypeArg dtype, ArrayArg out) {
        std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        std::optional<DType> type = to_optional_dtype(dtype);
        return with_out(name, out, [&](const Array* target) { return F(self, along, type, target); });
      },
      "axis"_a = nb::none(), "dtype"_a = nb::none(), "out"_a = nb::none(), doc);
}

template <Array (*F)(const Array&, std::optional<int64_t>, bool, const Array*)>
void bind_sorting(nb::class_<Array>& c, const char* name, const char* doc) {
  c.def(
      name,
      [name](const Array& self, IntArg axis, bool descending) {
        std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        return wrap(in_scope([&] { return F(self, along, descending, nullptr); }));
      },
      "axis"_a.none() = -1, nb::kw_only(), "descending"_a = false, doc);
}

/// A method that is a function of the package with the array in front.
void forward(nb::class_<Array>& c, const char* name, const char* signature, const char* doc) {
  c.def(
      name,
      [name](nb::handle self, nb::args arguments, nb::kwargs named) -> nb::object {
        return nb::module_::import_("pygpukit._core").attr(name)(self, *arguments, **named);
      },
      nb::sig(signature), doc);
}

void bind_forwarded(nb::class_<Array>& c) {
  forward(c, "take",
          "def take(self, indices: pygpukit.typing.IndicesLike, axis: typing.SupportsIndex | None = None, *, "
          "out: GPUArray | None = None) -> GPUArray",
          "Slices along an axis at the indices; without an axis of the flattened array.");
  forward(c, "repeat",
          "def repeat(self, repeats: pygpukit.typing.Ints, axis: typing.SupportsIndex | None = None, *, "
          "out: GPUArray | None = None) -> GPUArray",
          "Each element several times in a row.");
  forward(c, "round", "def round(self, decimals: typing.SupportsIndex = 0, *, out: GPUArray | None = None) -> GPUArray",
          "To the nearest integer or to a number of decimals, halves to the even one.");
  forward(c, "dot", "def dot(self, x2: GPUArray, *, out: GPUArray | None = None) -> GPUArray",
          "The sum of products over the last axis and the last but one of x2, or its only one.");
  forward(c, "nonzero", "def nonzero(self) -> tuple[GPUArray, ...]",
          "Coordinates of the non-zero elements, one int64 array per axis. Waits for the device.");
  forward(c, "swapaxes", "def swapaxes(self, axis1: int, axis2: int) -> GPUArray", "A view with two axes exchanged.");
  forward(c, "diagonal", "def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> GPUArray",
          "A view of the elements (i, i + offset) of two axes, as the last axis.");
  forward(c, "trace",
          "def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, *, "
          "dtype: pygpukit.typing.DTypeLike | None = None, out: GPUArray | None = None) -> GPUArray",
          "The sum of a diagonal of two axes.");
}

ArrayObject clip(const Array& self, OperandArg low, OperandArg high, ArrayArg out) {
  std::optional<Operand> min, max;
  if (!low.is_none()) min = to_operand("clip", "min", low);
  if (!high.is_none()) max = to_operand("clip", "max", high);
  return with_out("clip", out, [&](const Array* target) {
    return clamp(self, min ? &*min : nullptr, max ? &*max : nullptr, target);
  });
}

}  // namespace

void bind_array_methods(nb::class_<Array>& c) {
  bind_typed<&sum>(c, "sum", "Sum over the axes, all by default.");
  bind_typed<&prod>(c, "prod", "Product over the axes, all by default.");
  bind_typed<&mean>(c, "mean", "Mean over the axes, all by default.");
  bind_plain<&max>(c, "max", "Largest element over the axes; NaN wins.");
  bind_plain<&min>(c, "min", "Smallest element over the axes; NaN wins.");
  bind_plain<&any>(c, "any", "Whether any element over the axes is not zero.");
  bind_plain<&all>(c, "all", "Whether all elements over the axes are not zero.");
  bind_spread<&var>(c, "var", "Variance over the axes, divided by count - correction.");
  bind_spread<&std>(c, "std", "Standard deviation over the axes, by count - correction.");
  bind_place<&argmax>(c, "argmax", "First index of the largest element along an axis, or in the flattened array.");
  bind_place<&argmin>(c, "argmin", "First index of the smallest element along an axis, or in the flattened array.");
  bind_running<&cumsum>(c, "cumsum", "Running sums along an axis, or of the flattened array.");
  bind_running<&cumprod>(c, "cumprod", "Running products along an axis, or of the flattened array.");
  bind_unary<&gpukit::conj>(c, "conj", "The complex conjugate; real numbers are copied.");
  bind_sorting<&sort>(c, "sort", "A copy in order along an axis; axis=None flattens it. The array itself stays.");
  bind_sorting<&argsort>(c, "argsort", "Where the elements of sort() come from.");
  bind_forwarded(c);
  c.def("clip", &clip, "min"_a = nb::none(), "max"_a = nb::none(), nb::kw_only(), "out"_a = nb::none(),
        "min(max(x, min), max); NaN comes through.");
  c.def(
      "fill",
      [](const Array& self, NumberArg value) {
        Scalar number = to_scalar("fill", "value", value);
        in_scope([&] { return gpukit::fill(self, number), 0; });
      },
      "value"_a, "Every element becomes a number.");
}

}  // namespace gpukit::python
