#include "gpukit/ops/elementwise/unary.h"

#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit {

namespace {

bool is_complex_math(UnaryOp op, DType dtype) {
  if (!is_complex(dtype)) return false;
  return (op >= UnaryOp::exp && op < UnaryOp::isnan) || op == UnaryOp::sign || op == UnaryOp::round ||
         op == UnaryOp::conj;
}

void submit(UnaryOp op, const Array& out, const Array& a) {
  if (is_complex_math(op, a.dtype())) {
    switch (out.device().kind) {
      case DeviceKind::cpu: return cpu::complex_unary(op, out, a);
      case DeviceKind::cuda: return cuda::complex_unary(op, out, a);
    }
  }
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::unary(op, out, a); break;
    case DeviceKind::cuda: cuda::unary(op, out, a); break;
  }
}

Array evaluate(const char* name, UnaryOp op, const Array& a, DType dtype, const Array* out) {
  Array target = result(name, out, a.shape(), dtype, a.device());
  if (out != nullptr && must_buffer(target, {&a})) {
    Temporaries temporaries(name);
    const Array buffer = temporaries.empty(a.shape(), dtype, a.device());
    submit(op, buffer, a);
    copy_into(target, buffer);
  } else {
    submit(op, target, a);
  }
  return target;
}

Array number_function(const char* name, UnaryOp op, const Array& a, const Array* out) {
  if (!is_integer(a.dtype()) && !is_floating(a.dtype()))
    unsupported_dtype(name, "a", a.dtype(), "have an integer or float dtype");
  return evaluate(name, op, a, a.dtype(), out);
}

/// Numbers and complex numbers.
Array field_function(const char* name, UnaryOp op, const Array& a, DType dtype, const Array* out) {
  if (!is_integer(a.dtype()) && !is_floating(a.dtype()) && !is_complex(a.dtype()))
    unsupported_dtype(name, "a", a.dtype(), "have a number dtype");
  return evaluate(name, op, a, dtype, out);
}

/// Integers and bool count as float64, as in a true division.
Array float_function(const char* name, UnaryOp op, const Array& a, const Array* out) {
  if (is_integer(a.dtype()) || a.dtype() == DType::boolean) {
    Temporaries temporaries(name);
    return evaluate(name, op, astype(a, DType::float64, temporaries), DType::float64, out);
  }
  check_floating(name, "a", a);
  return evaluate(name, op, a, a.dtype(), out);
}

Array complex_or_float_function(const char* name, UnaryOp op, const Array& a, const Array* out) {
  return is_complex(a.dtype()) ? evaluate(name, op, a, a.dtype(), out) : float_function(name, op, a, out);
}

Array copied(const char* name, const Array& a, const Array* out) {
  Array target = result(name, out, a.shape(), a.dtype(), a.device());
  copy_into(target, a);
  return target;
}

Array rounding(const char* name, UnaryOp op, const Array& a, const Array* out) {
  if (is_integer(a.dtype())) return copied(name, a, out);
  check_floating(name, "a", a);
  return evaluate(name, op, a, a.dtype(), out);
}

Array predicate(const char* name, UnaryOp op, const Array& a, bool of_integers, const Array* out) {
  check_arithmetic(name, "a", a);
  if (is_floating(a.dtype()) || is_complex(a.dtype())) return evaluate(name, op, a, DType::boolean, out);
  Array target = result(name, out, a.shape(), DType::boolean, a.device());
  fill(target, Scalar(of_integers));
  return target;
}

}  // namespace

Array negative(const Array& a, const Array* out) {
  return field_function("negative", UnaryOp::negative, a, a.dtype(), out);
}
Array square(const Array& a, const Array* out) { return field_function("square", UnaryOp::square, a, a.dtype(), out); }
Array absolute(const Array& a, const Array* out) {
  return field_function("abs", UnaryOp::abs, a, real_of(a.dtype()), out);
}
Array positive(const Array& a, const Array* out) {
  if (a.dtype() == DType::boolean || is_storage_only(a.dtype()))
    unsupported_dtype("positive", "a", a.dtype(), "have a number dtype");
  return copied("positive", a, out);
}
Array conj(const Array& a, const Array* out) {
  if (is_complex(a.dtype())) return evaluate("conj", UnaryOp::conj, a, a.dtype(), out);
  if (a.dtype() == DType::boolean || is_storage_only(a.dtype()))
    unsupported_dtype("conj", "a", a.dtype(), "have a number dtype");
  return copied("conj", a, out);
}
Array sign(const Array& a, const Array* out) {
  if (is_complex(a.dtype())) return evaluate("sign", UnaryOp::sign, a, a.dtype(), out);
  return number_function("sign", UnaryOp::sign, a, out);
}
Array relu(const Array& a, const Array* out) { return number_function("relu", UnaryOp::relu, a, out); }
Array relu2(const Array& a, const Array* out) { return number_function("relu2", UnaryOp::relu2, a, out); }

Array reciprocal(const Array& a, const Array* out) {
  if (!is_complex(a.dtype())) check_floating("reciprocal", "a", a);
  return evaluate("reciprocal", UnaryOp::reciprocal, a, a.dtype(), out);
}

Array floor(const Array& a, const Array* out) { return rounding("floor", UnaryOp::floor, a, out); }
Array ceil(const Array& a, const Array* out) { return rounding("ceil", UnaryOp::ceil, a, out); }
Array round(const Array& a, const Array* out) {
  if (is_complex(a.dtype())) return evaluate("round", UnaryOp::round, a, a.dtype(), out);
  return rounding("round", UnaryOp::round, a, out);
}
Array trunc(const Array& a, const Array* out) { return rounding("trunc", UnaryOp::trunc, a, out); }

#define GPUKIT_FLOAT_FUNCTION(function) \
  Array function(const Array& a, const Array* out) { return float_function(#function, UnaryOp::function, a, out); }

#define GPUKIT_COMPLEX_FUNCTION(function)                                   \
  Array function(const Array& a, const Array* out) {                        \
    return complex_or_float_function(#function, UnaryOp::function, a, out); \
  }

GPUKIT_COMPLEX_FUNCTION(exp)
GPUKIT_COMPLEX_FUNCTION(expm1)
GPUKIT_COMPLEX_FUNCTION(log)
GPUKIT_COMPLEX_FUNCTION(log1p)
GPUKIT_COMPLEX_FUNCTION(log2)
GPUKIT_COMPLEX_FUNCTION(log10)
GPUKIT_COMPLEX_FUNCTION(sqrt)
GPUKIT_FLOAT_FUNCTION(rsqrt)
GPUKIT_COMPLEX_FUNCTION(sin)
GPUKIT_COMPLEX_FUNCTION(cos)
GPUKIT_COMPLEX_FUNCTION(tan)
GPUKIT_COMPLEX_FUNCTION(asin)
GPUKIT_COMPLEX_FUNCTION(acos)
GPUKIT_COMPLEX_FUNCTION(atan)
GPUKIT_COMPLEX_FUNCTION(sinh)
GPUKIT_COMPLEX_FUNCTION(cosh)
GPUKIT_COMPLEX_FUNCTION(asinh)
GPUKIT_COMPLEX_FUNCTION(acosh)
GPUKIT_COMPLEX_FUNCTION(atanh)
GPUKIT_COMPLEX_FUNCTION(tanh)
GPUKIT_FLOAT_FUNCTION(erf)
GPUKIT_FLOAT_FUNCTION(sigmoid)
GPUKIT_FLOAT_FUNCTION(silu)
GPUKIT_FLOAT_FUNCTION(gelu)
#undef GPUKIT_FLOAT_FUNCTION
#undef GPUKIT_COMPLEX_FUNCTION

Array isnan(const Array& a, const Array* out) { return predicate("isnan", UnaryOp::isnan, a, false, out); }
Array isinf(const Array& a, const Array* out) { return predicate("isinf", UnaryOp::isinf, a, false, out); }
Array isfinite(const Array& a, const Array* out) { return predicate("isfinite", UnaryOp::isfinite, a, true, out); }

Array signbit(const Array& a, const Array* out) {
  check_floating("signbit", "a", a);
  return evaluate("signbit", UnaryOp::signbit, a, DType::boolean, out);
}

Array logical_not(const Array& a, const Array* out) {
  check_arithmetic("logical_not", "a", a);
  if (a.dtype() == DType::boolean) return bitwise_xor(a, Scalar(true), out);
  return equal(a, Scalar(false), out);
}

Array bitwise_invert(const Array& a, const Array* out) {
  if (a.dtype() == DType::boolean) return bitwise_xor(a, Scalar(true), out);
  if (!is_integer(a.dtype())) unsupported_dtype("bitwise_invert", "a", a.dtype(), "have an integer or bool dtype");
  // All bits set: -1, or the largest value of an unsigned integer.
  const Scalar ones =
      is_signed_integer(a.dtype()) ? Scalar(-1) : Scalar::from_unsigned(~uint64_t{0} >> (64 - 8 * itemsize(a.dtype())));
  return bitwise_xor(a, ones, out);
}

Array clamp(const Array& a, const Operand* min_val, const Operand* max_val, const Array* out) {
  const bool numbers = (min_val == nullptr || !min_val->is_array()) && (max_val == nullptr || !max_val->is_array());
  if (min_val == nullptr && max_val == nullptr) return copied("clamp", a, out);
  if (min_val == nullptr) return minimum(a, *max_val, out);
  if (max_val == nullptr) return maximum(a, *min_val, out);
  Temporaries temporaries("clamp");
  if (!numbers) {
    const Array raised = temporaries.empty(
        min_val->is_array() ? broadcast_shapes("clamp", a.shape(), min_val->array->shape()) : a.shape(),
        min_val->is_array() ? promote("clamp", a.dtype(), min_val->array->dtype())
                            : promote_scalar("clamp", a.dtype(), min_val->scalar.kind),
        a.device());
    return minimum(maximum(a, *min_val, &raised), *max_val, out);
  }

  DType dtype = promote_scalar("clamp", a.dtype(), min_val->scalar.kind);
  dtype = promote("clamp", dtype, promote_scalar("clamp", a.dtype(), max_val->scalar.kind));
  if (!is_integer(dtype) && !is_floating(dtype))
    unsupported_dtype("clamp", "a", a.dtype(), "have an integer or float dtype");
  const ElementBytes low = to_element("clamp", min_val->scalar, dtype);
  const ElementBytes high = to_element("clamp", max_val->scalar, dtype);
  Array target = result("clamp", out, a.shape(), dtype, a.device());
  const Array input = astype(a, dtype, temporaries);
  const bool buffered = out != nullptr && must_buffer(target, {&input});
  const Array into = buffered ? temporaries.empty(a.shape(), dtype, a.device()) : target;
  switch (into.device().kind) {
    case DeviceKind::cpu: cpu::clamp(into, input, low, high); break;
    case DeviceKind::cuda: cuda::clamp(into, input, low, high); break;
  }
  if (buffered) copy_into(target, into);
  return target;
}

}  // namespace gpukit
