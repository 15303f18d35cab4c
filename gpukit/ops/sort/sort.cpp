#include "gpukit/ops/sort/sort.h"

#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/ops/manipulate/manipulate.h"
#include "gpukit/ops/sort/sort_impl.h"

namespace gpukit {

namespace {

KeyRule key_rule(const char* op, const char* argument, DType dtype, bool descending) {
  const int32_t down = descending ? 1 : 0;
  if (dtype == DType::boolean || is_unsigned_integer(dtype)) return {KeyKind::plain, down, 0};
  if (is_signed_integer(dtype)) return {KeyKind::with_sign, down, 0};
  switch (dtype) {
    case DType::float16: return {KeyKind::real, down, 0x7c00};
    case DType::bfloat16: return {KeyKind::real, down, 0x7f80};
    case DType::float32: return {KeyKind::real, down, 0x7f800000};
    case DType::float64: return {KeyKind::real, down, 0x7ff0000000000000};
    default: unsupported_dtype(op, argument, dtype, "have a real or bool dtype");
  }
}

Array as_bits(const Array& x) {
  switch (itemsize(x.dtype())) {
    case 1: return x.bitcast(DType::uint8);
    case 2: return x.bitcast(DType::uint16);
    case 4: return x.bitcast(DType::uint32);
    default: return x.bitcast(DType::uint64);
  }
}

/// Bool memory may hold any byte that is not 0 for true.
Array clean(const Array& x, Temporaries& into) {
  if (x.dtype() != DType::boolean) return contiguous(x, into);
  const Array flags = into.empty(x.shape(), DType::uint8, x.device());
  return cast(into.op(), x, DType::uint8, &flags);
}

/// What is sorted and along which axis: x itself, or x flattened.
struct Rows {
  Array x;
  int axis = 0;
};

Rows rows_of(const char* op, const Array& x, std::optional<int64_t> axis, Temporaries& into) {
  if (!axis) return {reshape(x, {x.size()}, into), 0};
  if (x.ndim() == 0) throw ShapeError(op, "x", "have at least one dimension", "a 0-d array");
  return {x, normalize_axis(op, *axis, x.ndim())};
}

/// `order` has the axes of x with the sorted one last.
void argsort_into(const Array& order, const Array& last, bool descending, Temporaries& into) {
  if (last.size() == 0) return;
  const KeyRule rule = key_rule(into.op(), "x", last.dtype(), descending);
  const int64_t length = last.shape(-1);
  const Array bits = as_bits(clean(last, into)).reshape_view({last.size() / length, length});
  const Array rows = order.reshape_view(bits.shape());
  switch (last.device().kind) {
    case DeviceKind::cpu: cpu::argsort(rows, bits, rule); break;
    case DeviceKind::cuda: cuda::argsort(rows, bits, rule); break;
  }
}

/// A temporary order of `rows`, with the axes of rows.x.
Array order_of(const Rows& rows, bool descending, Temporaries& into) {
  key_rule(into.op(), "x", rows.x.dtype(), descending);
  const Array last = moveaxis(rows.x, {rows.axis}, {-1});
  const Array order = into.empty(last.shape(), DType::int64, last.device());
  argsort_into(order, last, descending, into);
  return moveaxis(order, {-1}, {rows.axis});
}

/// On the CPU elements are sorted themselves, without their places.
Array sort_values(const Rows& rows, bool descending, const Array* out, Temporaries& into) {
  const KeyRule rule = key_rule(into.op(), "x", rows.x.dtype(), descending);
  const Array target = result(into.op(), out, rows.x.shape(), rows.x.dtype(), rows.x.device());
  if (target.size() == 0) return target;
  const Array last = moveaxis(rows.x, {rows.axis}, {-1}), to = moveaxis(target, {rows.axis}, {-1});
  const Array bits = as_bits(clean(last, into));
  const bool apart = !to.is_contiguous() || may_share_memory(target, bits);
  const Array made = apart ? into.empty(bits.shape(), bits.dtype(), bits.device()) : as_bits(to);
  const Dims matrix{bits.size() / bits.shape(-1), bits.shape(-1)};
  cpu::sort(made.reshape_view(matrix), bits.reshape_view(matrix), rule);
  if (apart) copy_into(to, made.bitcast(to.dtype()));
  return target;
}

}  // namespace

Array sort(const Array& x, std::optional<int64_t> axis, bool descending, const Array* out) {
  Temporaries temporaries("sort");
  const Rows rows = rows_of("sort", x, axis, temporaries);
  if (x.device().kind == DeviceKind::cpu) return sort_values(rows, descending, out, temporaries);
  const Array order = order_of(rows, descending, temporaries);
  const Array target = result("sort", out, rows.x.shape(), x.dtype(), x.device());
  return take_along_axis(rows.x, order, rows.axis, &target);
}

Array argsort(const Array& x, std::optional<int64_t> axis, bool descending, const Array* out) {
  Temporaries temporaries("argsort");
  const Rows rows = rows_of("argsort", x, axis, temporaries);
  const Array target = result("argsort", out, rows.x.shape(), DType::int64, x.device());
  const Array last = moveaxis(target, {rows.axis}, {-1});
  key_rule("argsort", "x", x.dtype(), descending);
  if (last.is_contiguous() && !may_share_memory(target, x)) {
    argsort_into(last, moveaxis(rows.x, {rows.axis}, {-1}), descending, temporaries);
  } else {
    copy_into(target, order_of(rows, descending, temporaries));
  }
  return target;
}

std::pair<Array, Array> topk(const Array& x, int64_t k, int64_t axis, bool largest) {
  Temporaries temporaries("topk");
  const Rows rows = rows_of("topk", x, axis, temporaries);
  const int64_t length = x.shape(rows.axis);
  if (k < 0 || k > length)
    throw ArgumentError("topk", "k", "be between 0 and " + std::to_string(length), std::to_string(k));
  const Array indices = copy(order_of(rows, largest, temporaries).narrow(rows.axis, 0, k));
  return {take_along_axis(x, indices, rows.axis), indices};
}

Array searchsorted(const Array& sorted, const Scalar& value, bool right, const Array* sorter, const Array* out) {
  Temporaries temporaries("searchsorted");
  const DType dtype = promote_scalar("searchsorted", sorted.dtype(), value.kind);
  const Array values = temporaries.empty({}, dtype, sorted.device());
  fill(values, value);
  return searchsorted(sorted, values, right, sorter, out);
}

Array searchsorted(const Array& sorted, const Array& values, bool right, const Array* sorter, const Array* out) {
  constexpr const char* kOp = "searchsorted";
  check_ndim(kOp, "x1", sorted, 1);
  check_same_device(kOp, sorted, values);
  const DType dtype = promote(kOp, sorted.dtype(), values.dtype());
  const KeyRule rule = key_rule(kOp, "x1", dtype, false);
  Temporaries temporaries(kOp);
  Array order;
  if (sorter != nullptr) {
    check_same_device(kOp, sorted, *sorter);
    check_shape(kOp, "sorter", *sorter, sorted.shape());
    if (!is_integer(sorter->dtype())) unsupported_dtype(kOp, "sorter", sorter->dtype(), "have an integer dtype");
    order = contiguous(astype(*sorter, DType::int64, temporaries), temporaries);
  }
  const Array target = result(kOp, out, values.shape(), DType::int64, values.device());
  if (target.size() == 0) return target;
  const Array keys = as_bits(clean(astype(sorted, dtype, temporaries), temporaries));
  const Array wanted = as_bits(clean(astype(values, dtype, temporaries), temporaries));
  const bool buffered = !target.is_contiguous() || may_share_memory(target, keys) || may_share_memory(target, wanted) ||
                        (order.defined() && may_share_memory(target, order));
  const Array into = buffered ? temporaries.empty_like(target) : target;
  switch (into.device().kind) {
    case DeviceKind::cpu: cpu::searchsorted(into, keys, wanted, order, right, rule); break;
    case DeviceKind::cuda: cuda::searchsorted(into, keys, wanted, order, right, rule); break;
  }
  if (buffered) copy_into(target, into);
  return target;
}

}  // namespace gpukit
