// Grids, triangles, diagonals, and joining by rows and columns. All are built from views, joins and choices.
#pragma once

#include <span>
#include <vector>

#include "gpukit/array/array.h"

namespace gpukit {

/// A copy with zeros above (tril) or below (triu) the k-th diagonal of the last two axes. Throws ShapeError for fewer
/// than two.
Array tril(const Array& x, int64_t k = 0);
Array triu(const Array& x, int64_t k = 0);
/// A matrix with a vector on its k-th diagonal, or a copy of a matrix's k-th diagonal. Throws ShapeError.
Array diag(const Array& x, int64_t k = 0);
/// Copies of 1-D arrays spread over the axes of a grid; `by_rows` makes the first array run along axis 0 (`ij`), else
/// the first two axes change places (`xy`). Throws ShapeError, DTypeError where dtypes differ.
std::vector<Array> meshgrid(std::span<const Array> arrays, bool by_rows = false);
/// Joined along axis 1, 1-D arrays along axis 0.
Array hstack(std::span<const Array> arrays);
/// Joined along axis 0; 1-D arrays are rows.
Array vstack(std::span<const Array> arrays);
/// Along axis 2; those of fewer axes get them as atleast_3d.
Array dstack(std::span<const Array> arrays);
/// With axes of size 1 put in until there are `rank` (1 to 3), as NumPy's atleast_1d, _2d and _3d place them. A view.
Array at_least(const Array& x, int rank);
/// Views of `sections` parts, of which the first ones are one longer where they cannot be equal.
std::vector<Array> array_split(const Array& x, int64_t sections, int64_t axis = 0);

}  // namespace gpukit
