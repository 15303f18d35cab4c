#include "gpukit/ops/reduce/reduce.h"

#include <algorithm>
#include <limits>

#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce_backend.h"

namespace gpukit {

const char* op_name(ReduceOp op) {
  static constexpr const char* kNames[] = {"sum",    "mean", "prod", "max", "min", "argmax",
                                           "argmin", "any",  "all",  "var", "std"};
  return kNames[static_cast<int>(op)];
}

namespace {

/// A bit per reduced axis.
uint32_t reduced_axes(const char* op, const Axes& axes, int rank) {
  if (!axes) return (1u << rank) - 1;
  uint32_t mask = 0;
  for (int64_t axis : *axes) {
    const uint32_t bit = 1u << normalize_axis(op, axis, rank);
    if (mask & bit) throw ArgumentError(op, "axis", "name each axis once", axes->str());
    mask |= bit;
  }
  return mask;
}

/// What sums and products of `dtype` are kept in.
DType sum_dtype(DType dtype) {
  if (is_unsigned_integer(dtype)) return DType::uint64;
  return is_integer(dtype) || dtype == DType::boolean ? DType::int64 : dtype;
}

DType result_dtype(ReduceOp op, DType dtype) {
  const bool exact = is_integer(dtype) || dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::prod: return sum_dtype(dtype);
    case ReduceOp::mean:
    case ReduceOp::var:
    case ReduceOp::std: return exact ? DType::float64 : dtype;
    case ReduceOp::max:
    case ReduceOp::min: return dtype;
    case ReduceOp::argmax:
    case ReduceOp::argmin: return DType::int64;
    case ReduceOp::any:
    case ReduceOp::all: return DType::boolean;
  }
  return dtype;
}

bool takes_complex(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
    case ReduceOp::prod:
    case ReduceOp::any:
    case ReduceOp::all: return true;
    default: return false;
  }
}

/// The result over no elements at all.
void fill_empty(ReduceOp op, const Array& a, const Array& out) {
  switch (op) {
    case ReduceOp::sum: return fill(out, Scalar(int64_t{0}));
    case ReduceOp::prod: return fill(out, Scalar(int64_t{1}));
    case ReduceOp::any: return fill(out, Scalar(false));
    case ReduceOp::all: return fill(out, Scalar(true));
    case ReduceOp::mean:
    case ReduceOp::var:
    case ReduceOp::std: return fill(out, Scalar(std::numeric_limits<double>::quiet_NaN()));
    default:
      throw ArgumentError(op_name(op), "input", "have at least one element along the reduced axes", a.shape().str());
  }
}

void run(ReduceOp op, const Array& out, const Array& a, uint32_t reduced, bool keepdims, double correction) {
  if (out.size() == 0) return;
  if (a.size() == 0) return fill_empty(op, a, out);
  if (must_buffer(out, {&a})) {
    Temporaries temporaries(op_name(op));
    const Array fresh = temporaries.empty_like(out);
    run(op, fresh, a, reduced, keepdims, correction);
    return copy_into(out, fresh);
  }
  Dims strides = Dims::filled(a.ndim(), 0);
  for (int axis = 0, at = 0; axis < a.ndim(); ++axis) {
    if (!(reduced >> axis & 1u))
      strides[axis] = out.strides()[at++];
    else if (keepdims)
      ++at;
  }
  const bool keep_order = op == ReduceOp::argmax || op == ReduceOp::argmin;
  const ReduceLayout layout = reduce_layout(a.shape(), a.strides(), reduced, strides, keep_order);
  switch (a.device().kind) {
    case DeviceKind::cpu: return cpu::reduce(op, out, a, layout, correction);
    case DeviceKind::cuda: return cuda::reduce(op, out, a, layout, correction);
  }
}

Dims reduced_shape(const Dims& from, uint32_t reduced, bool keepdims) {
  Dims shape;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (!(reduced >> axis & 1u))
      shape.push_back(from[axis]);
    else if (keepdims)
      shape.push_back(1);
  }
  return shape;
}

Array reduce(ReduceOp op, const Array& a, const Axes& axes, bool keepdims, double correction, const Array* out) {
  const char* name = op_name(op);
  check_arithmetic(name, "input", a);
  if (is_complex(a.dtype()) && !takes_complex(op)) unsupported_dtype(name, "input", a.dtype(), "have a real dtype");
  const uint32_t reduced = reduced_axes(name, axes, a.ndim());
  const Dims shape = reduced_shape(a.shape(), reduced, keepdims);
  const Array target = result(name, out, shape, result_dtype(op, a.dtype()), a.device());
  const DType needed = a.device().kind == DeviceKind::cuda ? cuda::reduce_dtype(op, a.dtype()) : a.dtype();
  Temporaries temporaries(name);
  run(op, target, astype(a, needed, temporaries), reduced, keepdims, correction);
  return target;
}

/// Converts around a sum that was asked for in another dtype.
Array reduce_as(ReduceOp op, const Array& a, const Axes& axes, bool keepdims, std::optional<DType> dtype,
                const Array* out) {
  if (!dtype || (*dtype == a.dtype() && sum_dtype(*dtype) == *dtype)) return reduce(op, a, axes, keepdims, 0, out);
  const char* name = op_name(op);
  check_arithmetic(name, "input", a);
  const Dims shape = reduced_shape(a.shape(), reduced_axes(name, axes, a.ndim()), keepdims);
  const Array target = result(name, out, shape, *dtype, a.device());
  Temporaries temporaries(name);
  const Array converted = astype(a, *dtype, temporaries);
  if (sum_dtype(*dtype) == *dtype) return reduce(op, converted, axes, keepdims, 0, &target);
  const Array wide = temporaries.empty(shape, sum_dtype(*dtype), a.device());
  return cast(name, reduce(op, converted, axes, keepdims, 0, &wide), *dtype, &target);
}

Axes one_axis(std::optional<int64_t> axis) { return axis ? Axes(Dims{*axis}) : Axes(); }

}  // namespace

Array sum(const Array& a, const Axes& axes, bool keepdims, std::optional<DType> dtype, const Array* out) {
  return reduce_as(ReduceOp::sum, a, axes, keepdims, dtype, out);
}
Array prod(const Array& a, const Axes& axes, bool keepdims, std::optional<DType> dtype, const Array* out) {
  return reduce_as(ReduceOp::prod, a, axes, keepdims, dtype, out);
}
Array mean(const Array& a, const Axes& axes, bool keepdims, const Array* out) {
  return reduce(ReduceOp::mean, a, axes, keepdims, 0, out);
}
Array mean(const Array& a, const Axes& axes, bool keepdims, std::optional<DType> dtype, const Array* out) {
  if (!dtype || *dtype == a.dtype()) return mean(a, axes, keepdims, out);
  if (!is_floating(*dtype) && !is_complex(*dtype))
    unsupported_dtype("mean", "dtype", *dtype, "be a float or complex dtype");
  Temporaries temporaries("mean");
  return mean(astype(a, *dtype, temporaries), axes, keepdims, out);
}
Array var(const Array& a, const Axes& axes, double correction, bool keepdims, const Array* out) {
  return reduce(ReduceOp::var, a, axes, keepdims, correction, out);
}
Array std(const Array& a, const Axes& axes, double correction, bool keepdims, const Array* out) {
  return reduce(ReduceOp::std, a, axes, keepdims, correction, out);
}
Array max(const Array& a, const Axes& axes, bool keepdims, const Array* out) {
  return reduce(ReduceOp::max, a, axes, keepdims, 0, out);
}
Array min(const Array& a, const Axes& axes, bool keepdims, const Array* out) {
  return reduce(ReduceOp::min, a, axes, keepdims, 0, out);
}
Array argmax(const Array& a, std::optional<int64_t> axis, bool keepdims, const Array* out) {
  return reduce(ReduceOp::argmax, a, one_axis(axis), keepdims, 0, out);
}
Array argmin(const Array& a, std::optional<int64_t> axis, bool keepdims, const Array* out) {
  return reduce(ReduceOp::argmin, a, one_axis(axis), keepdims, 0, out);
}
Array any(const Array& a, const Axes& axes, bool keepdims, const Array* out) {
  return reduce(ReduceOp::any, a, axes, keepdims, 0, out);
}
Array all(const Array& a, const Axes& axes, bool keepdims, const Array* out) {
  return reduce(ReduceOp::all, a, axes, keepdims, 0, out);
}

Array sum_axis(const Array& a, int64_t axis, const Array* out) {
  check_ndim("sum_axis", "input", a, 2);
  check_arithmetic("sum_axis", "input", a);
  if (axis != 0 && axis != 1) throw ArgumentError("sum_axis", "axis", "be 0 or 1", std::to_string(axis));
  return reduce(ReduceOp::sum, a, Axes(Dims{axis}), false, 0, out);
}

namespace {

/// Running sums or products.
Array scan(ReduceOp op, const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype, const Array* out) {
  const char* name = op == ReduceOp::sum ? "cumsum" : "cumprod";
  check_arithmetic(name, "input", a);
  Temporaries temporaries(name);
  if (dtype && !(*dtype == a.dtype() && sum_dtype(*dtype) == *dtype)) {
    const Array target = result(name, out, axis ? a.shape() : Dims{a.size()}, *dtype, a.device());
    const Array converted = astype(a, *dtype, temporaries);
    if (sum_dtype(*dtype) == *dtype) return scan(op, converted, axis, {}, &target);
    const Array wide = temporaries.empty(target.shape(), sum_dtype(*dtype), a.device());
    return cast(name, scan(op, converted, axis, {}, &wide), *dtype, &target);
  }
  if (!axis && a.ndim() != 1) {
    const Dims flat{a.size()};
    return scan(op, a.can_view(flat) ? a.reshape_view(flat) : contiguous(a, temporaries).reshape_view(flat), 0, {},
                out);
  }
  const int scanned = normalize_axis(name, axis.value_or(0), a.ndim());
  const Array target = result(name, out, a.shape(), sum_dtype(a.dtype()), a.device());
  if (target.size() == 0) return target;
  // The very same view is fine: an element is read by the thread that writes it, before it does.
  if (must_buffer(target, {&a})) {
    const Array fresh = temporaries.empty_like(target);
    copy_into(target, scan(op, a, axis, {}, &fresh));
    return target;
  }
  ScanLayout layout;
  layout.length = a.shape()[scanned];
  layout.in = a.strides()[scanned];
  layout.out = target.strides()[scanned];
  for (int i = 0; i < a.ndim(); ++i) {
    if (i == scanned || a.shape()[i] == 1) continue;
    layout.rows *= a.shape()[i];
    layout.other[layout.rank++] = {a.shape()[i], a.strides()[i], target.strides()[i]};
  }
  if (layout.rank == 0) layout.other[layout.rank++] = ReduceAxis{};
  switch (a.device().kind) {
    case DeviceKind::cpu: cpu::scan(op, target, a, layout); break;
    case DeviceKind::cuda: cuda::scan(op, target, a, layout); break;
  }
  return target;
}

}  // namespace

Array cumsum(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype, const Array* out) {
  return scan(ReduceOp::sum, a, axis, dtype, out);
}
Array cumprod(const Array& a, std::optional<int64_t> axis, std::optional<DType> dtype, const Array* out) {
  return scan(ReduceOp::prod, a, axis, dtype, out);
}

}  // namespace gpukit
