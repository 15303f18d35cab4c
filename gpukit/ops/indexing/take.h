// Reads and writes at integer indices along one axis.
//
// Indices have an integer dtype; negative ones count from the end. A bad index never touches memory: its element reads
// as 0 or is not written, and the next wait for the device raises OutOfRangeError (`take: index 7 is out of range for
// an axis of size 5`). Where several indices name one element, the last in row-major order of `indices` stays, on every
// backend.
#pragma once

#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit {

/// Slices of `x` along `axis`: shape x.shape[:axis] + indices.shape + x.shape[axis + 1:]. Without an axis `x` is
/// flattened. Throws DTypeError, ShapeError, OutOfRangeError (axis), DeviceError.
Array take(const Array& x, const Array& indices, std::optional<int64_t> axis = std::nullopt,
           const Array* out = nullptr);

/// out[i, j, ...] = x[..., indices[i, j, ...], ...] along `axis`. Both have one rank; other axes broadcast.
Array take_along_axis(const Array& x, const Array& indices, int64_t axis = -1, const Array* out = nullptr);

/// x[..., indices[i, j, ...], ...] = values[i, j, ...] along `axis`, in place. Indices and values broadcast as above.
void put_along_axis(const Array& x, const Array& indices, const Operand& values, int64_t axis = -1);

/// A copy of `x` with values put along `axis`. `out` may be `x` itself.
Array scatter(const Array& x, const Array& indices, const Operand& values, int64_t axis = -1,
              const Array* out = nullptr);

/// Reports indices that are out of range as those functions do, and checks shapes and dtypes for `op`; nothing else.
void note_bad_indices(const char* op, const Array& x, const Array& indices, int64_t axis);

}  // namespace gpukit
