// Reductions and running sums.
//
// One tree for every sum, on every device: element 2i is added to element 2i + 1, the results again in pairs, and so
// on; an odd one out moves up unchanged. The tree depends on the number of elements that are added up, and on nothing
// else: not on the other axes, the device, threads, alignment or splitting of the work. So a row's result does not
// depend on the rows beside it, cumsum(x)[i] equals sum(x[:i + 1]) to the bit, and CPU and GPU agree to the bit in sum,
// mean, prod and cumsum. Axes that are reduced together are walked in memory order (largest stride first), except by
// argmax and argmin.
//
// dtypes: float16 and bfloat16 are added up in float32 and rounded once, float32 in float32, float64 in float64,
// integers and bool exactly in int64 (unsigned: uint64). float8 and int4 throw DTypeError.
//
// axes: none given reduces all of them to a 0-d array; each may count from the end; a repeated one throws
// ArgumentError, one out of range OutOfRangeError. `keepdims` leaves reduced axes with size 1. Any strides are read in
// place.
//
// Graph captures: no memory may be allocated there, so give `out`. A large reduction to few results is split over
// blocks and needs room for partial results; in a capture it comes from a few buffers set aside by an earlier eager
// call on that device, and when there are none the reduction is not split: slower, same bits. What first converts its
// input (a `dtype`, the variance of integers, prod of narrow integers) allocates and so raises in a capture.
#pragma once

#include <optional>

#include "gpukit/array/array.h"

namespace gpukit {

using Axes = std::optional<Dims>;

/// With `dtype` the input is converted first, and the result has that dtype. Empty: 0.
Array sum(const Array& a, const Axes& axes = {}, bool keepdims = false, std::optional<DType> dtype = {},
          const Array* out = nullptr);
/// Empty: 1.
Array prod(const Array& a, const Axes& axes = {}, bool keepdims = false, std::optional<DType> dtype = {},
           const Array* out = nullptr);
/// Integers and bool give float64. Empty: NaN.
Array mean(const Array& a, const Axes& axes = {}, bool keepdims = false, const Array* out = nullptr);
/// Of `a` converted to the float or complex `dtype` first.
Array mean(const Array& a, const Axes& axes, bool keepdims, std::optional<DType> dtype, const Array* out);
/// Mean of squared deviations from the mean, divided by count - correction. No complex. Integers give float64.
Array var(const Array& a, const Axes& axes = {}, double correction = 0, bool keepdims = false,
          const Array* out = nullptr);
Array std(const Array& a, const Axes& axes = {}, double correction = 0, bool keepdims = false,
          const Array* out = nullptr);
/// NaN wins. No complex. Empty throws ArgumentError.
Array max(const Array& a, const Axes& axes = {}, bool keepdims = false, const Array* out = nullptr);
Array min(const Array& a, const Axes& axes = {}, bool keepdims = false, const Array* out = nullptr);
/// int64: the first index of the largest element along `axis`, or in the flattened array. The first NaN wins. No
/// complex. Empty throws ArgumentError.
Array argmax(const Array& a, std::optional<int64_t> axis = {}, bool keepdims = false, const Array* out = nullptr);
Array argmin(const Array& a, std::optional<int64_t> axis = {}, bool keepdims = false, const Array* out = nullptr);
/// bool. NaN counts as true. Empty: false, true.
Array any(const Array& a, const Axes& axes = {}, bool keepdims = false, const Array* out = nullptr);
Array all(const Array& a, const Axes& axes = {}, bool keepdims = false, const Array* out = nullptr);

/// sum of a matrix along axis 0 ([N]) or 1 ([M]). Throws ShapeError for other ranks.
Array sum_axis(const Array& a, int64_t axis, const Array* out = nullptr);

/// Running sums and products along `axis`; without one, of the flattened array. Shape of the input (or 1-D), dtypes as
/// sum.
Array cumsum(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
             const Array* out = nullptr);
Array cumprod(const Array& a, std::optional<int64_t> axis = {}, std::optional<DType> dtype = {},
              const Array* out = nullptr);

}  // namespace gpukit
