// Counts, differences, quantiles, histograms, and reductions that pass over NaN. All are built from other operations.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "gpukit/ops/reduce/reduce.h"

namespace gpukit {

/// int64: how many elements are not zero. NaN is not.
Array count_nonzero(const Array& x, const Axes& axes = {}, bool keepdims = false);
/// Running sums and products as the array standard has them: an array of more than one axis needs an axis; with
/// `include_initial` 0 (1) comes first. Throws ArgumentError without a needed axis, OutOfRangeError.
Array cumulative_sum(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                     bool include_initial = false);
Array cumulative_prod(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
                      bool include_initial = false);
/// Differences of neighbours along `axis`, `n` times over; of bool whether they differ. `prepend` and `append` are
/// joined to x before. Throws ArgumentError for a negative n, ShapeError for a 0-d array.
Array diff(const Array& x, int64_t axis = -1, int64_t n = 1, const Array* prepend = nullptr,
           const Array* append = nullptr);

/// The reductions of reduce.h over the elements that are not NaN. None left: 0, 1, and NaN for the others. Integers and
/// bool have no NaN.
Array nansum(const Array& x, const Axes& axes = {}, bool keepdims = false);
Array nanprod(const Array& x, const Axes& axes = {}, bool keepdims = false);
Array nanmean(const Array& x, const Axes& axes = {}, bool keepdims = false);
Array nanvar(const Array& x, const Axes& axes = {}, double correction = 0, bool keepdims = false);
Array nanstd(const Array& x, const Axes& axes = {}, double correction = 0, bool keepdims = false);
Array nanmax(const Array& x, const Axes& axes = {}, bool keepdims = false);
Array nanmin(const Array& x, const Axes& axes = {}, bool keepdims = false);

/// The first place of the largest or smallest element that is not NaN, along an axis or in the flattened array. Waits
/// for the device. Throws ArgumentError where nothing else is there.
Array nanargmax(const Array& x, std::optional<int64_t> axis = {}, bool keepdims = false);
Array nanargmin(const Array& x, std::optional<int64_t> axis = {}, bool keepdims = false);
/// Running sums and products where NaN counts as 0 and 1.
Array nancumsum(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {});
Array nancumprod(const Array& x, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {});

/// What is taken where q falls between two elements, as NumPy names it.
enum class QuantileMethod { linear, lower, higher, midpoint, nearest };
/// Throws ArgumentError naming op.
QuantileMethod quantile_method(const char* op, std::string_view name);

/// The value below which a part q (0 to 1) of the elements lies, between neighbours by a straight line; one slice in
/// front for each of `q`. NaN among the elements gives NaN; integers count as float64. Throws ArgumentError for no
/// elements or a q outside of 0 to 1.
Array quantile(const Array& x, std::span<const double> q, std::optional<int64_t> axis = {}, bool keepdims = false,
               QuantileMethod method = QuantileMethod::linear);
/// Of the elements that are not NaN; NaN where nothing is left.
Array nanquantile(const Array& x, std::span<const double> q, std::optional<int64_t> axis = {}, bool keepdims = false,
                  QuantileMethod method = QuantileMethod::linear);
Array nanmedian(const Array& x, std::optional<int64_t> axis = {}, bool keepdims = false);
Array median(const Array& x, std::optional<int64_t> axis = {}, bool keepdims = false);

/// How often each of 0 .. max(x) occurs, at least `minlength` counts. `x` is 1-D and has integers, none negative. Waits
/// for the device. Throws ArgumentError, DTypeError, ShapeError.
Array bincount(const Array& x, int64_t minlength = 0);
/// Counts as a density: divided by their sum and by the width of each bin, in float64.
Array as_density(const Array& counts, const Array& edges);
/// int64: how many elements lie in [edges[i], edges[i + 1]), the last bin with its right edge. `edges` is 1-D and in
/// order.
Array histogram(const Array& x, const Array& edges);
/// `bins` equal parts of [low, high], by default of the smallest and largest element, which waits for the device:
/// (counts, edges).
std::pair<Array, Array> histogram(const Array& x, int64_t bins, std::optional<std::pair<double, double>> range = {});
/// The broken line through the points (xp, fp) at x: xp is 1-D and in order. Outside of it `left` and `right`, by
/// default fp's ends. Float dtypes; integers count as float64.
Array interp(const Array& x, const Array& xp, const Array& fp, std::optional<double> left = {},
             std::optional<double> right = {});

/// sum(x * weights) / sum(weights); the weights broadcast against x, or lie along `axis` where they are 1-D. Integers
/// give float64. Throws ShapeError.
Array average(const Array& x, const Axes& axes = {}, const Array* weights = nullptr, bool keepdims = false);

/// log(sum(exp(x))) without overflow on the way. Float dtypes, 16-bit floats in float32.
Array logsumexp(const Array& x, const Axes& axes = {}, bool keepdims = false);
/// x - logsumexp(x) along `axis`.
Array log_softmax(const Array& x, int64_t axis = -1);

}  // namespace gpukit
