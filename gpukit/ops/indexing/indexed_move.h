// An indexed read or write before a backend is chosen: which element of the indexed array belongs to which position.
#pragma once

#include <array>

#include "gpukit/array/array.h"
#include "gpukit/base/scalar.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/indexing/indexed_space.cuh"

namespace gpukit {

/// One index array (int32, int64 or uint64, any strides) and the axis of the indexed array it stands for.
struct IndexArgument {
  Array values;
  Dims strides;  // over the axes of the move; 0 where the index does not depend on them
  int64_t axis_size = 0, axis_stride = 0;
};

/// Position (c0, c1, ...) of `shape` meets the element of `indexed` at sum(c * indexed_strides) + sum(index *
/// axis_stride).
struct IndexedMove {
  const char* op = "";  // a literal: bad indices are reported under it
  Array indexed;
  Dims shape;
  Dims indexed_strides;  // 0 on axes the indices stand for
  /// Axes [ordered_begin, ordered_end): positions that differ there alone may meet one element, and the last one is to
  /// stay.
  int ordered_begin = 0, ordered_end = 0;
  int num_indices = 0;
  std::array<IndexArgument, kMaxRank> indices;

  void add(const Array& values, const Dims& strides, int64_t axis_size, int64_t axis_stride) {
    indices[static_cast<size_t>(num_indices++)] = {values, strides, axis_size, axis_stride};
  }
};

/// An index array in a form a move takes: int32, int64 and uint64 as they are, smaller integers as int64.
/// Throws DTypeError naming `op` for anything else.
Array index_values(const char* op, const Array& indices, Temporaries& into);
IndexKind index_kind(DType dtype);

/// Axes of a move with size-1 axes dropped and neighbours merged. At least one axis.
struct MoveAxes {
  int rank = 0;
  int num_ordered = 0;  // leading axes, when `ordered_first` was asked for
  int64_t size = 1;
  int64_t shape[kMaxRank] = {};
  bool ordered[kMaxRank] = {};
  int64_t plain_strides[kMaxRank] = {};
  int64_t indexed_strides[kMaxRank] = {};
  int64_t index_strides[kMaxRank][kMaxRank] = {};  // [index][axis]
};
MoveAxes move_axes(const IndexedMove& move, const Dims& plain_strides, bool ordered_first);

/// out = indexed at the indices; 0 where an index is bad. `out` has the move's shape and shares no memory with its
/// arrays.
void indexed_get(const IndexedMove& move, const Array& out);
/// indexed at the indices = values (of the move's shape, the indexed dtype, sharing no memory), or `element` when
/// values is null.
void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element);

namespace cpu {
void indexed_get(const IndexedMove& move, const Array& out);
void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element);
}  // namespace cpu
namespace cuda {
void indexed_get(const IndexedMove& move, const Array& out);
void indexed_set(const IndexedMove& move, const Array* values, const ElementBytes& element);

/// How a write keeps the last of equal positions.
enum class SetMethod { direct, lines, claims };
SetMethod plan_set(const IndexedMove& move, const MoveAxes& ordered_axes);
/// Elements along the innermost axis that one access moves: 16 bytes at most, 1 element when it is not contiguous.
int plan_width(const IndexedMove& move, const MoveAxes& axes, const Array* plain);
}  // namespace cuda

}  // namespace gpukit
