#include "gpukit/ops/indexing/indexed_move.h"

#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/cast.h"

namespace gpukit {

IndexKind index_kind(DType dtype) {
  switch (dtype) {
    case DType::int32: return IndexKind::int32;
    case DType::uint64: return IndexKind::uint64;
    default: return IndexKind::int64;
  }
}

Array index_values(const char* op, const Array& indices, Temporaries& into) {
  switch (indices.dtype()) {
    case DType::int32:
    case DType::int64:
    case DType::uint64: return indices;
    default:
      if (!is_integer(indices.dtype())) unsupported_dtype(op, "indices", indices.dtype(), "have an integer dtype");
      return astype(indices, DType::int64, into);
  }
}

MoveAxes move_axes(const IndexedMove& move, const Dims& plain_strides, bool ordered_first) {
  MoveAxes axes;
  auto append = [&](int axis) {
    const int64_t size = move.shape[axis];
    axes.size *= size;
    if (size == 1) return;
    const bool ordered = axis >= move.ordered_begin && axis < move.ordered_end;
    const int last = axes.rank - 1;
    bool merge = last >= 0 && axes.ordered[last] == ordered && axes.plain_strides[last] == plain_strides[axis] * size &&
                 axes.indexed_strides[last] == move.indexed_strides[axis] * size;
    for (int j = 0; j < move.num_indices; ++j)
      merge = merge && axes.index_strides[j][last] == move.indices[static_cast<size_t>(j)].strides[axis] * size;
    const int at = merge ? last : axes.rank++;
    axes.shape[at] = merge ? axes.shape[at] * size : size;
    axes.ordered[at] = ordered;
    axes.plain_strides[at] = plain_strides[axis];
    axes.indexed_strides[at] = move.indexed_strides[axis];
    for (int j = 0; j < move.num_indices; ++j)
      axes.index_strides[j][at] = move.indices[static_cast<size_t>(j)].strides[axis];
  };
  if (ordered_first) {
    for (int axis = move.ordered_begin; axis < move.ordered_end; ++axis) append(axis);
    axes.num_ordered = axes.rank;
  }
  for (int axis = 0; axis < move.shape.rank(); ++axis)
    if (!ordered_first || axis < move.ordered_begin || axis >= move.ordered_end) append(axis);
  if (axes.rank == 0) {
    axes.rank = 1;
    axes.shape[0] = 1;
  }
  return axes;
}

void indexed_get(const IndexedMove& move, const Array& out) {
  if (out.size() == 0) return;
  switch (move.indexed.device().kind) {
    case DeviceKind::cpu: cpu::indexed_get(move, out); break;
    case DeviceKind::cuda: cuda::indexed_get(move, out); break;
  }
}

void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element) {
  if (move.shape.product() == 0) return;
  switch (move.indexed.device().kind) {
    case DeviceKind::cpu: cpu::indexed_set(move, values, element); break;
    case DeviceKind::cuda: cuda::indexed_set(move, values, element); break;
  }
}

}  // namespace gpukit
