#include "gpukit/ops/elementwise/binary.h"

#include <utility>

#include "gpukit/ops/elementwise/binary_impl.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {

namespace {

/// Which dtypes a function takes once the operands have a common one.
enum class Takes : uint8_t { arithmetic, no_bool, real, number, floating, integer, integer_or_bool };

bool takes(Takes rule, DType d) {
  switch (rule) {
    case Takes::arithmetic: return !is_storage_only(d);
    case Takes::no_bool: return !is_storage_only(d) && d != DType::boolean;
    case Takes::real: return !is_storage_only(d) && !is_complex(d);
    case Takes::number: return is_integer(d) || is_floating(d);
    case Takes::floating: return is_floating(d);
    case Takes::integer: return is_integer(d);
    case Takes::integer_or_bool: return is_integer(d) || d == DType::boolean;
  }
  return false;
}

const char* needed(Takes rule) {
  switch (rule) {
    case Takes::arithmetic: return "have an arithmetic dtype (convert it with astype)";
    case Takes::no_bool: return "have a number dtype, not bool";
    case Takes::real: return "have a real or bool dtype";
    case Takes::number: return "have an integer or float dtype";
    case Takes::floating: return "have a float dtype";
    case Takes::integer: return "have an integer dtype";
    case Takes::integer_or_bool: return "have an integer or bool dtype";
  }
  return "";
}

struct Function {
  const char* name;
  BinaryOp op;
  Takes rule;
  bool compares = false;  // bool result
  bool swaps = false;     // b op a
};

DType common_dtype(const Function& f, const Operand& a, const Operand& b) {
  DType dtype;
  if (a.is_array() && b.is_array())
    dtype =
        a.array->dtype() == b.array->dtype() ? a.array->dtype() : promote(f.name, a.array->dtype(), b.array->dtype());
  else if (a.is_array())
    dtype = promote_scalar(f.name, a.array->dtype(), b.scalar.kind);
  else if (b.is_array())
    dtype = promote_scalar(f.name, b.array->dtype(), a.scalar.kind);
  else
    throw ArgumentError(f.name, "a or b", "be an array", "two numbers");
  if (f.op == BinaryOp::divide && (is_integer(dtype) || dtype == DType::boolean)) dtype = DType::float64;
  if (!takes(f.rule, dtype)) {
    const bool blame_a = a.is_array() && (!b.is_array() || !takes(f.rule, a.array->dtype()));
    unsupported_dtype(f.name, blame_a ? "a" : "b", (blame_a ? a : b).array->dtype(), needed(f.rule));
  }
  return dtype;
}

Dims common_shape(const Function& f, const Operand& a, const Operand& b) {
  if (!a.is_array()) return b.array->shape();
  if (!b.is_array() || a.array->shape() == b.array->shape()) return a.array->shape();
  check_same_device(f.name, *a.array, *b.array);
  return broadcast_shapes(f.name, a.array->shape(), b.array->shape());
}

/// bool arithmetic is bit arithmetic on 0 and 1.
BinaryOp on_bool(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::maximum: return BinaryOp::bitwise_or;
    case BinaryOp::multiply:
    case BinaryOp::minimum: return BinaryOp::bitwise_and;
    default: return op;
  }
}

void submit(const Function& f, DType dtype, const Array& out, ElementInput a, ElementInput b) {
  if (f.swaps) std::swap(a, b);
  BinaryOp op = dtype == DType::boolean ? on_bool(f.op) : f.op;
  if (op == BinaryOp::shift_right && is_signed_integer(dtype)) op = BinaryOp::shift_right_signed;
  if (op == BinaryOp::power && is_complex(dtype)) {
    switch (out.device().kind) {
      case DeviceKind::cpu: return cpu::complex_power(out, a, b);
      case DeviceKind::cuda: return cuda::complex_power(out, a, b);
    }
  }
  switch (out.device().kind) {
    case DeviceKind::cpu: cpu::binary(op, dtype, out, a, b); break;
    case DeviceKind::cuda: cuda::binary(op, dtype, out, a, b); break;
  }
}

/// An operand in the common dtype; `hold` keeps a cast array.
ElementInput prepare(const Function& f, const Operand& x, DType dtype, Array& hold, Temporaries& into) {
  if (!x.is_array()) return {nullptr, to_element(f.name, x.scalar, dtype)};
  if (x.array->dtype() == dtype) return {x.array, {}};
  hold = astype(*x.array, dtype, into);
  return {&hold, {}};
}

/// Where an integer lies beside the range of an integer dtype: below it -1, in it 0, above it 1.
int beside_range(const Scalar& value, DType dtype) {
  if (value.kind != ScalarKind::integer || !is_integer(dtype)) return 0;
  const int bits = 8 * itemsize(dtype) - (is_signed_integer(dtype) ? 1 : 0);
  if (value.is_unsigned_above) return bits < 64 ? 1 : 0;
  const int64_t low = is_signed_integer(dtype) ? -1 - (INT64_MAX >> (63 - bits)) : 0;
  if (value.integer < low) return -1;
  return bits < 63 && value.integer > (int64_t{1} << bits) - 1 ? 1 : 0;
}

/// A comparison with a number no element can equal: every element gives the same answer.
bool constant_answer(const Function& f, int a_side, int b_side) {
  const int order = a_side != 0 ? a_side : -b_side;  // of a against b
  switch (f.op) {
    case BinaryOp::equal: return false;
    case BinaryOp::not_equal: return true;
    default: return f.swaps ? order > 0 : order < 0;
  }
}

Array evaluate(const Function& f, const Operand& a, const Operand& b, const Array* out) {
  // Equal layouts and dtypes into a given array: nothing to plan, nothing to allocate.
  if (out != nullptr && a.is_array() && b.is_array() && !f.compares && out->is_contiguous()) {
    const Array &x = *a.array, &y = *b.array;
    if (x.is_contiguous() && y.is_contiguous() && x.dtype() == y.dtype() && out->dtype() == x.dtype() &&
        x.shape() == y.shape() && x.shape() == out->shape() && takes(f.rule, x.dtype()) && x.device() == y.device() &&
        x.device() == out->device() && !must_buffer(*out, {&x, &y}) &&
        !(f.op == BinaryOp::divide && !is_floating(x.dtype()) && !is_complex(x.dtype()))) {
      submit(f, x.dtype(), *out, {&x, {}}, {&y, {}});
      return *out;
    }
  }
  const DType dtype = common_dtype(f, a, b);
  if (a.is_array() && b.is_array()) check_same_device(f.name, *a.array, *b.array);
  const Dims shape = common_shape(f, a, b);
  const Device device = (a.is_array() ? a : b).array->device();
  Array target = result(f.name, out, shape, f.compares ? DType::boolean : dtype, device);
  if (f.compares) {
    const int a_side = a.is_array() ? 0 : beside_range(a.scalar, dtype);
    const int b_side = b.is_array() ? 0 : beside_range(b.scalar, dtype);
    if (a_side != 0 || b_side != 0) {
      fill(target, Scalar(constant_answer(f, a_side, b_side)));
      return target;
    }
  }
  Temporaries temporaries(f.name);
  Array hold_a, hold_b;
  const ElementInput x = prepare(f, a, dtype, hold_a, temporaries);
  const ElementInput y = prepare(f, b, dtype, hold_b, temporaries);
  if (out != nullptr && must_buffer(target, {x.array, y.array})) {
    const Array buffer = temporaries.empty(shape, target.dtype(), device);
    submit(f, dtype, buffer, x, y);
    copy_into(target, buffer);
  } else {
    submit(f, dtype, target, x, y);
  }
  return target;
}

/// Any arithmetic dtype as bool, by `x != 0`.
Operand truth(const Operand& x, Array& hold, Temporaries& into) {
  if (!x.is_array()) return Scalar(x.scalar.integer != 0 || x.scalar.real != 0 || x.scalar.imag != 0);
  if (x.array->dtype() == DType::boolean) return x;
  hold = astype(*x.array, DType::boolean, into);
  return hold;
}

Array evaluate_logical(const Function& f, const Operand& a, const Operand& b, const Array* out) {
  if (!a.is_array() && !b.is_array()) throw ArgumentError(f.name, "a or b", "be an array", "two numbers");
  Temporaries temporaries(f.name);
  Array hold_a, hold_b;
  const Operand x = truth(a, hold_a, temporaries), y = truth(b, hold_b, temporaries);
  return evaluate(f, x, y, out);
}

void evaluate_inplace(const Function& f, const Array& a, const Operand& b) {
  if (b.is_array() && b.array->dtype() != a.dtype() && promote(f.name, a.dtype(), b.array->dtype()) != a.dtype())
    throw DTypeError(f.name, "b", std::string("have a dtype that promotes to a's ") + name(a.dtype()),
                     name(b.array->dtype()));
  evaluate(f, a, b, &a);
}

}  // namespace

#define GPUKIT_BINARY(function, ...)                                     \
  Array function(const Operand& a, const Operand& b, const Array* out) { \
    static constexpr Function kFunction{#function, __VA_ARGS__};         \
    return evaluate(kFunction, a, b, out);                               \
  }

GPUKIT_BINARY(add, BinaryOp::add, Takes::arithmetic)
GPUKIT_BINARY(subtract, BinaryOp::subtract, Takes::no_bool)
GPUKIT_BINARY(multiply, BinaryOp::multiply, Takes::arithmetic)
GPUKIT_BINARY(divide, BinaryOp::divide, Takes::no_bool)
GPUKIT_BINARY(minimum, BinaryOp::minimum, Takes::real)
GPUKIT_BINARY(maximum, BinaryOp::maximum, Takes::real)
GPUKIT_BINARY(remainder, BinaryOp::remainder, Takes::number)
GPUKIT_BINARY(floor_divide, BinaryOp::floor_divide, Takes::number)
GPUKIT_BINARY(power, BinaryOp::power, Takes::no_bool)
GPUKIT_BINARY(atan2, BinaryOp::atan2, Takes::floating)
GPUKIT_BINARY(hypot, BinaryOp::hypot, Takes::floating)
GPUKIT_BINARY(copysign, BinaryOp::copysign, Takes::floating)
GPUKIT_BINARY(logaddexp, BinaryOp::logaddexp, Takes::floating)
GPUKIT_BINARY(nextafter, BinaryOp::nextafter, Takes::floating)
GPUKIT_BINARY(equal, BinaryOp::equal, Takes::arithmetic, true)
GPUKIT_BINARY(not_equal, BinaryOp::not_equal, Takes::arithmetic, true)
GPUKIT_BINARY(less, BinaryOp::less, Takes::real, true)
GPUKIT_BINARY(less_equal, BinaryOp::less_equal, Takes::real, true)
GPUKIT_BINARY(greater, BinaryOp::less, Takes::real, true, true)
GPUKIT_BINARY(greater_equal, BinaryOp::less_equal, Takes::real, true, true)
GPUKIT_BINARY(bitwise_and, BinaryOp::bitwise_and, Takes::integer_or_bool)
GPUKIT_BINARY(bitwise_or, BinaryOp::bitwise_or, Takes::integer_or_bool)
GPUKIT_BINARY(bitwise_xor, BinaryOp::bitwise_xor, Takes::integer_or_bool)
GPUKIT_BINARY(bitwise_left_shift, BinaryOp::shift_left, Takes::integer)
GPUKIT_BINARY(bitwise_right_shift, BinaryOp::shift_right, Takes::integer)

#define GPUKIT_LOGICAL(function, op)                                            \
  Array function(const Operand& a, const Operand& b, const Array* out) {        \
    static constexpr Function kFunction{#function, op, Takes::integer_or_bool}; \
    return evaluate_logical(kFunction, a, b, out);                              \
  }

GPUKIT_LOGICAL(logical_and, BinaryOp::bitwise_and)
GPUKIT_LOGICAL(logical_or, BinaryOp::bitwise_or)
GPUKIT_LOGICAL(logical_xor, BinaryOp::bitwise_xor)

void add_inplace(const Array& a, const Operand& b) {
  static constexpr Function kFunction{"add_inplace", BinaryOp::add, Takes::arithmetic};
  evaluate_inplace(kFunction, a, b);
}
void multiply_inplace(const Array& a, const Operand& b) {
  static constexpr Function kFunction{"mul_inplace", BinaryOp::multiply, Takes::arithmetic};
  evaluate_inplace(kFunction, a, b);
}

}  // namespace gpukit
