// Values added at integer indices along one axis.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// A copy of `x` with out[..., indices[i, j, ...], ...] += values[i, j, ...] along `axis`, where equal indices add up:
/// in the order of `indices` along the axis, in float32 for 16-bit floats, so the bits are the same on every device.
/// Indices, their errors and broadcasting as in put_along_axis; values are cast to the dtype of `x`. Throws DTypeError
/// (bool, packed), ShapeError, OutOfRangeError (axis), DeviceError.
Array scatter_add(const Array& x, const Array& indices, const Operand& values, int64_t axis = -1);

/// Rows of `out` [rows, width] += values [rows, count] at `sorted` [rows, count], whose columns came from `order`; all
/// row-major. A negative place is left out.
struct ScatterRows {
  Array out, sorted, order, values;
};
namespace cpu {
void scatter_add(const ScatterRows& rows);
}
namespace cuda {
void scatter_add(const ScatterRows& rows);
}

}  // namespace gpukit
