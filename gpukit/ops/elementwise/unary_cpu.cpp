#include <limits>

#include "gpukit/ops/elementwise/unary_basic.cuh"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cpu {

namespace {

template <typename F, typename T>
struct Element {
  static T of(T x) { return store<T>(F::apply(load(x))); }
};
template <typename F, typename T>
struct Test {
  static bool of(T x) { return F::apply(load(x)); }
};
template <typename R>
struct Magnitude {
  static R of(complex<R> x) {
    // In double the squares of floats do not overflow; large and small doubles are scaled. An infinity beside NaN
    // counts.
    const double re = fabs(static_cast<double>(x.re)), im = fabs(static_cast<double>(x.im));
    const double most = re > im ? re : im;
    double scale = 1.0;
    if constexpr (sizeof(R) == 8) scale = most > 0x1p500 ? 0x1p-600 : most < 0x1p-500 ? 0x1p600 : 1.0;
    const double a = re * scale, b = im * scale;
    const double value = sqrt(fma(a, a, b * b)) / scale;
    const bool infinite = re > std::numeric_limits<R>::max() || im > std::numeric_limits<R>::max();
    return infinite ? std::numeric_limits<R>::infinity() : static_cast<R>(value);
  }
};
template <typename T>
struct Clamped {
  static T of(T x, T low, T high) {
    // As ClampTo, by choices that become no branches.
    using R = compute_t<T>;
    const R v = load(x), least = load(low), most = load(high);
    R r = least >= v ? least : v;
    r = least != least ? least : r;
    r = most <= r ? most : r;
    return store<T>(most != most ? most : r);
  }
};

template <typename F, typename T>
void run(const char* name, const Array& out, const Array& a) {
  map_rows(name, out, {{&a, {}}}, wide1_row<Element<F, T>, T, T>);
}
template <typename F, typename T>
void test(const char* name, const Array& out, const Array& a) {
  map_rows(name, out, {{&a, {}}}, wide1_row<Test<F, T>, bool, T>);
}

template <typename T>
void run_number(UnaryOp op, const Array& out, const Array& a) {
  switch (op) {
    case UnaryOp::negative: return run<Negative, T>("negative", out, a);
    case UnaryOp::abs: return run<Absolute, T>("abs", out, a);
    case UnaryOp::sign: return run<Sign, T>("sign", out, a);
    case UnaryOp::square: return run<SquareOf, T>("square", out, a);
    case UnaryOp::relu: return run<Relu, T>("relu", out, a);
    default: return run<Relu2, T>("relu2", out, a);
  }
}

template <typename T>
void run_test(UnaryOp op, const Array& out, const Array& a) {
  if (op == UnaryOp::isnan) return test<IsNan, T>("isnan", out, a);
  if (op == UnaryOp::isinf) return test<IsInf, T>("isinf", out, a);
  if constexpr (!NumberTraits<compute_t<T>>::kComplex) {
    if (op == UnaryOp::signbit) return test<SignBit, T>("signbit", out, a);
  }
  test<IsFinite, T>("isfinite", out, a);
}

template <typename T>
void run_float(UnaryOp op, const Array& out, const Array& a) {
  switch (op) {
    case UnaryOp::reciprocal: return run<Reciprocal, T>("reciprocal", out, a);
    case UnaryOp::floor: return run<Floor, T>("floor", out, a);
    case UnaryOp::ceil: return run<Ceil, T>("ceil", out, a);
    case UnaryOp::round: return run<Round, T>("round", out, a);
    case UnaryOp::trunc: return run<Trunc, T>("trunc", out, a);
    case UnaryOp::isnan:
    case UnaryOp::isinf:
    case UnaryOp::isfinite:
    case UnaryOp::signbit: return run_test<T>(op, out, a);
    default: return run_number<T>(op, out, a);
  }
}

template <typename R>
void run_complex(UnaryOp op, const Array& out, const Array& a) {
  using T = complex<R>;
  switch (op) {
    case UnaryOp::negative: return run<Negative, T>("negative", out, a);
    case UnaryOp::square: return run<SquareOf, T>("square", out, a);
    case UnaryOp::reciprocal: return run<Reciprocal, T>("reciprocal", out, a);
    case UnaryOp::abs: return map_rows("abs", out, {{&a, {}}}, wide1_row<Magnitude<R>, R, T>);
    default: return run_test<T>(op, out, a);
  }
}

}  // namespace

void unary(UnaryOp op, const Array& out, const Array& a) {
  if (op >= UnaryOp::exp && op < UnaryOp::isnan) return unary_math(op, out, a);
  switch (a.dtype()) {
    case DType::int8: return run_number<int8_t>(op, out, a);
    case DType::int16: return run_number<int16_t>(op, out, a);
    case DType::int32: return run_number<int32_t>(op, out, a);
    case DType::int64: return run_number<int64_t>(op, out, a);
    case DType::uint8: return run_number<uint8_t>(op, out, a);
    case DType::uint16: return run_number<uint16_t>(op, out, a);
    case DType::uint32: return run_number<uint32_t>(op, out, a);
    case DType::uint64: return run_number<uint64_t>(op, out, a);
    case DType::complex64: return run_complex<float>(op, out, a);
    case DType::complex128: return run_complex<double>(op, out, a);
    default: visit_floating(a.dtype(), [&]<typename T>() { run_float<T>(op, out, a); });
  }
}

void clamp(const Array& out, const Array& a, const ElementBytes& low, const ElementBytes& high) {
  visit_arithmetic(a.dtype(), [&]<typename T>() {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, std::complex<float>> &&
                  !std::is_same_v<T, std::complex<double>>)
      map_rows("clamp", out, {{&a, {}}, {nullptr, low}, {nullptr, high}}, wide3_row<Clamped<T>, T, T, T, T>);
  });
}

}  // namespace gpukit::cpu
