#include "gpukit/ops/linalg/products.h"

#include <algorithm>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit {

namespace {

Array conjugate(const Array& x, Temporaries& temporaries) {
  if (!is_complex(x.dtype())) return x;
  const Array made = copy(x, temporaries);
  const Array part = imag(made);
  negative(part, &part);
  return made;
}

DType common_dtype(const char* op, const Array& a, const Array& b) {
  check_same_device(op, a, b);
  check_arithmetic(op, "x1", a);
  check_arithmetic(op, "x2", b);
  return promote(op, a.dtype(), b.dtype());
}

/// Runs f(target) with a target that shares no memory with the inputs.
template <typename F>
Array into(const char* op, const Array* out, const Dims& shape, DType dtype, std::initializer_list<const Array*> inputs,
           Temporaries& temporaries, F&& f) {
  const Array target = result(op, out, shape, dtype, (*inputs.begin())->device());
  const bool shares = out != nullptr && std::any_of(inputs.begin(), inputs.end(),
                                                    [&](const Array* x) { return may_share_memory(target, *x); });
  const Array fresh = shares ? temporaries.empty_like(target) : target;
  f(fresh);
  if (shares) copy_into(target, fresh);
  return target;
}

/// matmul into `target`, whose shape has other axes but the same elements in the same order.
void product_into(const Array& target, const Array& left, const Array& right, DType dtype, Temporaries& temporaries) {
  Dims shape;
  for (int i = 0; i + 1 < left.ndim(); ++i) shape.push_back(left.shape()[i]);
  shape.push_back(right.shape()[right.ndim() - 1]);
  const bool direct = target.can_view(shape);
  const Array matrices = direct ? target.reshape_view(shape) : temporaries.empty(shape, dtype, target.device());
  matmul(left, right, &matrices, {.out_dtype = dtype});
  if (!direct) copy_into(target, matrices.reshape_view(target.shape()));
}

Array contract(const char* op, const Array& a, const Array& b, const Dims& axes_a, const Dims& axes_b,
               const Array* out) {
  const DType dtype = common_dtype(op, a, b);
  if (axes_a.rank() != axes_b.rank())
    throw ShapeError(op, "axes", "name as many axes of x1 as of x2", axes_a.str() + " and " + axes_b.str());
  bool summed_a[kMaxRank] = {}, summed_b[kMaxRank] = {};
  Dims last, first;  // the summed axes
  int64_t k = 1, m = 1, n = 1;
  for (int i = 0; i < axes_a.rank(); ++i) {
    const int x = normalize_axis(op, axes_a[i], a.ndim()), y = normalize_axis(op, axes_b[i], b.ndim());
    if (summed_a[x] || summed_b[y]) throw ArgumentError(op, "axes", "name each axis once", axes_a.str());
    if (a.shape()[x] != b.shape()[y])
      throw ShapeError(std::string(op) + ": summed axes must have equal sizes, got " + std::to_string(a.shape()[x]) +
                       " and " + std::to_string(b.shape()[y]));
    summed_a[x] = summed_b[y] = true;
    last.push_back(x);
    first.push_back(y);
    k *= a.shape()[x];
  }
  Dims order_a, order_b = first, shape;
  for (int i = 0; i < a.ndim(); ++i)
    if (!summed_a[i]) {
      order_a.push_back(i);
      shape.push_back(a.shape()[i]);
      m *= a.shape()[i];
    }
  for (int64_t axis : last) order_a.push_back(axis);
  for (int i = 0; i < b.ndim(); ++i)
    if (!summed_b[i]) {
      order_b.push_back(i);
      shape.push_back(b.shape()[i]);
      n *= b.shape()[i];
    }
  Temporaries temporaries(op);
  return into(op, out, shape, dtype, {&a, &b}, temporaries, [&](const Array& target) {
    if (target.size() == 0) return;
    const Array left = reshape(a.permute(order_a), {m, k}, temporaries);
    const Array right = reshape(b.permute(order_b), {k, n}, temporaries);
    product_into(target, left, right, dtype, temporaries);
  });
}

Array outer_product(const char* op, const Array& a, const Array& b, const Array* out) {
  common_dtype(op, a, b);
  if (a.ndim() + b.ndim() > kMaxRank)
    throw ShapeError(op, "x1 and x2", "have at most 8 dimensions together", std::to_string(a.ndim() + b.ndim()));
  Array left = a;
  for (int i = 0; i < b.ndim(); ++i) left = left.expand_dims(left.ndim());
  return multiply(left, b, out);
}

}  // namespace

Array tensordot(const Array& a, const Array& b, const Dims& axes_a, const Dims& axes_b, const Array* out) {
  return contract("tensordot", a, b, axes_a, axes_b, out);
}

Array tensordot(const Array& a, const Array& b, int64_t count, const Array* out) {
  if (count < 0 || count > std::min(a.ndim(), b.ndim()))
    throw ArgumentError("tensordot", "axes", "be 0 to the number of dimensions of x1 and x2", std::to_string(count));
  Dims last, first;
  for (int64_t i = 0; i < count; ++i) {
    last.push_back(a.ndim() - count + i);
    first.push_back(i);
  }
  return contract("tensordot", a, b, last, first, out);
}

Array vecdot(const Array& a, const Array& b, int64_t axis, const Array* out) {
  constexpr const char* kOp = "vecdot";
  const DType dtype = common_dtype(kOp, a, b);
  if (axis >= 0 && a.ndim() != b.ndim())
    throw ArgumentError(kOp, "axis", "be negative where x1 and x2 have different numbers of dimensions",
                        std::to_string(axis));
  const int at_a = normalize_axis(kOp, axis, a.ndim()), at_b = normalize_axis(kOp, axis, b.ndim());
  if (a.shape()[at_a] != b.shape()[at_b])
    throw ShapeError(std::string(kOp) + ": vectors must have equal lengths, got " + std::to_string(a.shape()[at_a]) +
                     " and " + std::to_string(b.shape()[at_b]));
  Dims rest_a = a.shape(), rest_b = b.shape();
  rest_a.erase(at_a);
  rest_b.erase(at_b);
  const Dims shape = broadcast_shapes(kOp, rest_a, rest_b);
  if (shape.rank() + 2 > kMaxRank)
    throw ShapeError(kOp, "x1 and x2", "have at most 7 dimensions", std::to_string(shape.rank() + 1));
  Temporaries temporaries(kOp);
  return into(kOp, out, shape, dtype, {&a, &b}, temporaries, [&](const Array& target) {
    if (target.size() == 0) return;
    const Array rows = moveaxis(conjugate(a, temporaries), {at_a}, {-1}).expand_dims(a.ndim() - 1);
    const Array columns = moveaxis(b, {at_b}, {-1}).expand_dims(b.ndim());
    const Array products = target.expand_dims(target.ndim()).expand_dims(target.ndim());
    matmul(rows, columns, &products, {.out_dtype = dtype});
  });
}

Array outer(const Array& a, const Array& b, const Array* out) { return outer_product("outer", a, b, out); }

Array inner(const Array& a, const Array& b, const Array* out) {
  if (a.ndim() == 0 || b.ndim() == 0) return outer_product("inner", a, b, out);
  return contract("inner", a, b, {-1}, {-1}, out);
}

Array dot(const Array& a, const Array& b, const Array* out) {
  if (a.ndim() == 0 || b.ndim() == 0) return outer_product("dot", a, b, out);
  return contract("dot", a, b, {-1}, {b.ndim() == 1 ? -1 : -2}, out);
}

Array cross(const Array& a, const Array& b, int64_t axis, const Array* out) {
  constexpr const char* kOp = "cross";
  const DType dtype = common_dtype(kOp, a, b);
  if (dtype == DType::boolean) unsupported_dtype(kOp, "x1", dtype, "have a number dtype");
  const int at_a = normalize_axis(kOp, axis, a.ndim()), at_b = normalize_axis(kOp, axis, b.ndim());
  if (a.shape()[at_a] != 3 || b.shape()[at_b] != 3)
    throw ShapeError(std::string(kOp) + ": vectors must have 3 elements, got " + std::to_string(a.shape()[at_a]) +
                     " and " + std::to_string(b.shape()[at_b]));
  const Array left = moveaxis(a, {at_a}, {-1}), right = moveaxis(b, {at_b}, {-1});
  Dims shape = broadcast_shapes(kOp, left.shape(), right.shape());
  const int at = axis >= 0 && a.ndim() == b.ndim() ? at_a : normalize_axis(kOp, axis, shape.rank());
  shape.erase(shape.rank() - 1);
  const Dims rest = shape;
  shape.insert(at, 3);
  Temporaries temporaries(kOp);
  return into(kOp, out, shape, dtype, {&a, &b}, temporaries, [&](const Array& target) {
    const Array product = temporaries.empty(rest, dtype, target.device());
    for (int i = 0; i < 3; ++i) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      const Array part = target.select(at, i);
      multiply(left.select(left.ndim() - 1, j), right.select(right.ndim() - 1, k), &part);
      multiply(left.select(left.ndim() - 1, k), right.select(right.ndim() - 1, j), &product);
      subtract(part, product, &part);
    }
  });
}

Array matrix_transpose(const Array& x) {
  if (x.ndim() < 2) throw ShapeError("matrix_transpose", "x", "have at least 2 dimensions", x.shape().str());
  return swapaxes(x, -1, -2);
}

Array diagonal(const Array& x, int64_t offset, int64_t axis1, int64_t axis2) {
  constexpr const char* kOp = "diagonal";
  if (x.ndim() < 2) throw ShapeError(kOp, "x", "have at least 2 dimensions", x.shape().str());
  if (is_packed(x.dtype())) unsupported_dtype(kOp, "x", x.dtype(), "have a dtype of whole elements");
  const int rows = normalize_axis(kOp, axis1, x.ndim()), columns = normalize_axis(kOp, axis2, x.ndim());
  if (rows == columns) throw ArgumentError(kOp, "axis1 and axis2", "differ", std::to_string(axis1));
  const int64_t height = x.shape()[rows], width = x.shape()[columns];
  // Outside of the matrix there is an empty diagonal.
  const int64_t start = std::clamp(offset, -height, width);
  const int64_t count = start >= 0 ? std::min(height, width - start) : std::min(height + start, width);
  Dims shape, strides;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != rows && i != columns) {
      shape.push_back(x.shape()[i]);
      strides.push_back(x.strides()[i]);
    }
  shape.push_back(count);
  strides.push_back(x.strides()[rows] + x.strides()[columns]);
  int64_t first = 0;
  if (count > 0) first = start >= 0 ? start * x.strides()[columns] : -start * x.strides()[rows];
  return Array(x.storage(), x.dtype(), shape, strides, x.offset_bytes() + first * itemsize(x.dtype()));
}

Array trace(const Array& x, int64_t offset, int64_t axis1, int64_t axis2, std::optional<DType> dtype,
            const Array* out) {
  if (x.ndim() < 2) throw ShapeError("trace", "x", "have at least 2 dimensions", x.shape().str());
  return sum(diagonal(x, offset, axis1, axis2), Dims{-1}, false, dtype, out);
}

}  // namespace gpukit
