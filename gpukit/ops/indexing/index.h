// x[...] as NumPy has it: integers, slices, `...`, new axes, integer arrays and boolean masks, in any mix.
//
// Integers, slices, `...` and new axes give views. An array in the list makes the result a copy: arrays broadcast to
// one shape, which takes the place of the indexed axes when they stand side by side and goes to the front otherwise;
// integers beside arrays count as arrays. A mask of rank n stands for n axes of its shape, as its nonzero() would. An
// integer out of range raises at once; a bad value in an index array follows the rules of take.h (`getitem`,
// `setitem`).
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "gpukit/array/array.h"
#include "gpukit/ops/common/operand.h"

namespace gpukit {

struct IndexSlice {
  std::optional<int64_t> start, stop, step;
};
struct IndexEllipsis {};
struct IndexNewAxis {};

/// An Array has an integer dtype or is a bool mask. A plain bool is a 0-d mask.
using IndexItem = std::variant<int64_t, bool, IndexSlice, IndexEllipsis, IndexNewAxis, Array>;

/// Reading through a mask waits for the device (the size of the result depends on the data) and raises inside a
/// capture. Throws OutOfRangeError, ShapeError, DTypeError, DeviceError, ArgumentError (step 0).
Array get_item(const Array& x, std::span<const IndexItem> items);

/// x[items] = value, broadcast and cast to x's dtype. Where several positions name one element, the last in row-major
/// order of the broadcast index stays. One mask with a single value does not wait; a mask with an array of values does.
void set_item(const Array& x, std::span<const IndexItem> items, const Operand& value);

}  // namespace gpukit
