// Shapes and layouts: views where the strides allow it, else one copy per element. Any dtype.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit {

// ---- Views. Each shares memory with its argument.

/// Axes in the order `axes`. Throws ShapeError unless each axis is named once.
Array permute_dims(const Array& x, const Dims& axes);
/// Axes `source` moved to the places `destination`; the others keep their order.
Array moveaxis(const Array& x, const Dims& source, const Dims& destination);
Array swapaxes(const Array& x, int64_t axis1, int64_t axis2);
/// Drops the named axes, which must have size 1; without names, every axis of size 1.
Array squeeze(const Array& x, const std::optional<Dims>& axes = std::nullopt);
/// New axes of size 1 at the named places of the result.
Array expand_dims(const Array& x, const Dims& axes);
Array broadcast_to(const Array& x, const Dims& shape);
/// broadcast_to where -1 keeps the size of an axis.
Array expand(const Array& x, const Dims& shape);
std::vector<Array> broadcast_arrays(std::span<const Array> arrays);
/// The order of elements reversed along the named axes, or along all.
Array flip(const Array& x, const std::optional<Dims>& axes = std::nullopt);
/// `sections` equal parts along `axis`. Throws ShapeError when they are not equal.
std::vector<Array> split(const Array& x, int64_t sections, int64_t axis = 0);
/// Parts that end before each of `indices`, as NumPy's split.
std::vector<Array> split_at(const Array& x, std::span<const int64_t> indices, int64_t axis = 0);
/// The slices along `axis`, without it.
std::vector<Array> unstack(const Array& x, int64_t axis = 0);

// ---- A view where the strides allow it, else a copy.

/// One size may be -1. `copy`: true always copies, false throws ShapeError where a view cannot have the shape.
Array reshape(const Array& x, const Dims& shape, std::optional<bool> copy = std::nullopt);
Array ravel(const Array& x);
/// The same with a copy that the caller uses up.
Array reshape(const Array& x, const Dims& shape, Temporaries& into);

// ---- Copies.

Array flatten(const Array& x);
/// Arrays joined along `axis`; without an axis each is flattened first. dtypes are promoted.
Array concat(std::span<const Array> arrays, std::optional<int64_t> axis = 0, const Array* out = nullptr);
/// Arrays of one shape joined along a new axis.
Array stack(std::span<const Array> arrays, int64_t axis = 0, const Array* out = nullptr);
/// Each slice along `axis` `repeats` times in a row; without an axis x is flattened first.
Array repeat(const Array& x, int64_t repeats, std::optional<int64_t> axis = std::nullopt, const Array* out = nullptr);
/// The same with one count per slice.
Array repeat(const Array& x, std::span<const int64_t> repeats, std::optional<int64_t> axis = std::nullopt,
             const Array* out = nullptr);
/// x as a whole, repeated along each axis.
Array tile(const Array& x, const Dims& repetitions, const Array* out = nullptr);
/// Elements move by shifts[i] places along axes[i] and come back at the other end. Without axes x is rolled flat by
/// shifts[0].
Array roll(const Array& x, const Dims& shifts, const std::optional<Dims>& axes = std::nullopt,
           const Array* out = nullptr);

enum class PadMode { constant, edge, reflect };
/// `widths` has one pair (before, after) per axis. edge repeats the border element; reflect mirrors about it.
/// Throws ShapeError for edge or reflect of an axis of size 0.
Array pad(const Array& x, std::span<const std::pair<int64_t, int64_t>> widths, PadMode mode = PadMode::constant,
          const Scalar& value = Scalar(0), const Array* out = nullptr);

// ---- Names of the 0.2 series.

Array concat_axis0(const Array& a, const Array& b);
/// [d0, d1, d2] -> [d0, d1 * repeats, d2], each slice `repeats` times in a row.
Array repeat_interleave_axis1(const Array& input, int64_t repeats);
/// A copy with the axes in the order `axes`. `op` names the caller; input must have as many dimensions.
Array transpose_copy(const char* op, const Array& input, const Dims& axes, const Array* out = nullptr);
/// A copy in `new_shape`, or in the shape of `out`. Throws ArgumentError when both are missing, ShapeError when sizes
/// differ.
Array reshape_copy(const Array& input, const std::optional<Dims>& new_shape, const Array* out = nullptr);

}  // namespace gpukit
