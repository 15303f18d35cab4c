#include "gpukit/ops/indexing/set_values.h"

#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

Array drop_leading_axes(const Array& values, int rank) {
  Array trimmed = values;
  while (trimmed.ndim() > rank && trimmed.shape()[0] == 1) trimmed = trimmed.squeeze(0);
  return trimmed;
}

namespace {

/// Replaces the index by a copy of its own.
void keep_apart(IndexArgument* index, const Dims& shape, Temporaries& into) {
  Dims needed = shape;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (index->strides[axis] == 0) needed[axis] = 1;
  const Array& old = index->values;
  index->values = copy(Array(old.storage(), old.dtype(), needed, index->strides, old.offset_bytes()), into);
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (index->strides[axis] != 0) index->strides[axis] = index->values.strides()[axis];
}

}  // namespace

void set_values(IndexedMove* move, const Operand& values) {
  const char* op = move->op;
  if (has_internal_overlap(move->indexed))
    throw ArgumentError(op, "x", "not reach one element twice",
                        "a broadcast view of strides " + move->indexed.strides().str());
  Temporaries temporaries(op);
  for (int j = 0; j < move->num_indices; ++j) {
    IndexArgument& index = move->indices[static_cast<size_t>(j)];
    if (may_share_memory(index.values, move->indexed)) keep_apart(&index, move->shape, temporaries);
  }
  if (!values.is_array()) {
    indexed_set(*move, nullptr, to_element(op, values.scalar, move->indexed.dtype()));
    return;
  }
  check_same_device(op, move->indexed, *values.array);
  Array given = drop_leading_axes(*values.array, move->shape.rank());
  given = astype(given, move->indexed.dtype(), temporaries);
  if (may_share_memory(given, move->indexed)) given = copy(given, temporaries);
  if (broadcast_shapes(op, given.shape(), move->shape) != move->shape)
    throw ShapeError(op, "values", "broadcast to shape " + move->shape.str(), given.shape().str());
  const Array spread = given.broadcast_to(move->shape);
  indexed_set(*move, &spread, ElementBytes{});
}

}  // namespace gpukit
