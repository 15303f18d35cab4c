#include "gpukit/ops/indexing/take.h"

#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/indexed_move.h"
#include "gpukit/ops/indexing/set_values.h"

namespace gpukit {

namespace {

/// `out` cannot be written while the inputs are read: compute beside it and copy.
template <typename F>
Array get_into(const char* op, const Array* out, const IndexedMove& move, DType dtype, F&& shares) {
  Array target = result(op, out, move.shape, dtype, move.indexed.device());
  if (out == nullptr || !shares(*out)) {
    indexed_get(move, target);
    return target;
  }
  Temporaries temporaries(op);
  const Array fresh = temporaries.empty(move.shape, dtype, move.indexed.device());
  indexed_get(move, fresh);
  copy_into(target, fresh);
  return target;
}

/// The move of take_along_axis and put_along_axis. The shape broadcasts x and indices on every axis but `axis`.
IndexedMove along_axis(const char* op, const Array& x, const Array& indices, int64_t axis, Temporaries& into) {
  check_same_device(op, x, indices);
  if (x.ndim() == 0 || x.ndim() != indices.ndim())
    throw ShapeError(op, "indices", "have the number of dimensions of x (" + std::to_string(x.ndim()) + ", at least 1)",
                     indices.shape().str());
  const int at = normalize_axis(op, axis, x.ndim());
  IndexedMove move;
  move.op = op;
  Dims others = x.shape(), index_others = indices.shape();
  others[at] = index_others[at] = 1;
  move.shape = broadcast_shapes(op, others, index_others);
  Dims x_shape = move.shape;
  move.shape[at] = indices.shape(at);
  x_shape[at] = x.shape(at);
  move.indexed = x.broadcast_to(x_shape);
  move.indexed_strides = move.indexed.strides();
  move.indexed_strides[at] = 0;
  move.ordered_begin = at;
  move.ordered_end = at + 1;
  const Array values = index_values(op, indices, into).broadcast_to(move.shape);
  move.add(values, values.strides(), x.shape(at), x.strides()[at]);
  return move;
}

}  // namespace

Array take(const Array& x, const Array& indices, std::optional<int64_t> axis, const Array* out) {
  check_same_device("take", x, indices);
  Temporaries temporaries("take");
  Array source = x;
  if (!axis.has_value()) source = x.ndim() == 1 ? x : contiguous(x, temporaries).reshape_view({x.size()});
  const int at = normalize_axis("take", axis.value_or(0), source.ndim());
  const Array values = index_values("take", indices, temporaries);

  IndexedMove move;
  move.op = "take";
  move.indexed = source;
  Dims strides;
  auto append = [&](int64_t size, int64_t indexed_stride, int64_t index_stride) {
    move.shape.push_back(size);
    move.indexed_strides.push_back(indexed_stride);
    strides.push_back(index_stride);
  };
  for (int i = 0; i < at; ++i) append(source.shape()[i], source.strides()[i], 0);
  for (int i = 0; i < values.ndim(); ++i) append(values.shape()[i], 0, values.strides()[i]);
  for (int i = at + 1; i < source.ndim(); ++i) append(source.shape()[i], source.strides()[i], 0);
  move.add(values, strides, source.shape()[at], source.strides()[at]);
  return get_into("take", out, move, x.dtype(), [&](const Array& target) {
    return may_share_memory(target, source) || may_share_memory(target, values);
  });
}

Array take_along_axis(const Array& x, const Array& indices, int64_t axis, const Array* out) {
  Temporaries temporaries("gather");
  const IndexedMove move = along_axis("gather", x, indices, axis, temporaries);
  return get_into("gather", out, move, x.dtype(), [&](const Array& target) {
    return may_share_memory(target, x) || may_share_memory(target, move.indices[0].values);
  });
}

void put_along_axis(const Array& x, const Array& indices, const Operand& values, int64_t axis) {
  Temporaries temporaries("scatter");
  IndexedMove move = along_axis("scatter", x, indices, axis, temporaries);
  // Every axis but the indexed one is x's own: a broadcast would write one element several times.
  for (int i = 0; i < x.ndim(); ++i)
    if (move.indexed.shape()[i] != x.shape()[i])
      throw ShapeError("scatter", "indices", "broadcast to x outside the axis (x is " + x.shape().str() + ")",
                       indices.shape().str());
  set_values(&move, values);
}

Array scatter(const Array& x, const Array& indices, const Operand& values, int64_t axis, const Array* out) {
  if (out == nullptr) {
    const Array fresh = copy(x);
    put_along_axis(fresh, indices, values, axis);
    return fresh;
  }
  const Array target = result("scatter", out, x.shape(), x.dtype(), x.device());
  // Copying x first must not change what is still to be read.
  Array kept_values, kept_indices = indices;
  Temporaries temporaries("scatter");
  if (may_share_memory(target, indices)) kept_indices = copy(indices, temporaries);
  if (values.is_array() && may_share_memory(target, *values.array)) kept_values = copy(*values.array, temporaries);
  copy_into(target, x);
  put_along_axis(target, kept_indices, kept_values.defined() ? Operand(kept_values) : values, axis);
  return target;
}

void note_bad_indices(const char* op, const Array& x, const Array& indices, int64_t axis) {
  Temporaries temporaries(op);
  const IndexedMove move = along_axis(op, x, indices, axis, temporaries);
  indexed_get(move, temporaries.empty(move.shape, x.dtype(), x.device()));
}

}  // namespace gpukit
