// Moving elements between layouts: copies, fills, contiguous forms. Elements move by width, whatever their dtype.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/workspace.h"

namespace gpukit {

/// dst[...] = src, broadcast to dst's shape and cast to dst's dtype by the rules of cast.h. Any strides; overlapping
/// views behave as if src were copied first. Throws ShapeError, DTypeError, DeviceError.
void copy_into(const Array& dst, const Array& src);
/// `input` itself when row-major, else a row-major copy.
Array contiguous(const Array& input);
/// Always a row-major copy.
Array copy(const Array& input);
/// The same for what the caller uses up.
Array contiguous(const Array& input, Temporaries& into);
Array copy(const Array& input, Temporaries& into);
/// Every element of `dst` becomes `value`. Throws ArgumentError for an integer out of the dtype's range.
void fill(const Array& dst, const Scalar& value);
/// The 0.2 name: copies src into dst, which has as many elements in any shape. Throws ShapeError, DTypeError.
void copy_to(const Array& src, const Array& dst);

}  // namespace gpukit
