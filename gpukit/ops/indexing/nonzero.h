// Where an array is not zero. The size of these results depends on the data: they wait for the device, and raise inside
// a graph capture.
#pragma once

#include <optional>
#include <vector>

#include "gpukit/array/array.h"

namespace gpukit {

/// Coordinates of the non-zero elements in row-major order: int64 [x.ndim(), count], one row per axis. `x` has at least
/// one axis and any dtype that casts to bool (NaN is not zero). Throws ShapeError for a 0-d array.
Array nonzero_coordinates(const Array& x);
/// One int64 array per axis, as NumPy's nonzero.
std::vector<Array> nonzero(const Array& x);
/// int64 [count, x.ndim()], row-major.
Array argwhere(const Array& x);
/// The slices of `x` along `axis` where the 1-D `condition` is not zero; without an axis `x` is flattened first.
/// A condition shorter than the axis leaves out the rest; a longer one may only add zeros.
Array compress(const Array& condition, const Array& x, std::optional<int64_t> axis = std::nullopt);

namespace cpu {
void count_flags(const Array& counts, const Array& flags);
void write_coordinates(const Array& coordinates, const Array& flags, const Array& counts);
}  // namespace cpu
namespace cuda {
void count_flags(const Array& counts, const Array& flags);
void write_coordinates(const Array& coordinates, const Array& flags, const Array& counts);
}  // namespace cuda

}  // namespace gpukit
