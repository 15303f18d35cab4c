#include "gpukit/ops/reduce/statistics.h"

#include <nanobind/stl/optional.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/python/bind.h"

namespace gpukit {

namespace {

using namespace python;

using Plain = Array (*)(const Array&, const Axes&, bool);
using Spread = Array (*)(const Array&, const Axes&, double, bool);
using Cumulative = Array (*)(const Array&, std::optional<int64_t>, std::optional<DType>, bool);
using NumbersArg = Shown<"float | collections.abc.Sequence[float]">;
using BinsArg = Shown<"int | GPUArray">;
using RangeArg = Shown<"tuple[float, float] | None">;
using HistogramPair = nb::typed<nb::tuple, Array, Array>;

template <Plain F>
void plain(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, AxisArg axis, bool keepdims) {
        const Array& x = to_array(name, "a", a);
        const Axes axes = to_optional_axes(name, axis);
        return wrap(in_scope([&] { return F(x, axes, keepdims); }));
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, doc);
}

template <Spread F>
void spread(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, AxisArg axis, bool keepdims, double correction, std::optional<double> ddof) {
        const Array& x = to_array(name, "a", a);
        const Axes axes = to_optional_axes(name, axis);
        return wrap(in_scope([&] { return F(x, axes, ddof.value_or(correction), keepdims); }));
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, nb::kw_only(), "correction"_a = 0.0, "ddof"_a = nb::none(),
      doc);
}

template <Cumulative F>
void cumulative(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& x, IntArg axis, DTypeArg dtype, bool include_initial) {
        const Array& input = to_array(name, "x", x);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        const std::optional<DType> type = to_optional_dtype(dtype);
        return wrap(in_scope([&] { return F(input, along, type, include_initial); }));
      },
      "x"_a, nb::kw_only(), "axis"_a = nb::none(), "dtype"_a = nb::none(), "include_initial"_a = false, doc);
}

double to_real(const char* op, const char* argument, nb::handle value) {
  const Scalar number = to_scalar(op, argument, value);
  if (number.kind == ScalarKind::complex) throw ArgumentError(op, argument, "be a real number", shown(value));
  return number.real;
}

/// quantile or percentile: `whole` is what a q of 1 is called.
void quantiles(nb::module_& m, const char* name, double whole, const char* doc) {
  m.def(
      name,
      [name, whole](const ArrayObject& a, NumbersArg q, IntArg axis, bool keepdims) {
        const Array& x = to_array(name, "a", a);
        const bool one = !PySequence_Check(q.ptr());
        std::vector<double> parts;
        if (one)
          parts.push_back(to_real(name, "q", q) / whole);
        else
          for (nb::handle part : to_items(name, "q", q)) parts.push_back(to_real(name, "q", part) / whole);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        return wrap(in_scope([&] {
          Array all = quantile(x, parts, along, keepdims);
          return one ? all.select(0, 0) : all;
        }));
      },
      "a"_a, "q"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false, doc);
}

HistogramPair histogram_py(const ArrayObject& a, BinsArg bins, RangeArg range) {
  const Array& x = to_array("histogram", "a", a);
  if (const Array* edges = try_array(bins)) {
    if (!range.is_none()) throw ArgumentError("histogram", "range", "not be given beside edges", shown(range));
    Array counts = in_scope([&] { return histogram(x, *edges); });
    return nb::make_tuple(wrap(std::move(counts)), nb::borrow(bins));
  }
  const int64_t count = to_int("histogram", "bins", bins);
  std::optional<std::pair<double, double>> ends;
  if (!range.is_none()) {
    const nb::tuple both = to_items("histogram", "range", range, 2);
    if (both.size() != 2) throw ArgumentError("histogram", "range", "be two numbers", shown(range));
    ends.emplace(to_real("histogram", "range", both[0]), to_real("histogram", "range", both[1]));
  }
  auto found = in_scope([&] { return histogram(x, count, ends); });
  return nb::make_tuple(wrap(std::move(found.first)), wrap(std::move(found.second)));
}

void bind_nan(nb::module_& m) {
  plain<&nansum>(m, "nansum", "Sum over the axes of what is not NaN.");
  plain<&nanprod>(m, "nanprod", "Product over the axes of what is not NaN.");
  plain<&nanmean>(m, "nanmean", "Mean over the axes of what is not NaN; NaN where nothing is left.");
  plain<&nanmax>(m, "nanmax", "The largest element over the axes that is not NaN; NaN where nothing is left.");
  plain<&nanmin>(m, "nanmin", "The smallest element over the axes that is not NaN; NaN where nothing is left.");
  spread<&nanvar>(m, "nanvar", "Variance over the axes of what is not NaN.");
  spread<&nanstd>(m, "nanstd", "Standard deviation over the axes of what is not NaN.");
}

}  // namespace

void bind_statistics(nb::module_& m) {
  bind_nan(m);
  plain<&count_nonzero>(m, "count_nonzero", "How many elements over the axes are not zero, as int64.");
  plain<&logsumexp>(m, "logsumexp", "log(sum(exp(a))) over the axes, without overflow on the way.");
  cumulative<&cumulative_sum>(
      m, "cumulative_sum", "Running sums along an axis; include_initial puts 0 in front. The array standard's cumsum.");
  cumulative<&cumulative_prod>(m, "cumulative_prod",
                               "Running products along an axis; include_initial puts 1 in front.");
  m.def(
      "diff",
      [](const ArrayObject& x, int64_t axis, int64_t n, ArrayArg prepend, ArrayArg append) {
        const Array& input = to_array("diff", "x", x);
        const Array* before = to_optional_array("diff", "prepend", prepend);
        const Array* after = to_optional_array("diff", "append", append);
        return wrap(in_scope([&] { return diff(input, axis, n, before, after); }));
      },
      "x"_a, nb::kw_only(), "axis"_a = -1, "n"_a = 1, "prepend"_a = nb::none(), "append"_a = nb::none(),
      "Differences of neighbours along an axis, n times over.");
  m.def(
      "log_softmax",
      [](const ArrayObject& input, int64_t axis) {
        const Array& x = to_array("log_softmax", "input", input);
        return wrap(in_scope([&] { return log_softmax(x, axis); }));
      },
      "input"_a, "axis"_a = -1, "The logarithm of softmax along an axis, without overflow on the way.");
  quantiles(m, "quantile", 1,
            "The value below which a part q of the elements lies, between neighbours by a straight line.");
  quantiles(m, "percentile", 100, "quantile of q in percent.");
  m.def(
      "median",
      [](const ArrayObject& a, IntArg axis, bool keepdims) {
        const Array& x = to_array("median", "a", a);
        const std::optional<int64_t> along = to_optional_int("median", "axis", axis);
        return wrap(in_scope([&] { return median(x, along, keepdims); }));
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false,
      "The middle element in order, or the mean of the middle two.");
  m.def(
      "bincount",
      [](const ArrayObject& x, int64_t minlength) {
        const Array& input = to_array("bincount", "x", x);
        return wrap(in_scope([&] { return bincount(input, minlength); }));
      },
      "x"_a, nb::kw_only(), "minlength"_a = 0,
      "How often each of 0 .. max(x) occurs in a 1-D integer array. Waits for the device.");
  m.def("histogram", &histogram_py, "a"_a, "bins"_a = 10, "range"_a = nb::none(),
        "(counts, edges) of equal bins over the range of a, or counts between given edges. Finding the range waits for "
        "the device.");
  m.def(
      "interp",
      [](const ArrayObject& x, const ArrayObject& xp, const ArrayObject& fp, std::optional<double> left,
         std::optional<double> right) {
        const Array &at = to_array("interp", "x", x), &points = to_array("interp", "xp", xp);
        const Array& values = to_array("interp", "fp", fp);
        return wrap(in_scope([&] { return interp(at, points, values, left, right); }));
      },
      "x"_a, "xp"_a, "fp"_a, nb::kw_only(), "left"_a = nb::none(), "right"_a = nb::none(),
      "The broken line through the points (xp, fp), xp in order, at x; beyond its ends left and right.");
}

}  // namespace gpukit
