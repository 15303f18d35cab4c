#include "gpukit/ops/elementwise/binary_impl.h"
#include "gpukit/ops/elementwise/complex_math.cuh"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cpu {

namespace {

template <typename C>
Complex widened(C z) {
  return {z.re, z.im};
}
template <typename C>
C narrowed(Complex z) {
  return {static_cast<decltype(C::re)>(z.re), static_cast<decltype(C::im)>(z.im)};
}

template <UnaryOp kOp, typename C>
struct Element {
  static C of(C z) { return narrowed<C>(complex_function(kOp, widened(z))); }
};
template <typename C>
struct PowerOf {
  static C of(C a, C b) { return narrowed<C>(complex_power(widened(a), widened(b))); }
};

template <typename C>
RowFunction row_of(UnaryOp op) {
  switch (op) {
#define GPUKIT_ROW(name) \
  case UnaryOp::name: return map1_row<Element<UnaryOp::name, C>, C, C>;
    GPUKIT_ROW(exp)
    GPUKIT_ROW(expm1)
    GPUKIT_ROW(log)
    GPUKIT_ROW(log1p)
    GPUKIT_ROW(log2)
    GPUKIT_ROW(log10)
    GPUKIT_ROW(sqrt)
    GPUKIT_ROW(sin)
    GPUKIT_ROW(cos)
    GPUKIT_ROW(tan)
    GPUKIT_ROW(asin)
    GPUKIT_ROW(acos)
    GPUKIT_ROW(atan)
    GPUKIT_ROW(sinh)
    GPUKIT_ROW(cosh)
    GPUKIT_ROW(tanh)
    GPUKIT_ROW(asinh)
    GPUKIT_ROW(acosh)
    GPUKIT_ROW(atanh)
    GPUKIT_ROW(sign)
    GPUKIT_ROW(round)
#undef GPUKIT_ROW
    default: return map1_row<Element<UnaryOp::conj, C>, C, C>;
  }
}

}  // namespace

void complex_unary(UnaryOp op, const Array& out, const Array& a) {
  const RowFunction row = a.dtype() == DType::complex64 ? row_of<complex<float>>(op) : row_of<complex<double>>(op);
  map_rows("complex function", out, {{&a, {}}}, row);
}

void complex_power(const Array& out, const ElementInput& a, const ElementInput& b) {
  const bool narrow = out.dtype() == DType::complex64;
  const RowFunction row = narrow
                              ? map2_row<PowerOf<complex<float>>, complex<float>, complex<float>, complex<float>>
                              : map2_row<PowerOf<complex<double>>, complex<double>, complex<double>, complex<double>>;
  map_rows("power", out, {a, b}, row);
}

}  // namespace gpukit::cpu
