// The last step of every indexed write: values checked, cast and kept apart from what is written.
#pragma once

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/indexing/indexed_move.h"

namespace gpukit {

/// `values` without the leading size-1 axes it has beyond `rank`, as NumPy allows in an assignment.
Array drop_leading_axes(const Array& values, int rank);
/// Writes `values`, broadcast to the move's shape and cast to the indexed dtype. Throws ShapeError, DTypeError,
/// DeviceError, and ArgumentError for an indexed array that reaches one element twice.
void set_values(IndexedMove* move, const Operand& values);

}  // namespace gpukit
