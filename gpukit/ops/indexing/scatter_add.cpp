#include "gpukit/ops/indexing/scatter_add.h"

#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/sort/sort.h"

namespace gpukit {
namespace {

/// `axis` last, the others as rows, row-major.
Array as_rows(const Array& x, const Dims& shape, int axis) {
  const Array moved = moveaxis(x.broadcast_to(shape), {axis}, {-1});
  const int64_t width = shape[axis];
  int64_t rows = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) rows *= shape[i];
  return copy(moved).reshape_view({rows, width});
}

void add_rows(const ScatterRows& rows) {
  if (rows.sorted.size() == 0) return;
  switch (rows.out.device().kind) {
    case DeviceKind::cpu: cpu::scatter_add(rows); break;
    case DeviceKind::cuda: cuda::scatter_add(rows); break;
  }
}

Array as_array(const Array& x, const Operand& values) {
  if (values.is_array()) {
    check_same_device("scatter_add", x, *values.array);
    return astype(*values.array, x.dtype());
  }
  const Array one = Array::empty({}, x.dtype(), x.device());
  fill(one, values.scalar);
  return one;
}

}  // namespace

Array scatter_add(const Array& x, const Array& indices, const Operand& values, int64_t axis) {
  constexpr const char* kOp = "scatter_add";
  check_arithmetic(kOp, "x", x);
  if (x.dtype() == DType::boolean) throw DTypeError(kOp, "x", "have a number's dtype", name(x.dtype()));
  // Reports bad indices, and checks the rest.
  note_bad_indices(kOp, x, indices, axis);
  const int at = axis < 0 ? static_cast<int>(axis) + x.ndim() : static_cast<int>(axis);
  Dims x_others = x.shape(), index_others = indices.shape();
  x_others[at] = index_others[at] = 1;
  Dims shape = broadcast_shapes(kOp, x_others, index_others), index_shape = shape;
  if (shape != x_others)
    throw ShapeError(kOp, "indices", "broadcast to the other axes of x, of shape " + x.shape().str(),
                     indices.shape().str());
  shape[at] = x.shape(at);
  index_shape[at] = indices.shape(at);

  const Array given = as_array(x, values);
  if (broadcast_shapes(kOp, given.shape(), index_shape) != index_shape)
    throw ShapeError(kOp, "values", "broadcast to shape " + index_shape.str(), given.shape().str());
  const int64_t width = shape[at];
  const Array raw = as_rows(astype(indices, DType::int64), index_shape, at);
  const Array places = where(less(raw, 0), add(raw, width), raw);
  const Array good = where(logical_and(greater_equal(places, 0), less(places, width)), places, int64_t{-1});
  const Array order = argsort(good, -1), sorted = take_along_axis(good, order, -1);
  const Array out = as_rows(x, shape, at), added = as_rows(given, index_shape, at);
  if (is_complex(x.dtype())) {
    for (Array (*part)(const Array&) : {&real, &imag}) {
      const Array sums = copy(part(out));
      add_rows({sums, sorted, order, copy(part(added))});
      copy_into(part(out), sums);
    }
  } else {
    add_rows({out, sorted, order, added});
  }
  Dims last = shape;
  for (int i = at; i + 1 < last.rank(); ++i) last[i] = shape[i + 1];
  last[last.rank() - 1] = width;
  return copy(moveaxis(out.reshape_view(last), {-1}, {at}));
}

}  // namespace gpukit
