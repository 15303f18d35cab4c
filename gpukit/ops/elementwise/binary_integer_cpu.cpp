#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/binary_impl.h"

namespace gpukit::cpu {

namespace {

template <typename F, typename T>
struct Element {
  static T of(T x, T y) { return F::apply(x, y); }
};

template <typename F, typename T>
void run(const char* name, const Array& out, const ElementInput& a, const ElementInput& b) {
  map_rows(name, out, {a, b}, wide2_row<Element<F, T>, T, T, T>);
}

/// Functions whose bits depend on the sign.
template <typename T>
void run_signed(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (op) {
    case BinaryOp::minimum: return run<Minimum, T>("minimum", out, a, b);
    case BinaryOp::maximum: return run<Maximum, T>("maximum", out, a, b);
    default: return map_rows("power", out, {a, b}, map2_row<Element<Power, T>, T, T, T>);
  }
}

/// Functions on bits: T is unsigned and serves both signs.
template <typename T>
void run_bits(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (op) {
    case BinaryOp::add: return run<Add, T>("add", out, a, b);
    case BinaryOp::subtract: return run<Subtract, T>("subtract", out, a, b);
    case BinaryOp::multiply: return run<Multiply, T>("multiply", out, a, b);
    case BinaryOp::bitwise_and: return run<BitAnd, T>("bitwise_and", out, a, b);
    case BinaryOp::bitwise_or: return run<BitOr, T>("bitwise_or", out, a, b);
    case BinaryOp::bitwise_xor: return run<BitXor, T>("bitwise_xor", out, a, b);
    case BinaryOp::shift_left: return run<ShiftLeft, T>("bitwise_left_shift", out, a, b);
    case BinaryOp::shift_right: return run<ShiftRight, T>("bitwise_right_shift", out, a, b);
    default: return run<ShiftRightSigned, T>("bitwise_right_shift", out, a, b);
  }
}

}  // namespace

void binary_bitwise(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (itemsize(dtype)) {
    case 1: return run_bits<uint8_t>(op, out, a, b);
    case 2: return run_bits<uint16_t>(op, out, a, b);
    case 4: return run_bits<uint32_t>(op, out, a, b);
    default: return run_bits<uint64_t>(op, out, a, b);
  }
}

void binary_integer(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (op <= BinaryOp::multiply) return binary_bitwise(op, dtype, out, a, b);
  if (op == BinaryOp::remainder || op == BinaryOp::floor_divide) return binary_division(op, dtype, out, a, b);
  switch (dtype) {
    case DType::int8: return run_signed<int8_t>(op, out, a, b);
    case DType::int16: return run_signed<int16_t>(op, out, a, b);
    case DType::int32: return run_signed<int32_t>(op, out, a, b);
    case DType::int64: return run_signed<int64_t>(op, out, a, b);
    case DType::uint8: return run_signed<uint8_t>(op, out, a, b);
    case DType::uint16: return run_signed<uint16_t>(op, out, a, b);
    case DType::uint32: return run_signed<uint32_t>(op, out, a, b);
    default: return run_signed<uint64_t>(op, out, a, b);
  }
}

}  // namespace gpukit::cpu
