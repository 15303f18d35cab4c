#include <nanobind/stl/optional.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/reduce/reduce.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using Typed = Array (*)(const Array&, const Axes&, bool, std::optional<DType>, const Array*);
using Plain = Array (*)(const Array&, const Axes&, bool, const Array*);
using Spread = Array (*)(const Array&, const Axes&, double, bool, const Array*);
using Place = Array (*)(const Array&, std::optional<int64_t>, bool, const Array*);

template <Typed F>
void typed(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, AxisArg axis, bool keepdims, DTypeArg dtype, ArrayArg out) {
        const Array& x = to_array(name, "a", a);
        const Axes axes = to_optional_axes(name, axis);
        const std::optional<DType> type = to_optional_dtype(dtype);
        return with_out(name, out, [&](const Array* target) { return F(x, axes, keepdims, type, target); });
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(),
      doc);
}

template <Plain F>
void plain(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, AxisArg axis, bool keepdims, ArrayArg out) {
        const Array& x = to_array(name, "a", a);
        const Axes axes = to_optional_axes(name, axis);
        return with_out(name, out, [&](const Array* target) { return F(x, axes, keepdims, target); });
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "out"_a = nb::none(), doc);
}

template <Spread F>
void spread(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, AxisArg axis, bool keepdims, double correction, std::optional<double> ddof,
             ArrayArg out) {
        const Array& x = to_array(name, "a", a);
        if (ddof && correction != 0)
          throw ArgumentError(name, "ddof", "not be given beside correction", std::to_string(*ddof));
        const Axes axes = to_optional_axes(name, axis);
        const double taken = ddof.value_or(correction);
        return with_out(name, out, [&](const Array* target) { return F(x, axes, taken, keepdims, target); });
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "correction"_a = 0.0, "ddof"_a = nb::none(),
      "out"_a = nb::none(), doc);
}

template <Place F>
void place(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, IntArg axis, bool keepdims, ArrayArg out) {
        const Array& x = to_array(name, "a", a);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        return with_out(name, out, [&](const Array* target) { return F(x, along, keepdims, target); });
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "out"_a = nb::none(), doc);
}

template <Array (*F)(const Array&, std::optional<int64_t>, std::optional<DType>, const Array*)>
void running(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, IntArg axis, DTypeArg dtype, ArrayArg out) {
        const Array& x = to_array(name, "a", a);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        const std::optional<DType> type = to_optional_dtype(dtype);
        return with_out(name, out, [&](const Array* target) { return F(x, along, type, target); });
      },
      "a"_a, "axis"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "out"_a = nb::none(), doc);
}

}  // namespace

void bind_reduce(nb::module_& m) {
  typed<&sum>(m, "sum", "Sum over the axes (all: 0-d). Integers and bool give int64, unsigned ones uint64.");
  typed<&prod>(m, "prod", "Product over the axes. Integers and bool give int64, unsigned ones uint64.");
  typed<&mean>(m, "mean", "Mean over the axes. Integers give float64; no elements give NaN. dtype: converted first.");
  plain<&max>(m, "max", "The largest element over the axes. NaN wins; no elements is an error.");
  plain<&min>(m, "min", "The smallest element over the axes. NaN wins; no elements is an error.");
  plain<&any>(m, "any", "True where any element over the axes is not 0.");
  plain<&all>(m, "all", "True where all elements over the axes are not 0.");
  spread<&var>(m, "var", "Variance over the axes, divided by count - correction. ddof is another name of correction.");
  spread<&gpukit::std>(m, "std", "Standard deviation over the axes: the root of var.");
  place<&argmax>(
      m, "argmax",
      "First index (int64) of the largest element along an axis, or in the flattened array. The first NaN wins.");
  place<&argmin>(
      m, "argmin",
      "First index (int64) of the smallest element along an axis, or in the flattened array. The first NaN wins.");
  m.def(
      "sum_axis",
      [](const ArrayObject& a, AxisArg axis, ArrayArg out) {
        const Array& x = to_array("sum_axis", "a", a);
        const int64_t along = to_int("sum_axis", "axis", axis);
        return with_out("sum_axis", out, [&](const Array* target) { return sum_axis(x, along, target); });
      },
      "a"_a, "axis"_a, nb::kw_only(), "out"_a = nb::none(), "Sum of a matrix along axis 0 or 1.");
  running<&cumsum>(
      m, "cumsum",
      "Running sums along an axis, or of the flattened array. Element i equals the sum of elements 0 to i to the bit.");
  running<&cumprod>(m, "cumprod", "Running products along an axis, or of the flattened array, to the bits of prod.");
}

}  // namespace gpukit
