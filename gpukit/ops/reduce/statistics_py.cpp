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

using Quantile = Array (*)(const Array&, std::span<const double>, std::optional<int64_t>, bool, QuantileMethod);

/// quantile or percentile: `whole` is what a q of 1 is called.
template <Quantile F>
void quantiles(nb::module_& m, const char* name, double whole, const char* doc) {
  m.def(
      name,
      [name, whole](const ArrayObject& a, NumbersArg q, IntArg axis, bool keepdims, StringArg method) {
        const Array& x = to_array(name, "a", a);
        const bool one = !PySequence_Check(q.ptr());
        std::vector<double> parts;
        if (one)
          parts.push_back(to_real(name, "q", q) / whole);
        else
          for (nb::handle part : to_items(name, "q", q)) parts.push_back(to_real(name, "q", part) / whole);
        const std::optional<int64_t> along = to_optional_int(name, "axis", axis);
        const QuantileMethod how = quantile_method(name, to_text(name, "method", method));
        return wrap(in_scope([&] {
          Array all = F(x, parts, along, keepdims, how);
          return one ? all.select(0, 0) : all;
        }));
      },
      "a"_a, "q"_a, "axis"_a = nb::none(), nb::kw_only(), "keepdims"_a = false, "method"_a = "linear", doc);
}

template <Array (*F)(const Array&, std::optional<int64_t>, bool)>
void along(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, IntArg axis, bool keepdims) {
        const Array& x = to_array(name, "a", a);
        const std::optional<int64_t> of = to_optional_int(name, "axis", axis);
        return wrap(in_scope([&] { return F(x, of, keepdims); }));
      },
      "a"_a, "axis"_a = nb::none(), "keepdims"_a = false, doc);
}

template <Array (*F)(const Array&, std::optional<int64_t>, std::optional<DType>)>
void nan_running(nb::module_& m, const char* name, const char* doc) {
  m.def(
      name,
      [name](const ArrayObject& a, IntArg axis, DTypeArg dtype) {
        const Array& x = to_array(name, "a", a);
        const std::optional<int64_t> of = to_optional_int(name, "axis", axis);
        const std::optional<DType> type = to_optional_dtype(dtype);
        return wrap(in_scope([&] { return F(x, of, type); }));
      },
      "a"_a, "axis"_a = nb::none(), "dtype"_a = nb::none(), doc);
}

HistogramPair histogram_py(const ArrayObject& a, BinsArg bins, RangeArg range, bool density) {
  const Array& x = to_array("histogram", "a", a);
  if (const Array* edges = try_array(bins)) {
    if (!range.is_none()) throw ArgumentError("histogram", "range", "not be given beside edges", shown(range));
    Array counts = in_scope([&] {
      Array found = histogram(x, *edges);
      return density ? as_density(found, *edges) : found;
    });
    return nb::make_tuple(wrap(std::move(counts)), nb::borrow(bins));
  }
  const int64_t count = to_int("histogram", "bins", bins);
  std::optional<std::pair<double, double>> ends;
  if (!range.is_none()) {
    const nb::tuple both = to_items("histogram", "range", range, 2);
    if (both.size() != 2) throw ArgumentError("histogram", "range", "be two numbers", shown(range));
    ends.emplace(to_real("histogram", "range", both[0]), to_real("histogram", "range", both[1]));
  }
  auto found = in_scope([&] {
    auto pair = histogram(x, count, ends);
    if (density) pair.first = as_density(pair.first, pair.second);
    return pair;
  });
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
  along<&nanmedian>(m, "nanmedian", "The median of what is not NaN; NaN where nothing is left.");
  along<&nanargmax>(m, "nanargmax", "argmax over what is not NaN. Waits for the device; NaN alone is an error.");
  along<&nanargmin>(m, "nanargmin", "argmin over what is not NaN. Waits for the device; NaN alone is an error.");
  quantiles<&nanquantile>(m, "nanquantile", 1, "quantile of what is not NaN; NaN where nothing is left.");
  quantiles<&nanquantile>(m, "nanpercentile", 100, "nanquantile of q in percent.");
  nan_running<&nancumsum>(m, "nancumsum", "Running sums where NaN counts as 0.");
  nan_running<&nancumprod>(m, "nancumprod", "Running products where NaN counts as 1.");
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
  quantiles<&quantile>(m, "quantile", 1,
                       "The value below which a part q of the elements lies, between neighbours by a straight line.");
  quantiles<&quantile>(m, "percentile", 100, "quantile of q in percent.");
  along<&median>(m, "median", "The middle element in order, or the mean of the middle two.");
  m.def(
      "bincount",
      [](const ArrayObject& x, int64_t minlength) {
        const Array& input = to_array("bincount", "x", x);
        return wrap(in_scope([&] { return bincount(input, minlength); }));
      },
      "x"_a, nb::kw_only(), "minlength"_a = 0,
      "How often each of 0 .. max(x) occurs in a 1-D integer array. Waits for the device.");
  m.def("histogram", &histogram_py, "a"_a, "bins"_a = 10, "range"_a = nb::none(), nb::kw_only(), "density"_a = false,
        "(counts, edges) of equal bins over the range of a, or counts between given edges. Finding the range waits for "
        "the device. density: each count is divided by all of them and by the width of its bin.");
  m.def(
      "average",
      [](const ArrayObject& a, AxisArg axis, ArrayArg weights, bool keepdims) {
        const Array& x = to_array("average", "a", a);
        const Axes axes = to_optional_axes("average", axis);
        const Array* shares = to_optional_array("average", "weights", weights);
        return wrap(in_scope([&] { return average(x, axes, shares, keepdims); }));
      },
      "a"_a, "axis"_a = nb::none(), "weights"_a = nb::none(), nb::kw_only(), "keepdims"_a = false,
      "The mean over the axes, or sum(a * weights) / sum(weights).");
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
