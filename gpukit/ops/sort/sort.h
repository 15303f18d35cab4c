// Sorting, searching and sets of values.
//
// Every sort is stable and takes bool, integers and floats. -0 equals 0; NaN is larger than every number, so it comes
// last, or first where `descending`. Results are the same bits on every device and for any number of threads.
#pragma once

#include <optional>
#include <utility>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"

namespace gpukit {

/// `x` in order along `axis`; without an axis x is flattened first. Throws DTypeError, OutOfRangeError (axis),
/// ShapeError (0-d).
Array sort(const Array& x, std::optional<int64_t> axis = -1, bool descending = false, const Array* out = nullptr);
/// int64: where the elements of sort() come from.
Array argsort(const Array& x, std::optional<int64_t> axis = -1, bool descending = false, const Array* out = nullptr);
/// The k largest (or smallest) elements along `axis` in order, and where they come from. Throws ArgumentError unless 0
/// <= k <= the axis.
std::pair<Array, Array> topk(const Array& x, int64_t k, int64_t axis = -1, bool largest = true);
/// int64, the shape of `values`: where each would go into the 1-D `sorted` to keep it in order: before equal elements,
/// or after them if `right`. `sorter` is an order (argsort) of `sorted` where it is not in order itself.
Array searchsorted(const Array& sorted, const Array& values, bool right = false, const Array* sorter = nullptr,
                   const Array* out = nullptr);
/// Where one number would go: 0-d.
Array searchsorted(const Array& sorted, const Scalar& value, bool right = false, const Array* sorter = nullptr,
                   const Array* out = nullptr);

/// The different values of `x` in order, the first place of each in the flattened x, for each element of x the place of
/// its value (x's shape), and how often each occurs. Every NaN is a value of its own. Complex values are ordered by
/// their real, then by their imaginary parts. The size of these results depends on the data: they wait for the device,
/// and raise inside a graph capture.
struct Unique {
  Array values, indices, inverse, counts;
};
Unique unique(const Array& x);
/// values alone.
Array unique_values(const Array& x);
/// Whether each element of `x` occurs in `values`, or does not where `invert`. NaN occurs nowhere.
Array isin(const Array& x, const Array& values, bool invert = false);

}  // namespace gpukit
