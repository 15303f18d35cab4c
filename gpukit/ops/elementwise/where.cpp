#include "gpukit/ops/elementwise/where.h"

#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/move_impl.h"

namespace gpukit {

namespace {

DType result_dtype(const Operand& a, const Operand& b) {
  if (a.is_array() && b.is_array())
    return a.array->dtype() == b.array->dtype() ? a.array->dtype()
                                                : promote("where", a.array->dtype(), b.array->dtype());
  if (a.is_array()) return promote_scalar("where", a.array->dtype(), b.scalar.kind);
  if (b.is_array()) return promote_scalar("where", b.array->dtype(), a.scalar.kind);
  // Two numbers: the array standard's default dtypes.
  switch (std::max(a.scalar.kind, b.scalar.kind)) {
    case ScalarKind::boolean: return DType::boolean;
    case ScalarKind::integer: return DType::int64;
    case ScalarKind::real: return DType::float32;
    default: return DType::complex64;
  }
}

/// `hold` keeps a cast array.
ElementInput prepare(const Operand& x, DType dtype, Array& hold, Temporaries& into) {
  if (!x.is_array()) return {nullptr, to_element("where", x.scalar, dtype)};
  if (x.array->dtype() == dtype) return {x.array, {}};
  hold = astype(*x.array, dtype, into);
  return {&hold, {}};
}

void submit(const Array& out, const Array& cond, const ElementInput& a, const ElementInput& b) {
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::select(out, cond, a, b); break;
    case DeviceKind::cuda: cuda::select(out, cond, a, b); break;
  }
}

}  // namespace

Array where(const Array& cond, const Operand& a, const Operand& b, const Array* out) {
  check_arithmetic("where", "cond", cond);
  Dims shape = cond.shape();
  for (const Operand* x : {&a, &b}) {
    if (!x->is_array()) continue;
    check_same_device("where", cond, *x->array);
    if (!(x->array->shape() == shape)) shape = broadcast_shapes("where", shape, x->array->shape());
  }
  const DType dtype = result_dtype(a, b);
  Array target = result("where", out, shape, dtype, cond.device());
  Temporaries temporaries("where");
  Array hold_a, hold_b;
  const ElementInput x = prepare(a, dtype, hold_a, temporaries);
  const ElementInput y = prepare(b, dtype, hold_b, temporaries);
  // A byte is a truth value as it is: not 0.
  const Array mask = itemsize(cond.dtype()) == 1 ? cond : astype(cond, DType::boolean, temporaries);
  if (out != nullptr && must_buffer(target, {x.array, y.array, &mask})) {
    const Array buffer = temporaries.empty(shape, dtype, cond.device());
    submit(buffer, mask, x, y);
    copy_into(target, buffer);
  } else {
    submit(target, mask, x, y);
  }
  return target;
}

}  // namespace gpukit
