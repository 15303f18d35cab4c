#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/binary_impl.h"

namespace gpukit::cpu {

namespace {

template <typename F, typename T>
struct Element {
  static T of(T x, T y) { return store<T>(F::apply(load(x), load(y))); }
};

/// As Minimum and Maximum, by choices that become no branches.
template <typename T>
struct Element<Minimum, T> {
  static T of(T x, T y) {
    using R = compute_t<T>;
    const R a = load(x), b = load(y);
    const R r = b <= a ? b : a;
    return store<T>(b != b ? b : r);
  }
};
template <typename T>
struct Element<Maximum, T> {
  static T of(T x, T y) {
    using R = compute_t<T>;
    const R a = load(x), b = load(y);
    const R r = b >= a ? b : a;
    return store<T>(b != b ? b : r);
  }
};

template <>
struct Element<NextAfter, half> {
  static half of(half x, half y) { return {NextAfter::of_bits(x.bits, y.bits, 0x7c00)}; }
};
template <>
struct Element<NextAfter, bfloat16> {
  static bfloat16 of(bfloat16 x, bfloat16 y) { return {NextAfter::of_bits(x.bits, y.bits, 0x7f80)}; }
};

template <typename F, typename T>
void run(const char* name, const Array& out, const ElementInput& a, const ElementInput& b) {
  map_rows(name, out, {a, b}, wide2_row<Element<F, T>, T, T, T>);
}

template <typename T>
void run_float(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (op) {
    case BinaryOp::add: return run<Add, T>("add", out, a, b);
    case BinaryOp::subtract: return run<Subtract, T>("subtract", out, a, b);
    case BinaryOp::multiply: return run<Multiply, T>("multiply", out, a, b);
    case BinaryOp::divide: return run<Divide, T>("divide", out, a, b);
    case BinaryOp::minimum: return run<Minimum, T>("minimum", out, a, b);
    case BinaryOp::maximum: return run<Maximum, T>("maximum", out, a, b);
    case BinaryOp::copysign: return run<CopySign, T>("copysign", out, a, b);
    default: return map_rows("nextafter", out, {a, b}, map2_row<Element<NextAfter, T>, T, T, T>);
  }
}

template <typename T>
void run_complex(BinaryOp op, const Array& out, const ElementInput& a, const ElementInput& b) {
  switch (op) {
    case BinaryOp::add: return run<Add, T>("add", out, a, b);
    case BinaryOp::subtract: return run<Subtract, T>("subtract", out, a, b);
    case BinaryOp::multiply: return run<Multiply, T>("multiply", out, a, b);
    default: return run<Divide, T>("divide", out, a, b);
  }
}

}  // namespace

void binary_real(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (binary_math(op, dtype, out, a, b)) return;
  visit_floating(dtype, [&]<typename T>() { run_float<T>(op, out, a, b); });
}

void binary(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  if (op >= BinaryOp::bitwise_and) return binary_bitwise(op, dtype, out, a, b);
  if (op >= BinaryOp::equal) return binary_compare(op, dtype, out, a, b);
  if (is_integer(dtype)) return binary_integer(op, dtype, out, a, b);
  if (dtype == DType::complex64) return run_complex<complex<float>>(op, out, a, b);
  if (dtype == DType::complex128) return run_complex<complex<double>>(op, out, a, b);
  binary_real(op, dtype, out, a, b);
}

}  // namespace gpukit::cpu
