#include <cmath>

#include "gpukit/ops/common/nonlinear.h"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cpu {

namespace {

/// f(x) of a compute type R, for elements of T.
template <template <typename> typename F, typename T>
struct Element {
  static T of(T x) { return store<T>(F<compute_t<T>>::of(load(x))); }
};

#define GPUKIT_MATH(Name, value)       \
  template <typename R>                \
  struct Name {                        \
    static R of(R x) { return value; } \
  };

GPUKIT_MATH(Exp, std::exp(x))
GPUKIT_MATH(Expm1, std::expm1(x))
GPUKIT_MATH(Log, std::log(x))
GPUKIT_MATH(Log1p, std::log1p(x))
GPUKIT_MATH(Log2, std::log2(x))
GPUKIT_MATH(Log10, std::log10(x))
GPUKIT_MATH(Sqrt, std::sqrt(x))
GPUKIT_MATH(Rsqrt, R(1) / std::sqrt(x))
GPUKIT_MATH(Sigmoid, R(1) / (R(1) + std::exp(-x)))
GPUKIT_MATH(Silu, silu_of(x))
GPUKIT_MATH(Gelu, gelu_of(x))
GPUKIT_MATH(Tanh, std::tanh(x))
GPUKIT_MATH(Erf, std::erf(x))
GPUKIT_MATH(Sin, std::sin(x))
GPUKIT_MATH(Cos, std::cos(x))
GPUKIT_MATH(Tan, std::tan(x))
GPUKIT_MATH(Asin, std::asin(x))
GPUKIT_MATH(Acos, std::acos(x))
GPUKIT_MATH(Atan, std::atan(x))
GPUKIT_MATH(Sinh, std::sinh(x))
GPUKIT_MATH(Cosh, std::cosh(x))
GPUKIT_MATH(Asinh, std::asinh(x))
GPUKIT_MATH(Acosh, std::acosh(x))
GPUKIT_MATH(Atanh, std::atanh(x))
#undef GPUKIT_MATH

template <typename T>
void run(UnaryOp op, const Array& out, const Array& a) {
  auto with = [&](const char* name, RowFunction row) { map_rows(name, out, {{&a, {}}}, row); };
  switch (op) {
    case UnaryOp::exp: return with("exp", map1_row<Element<Exp, T>, T, T>);
    case UnaryOp::expm1: return with("expm1", map1_row<Element<Expm1, T>, T, T>);
    case UnaryOp::log: return with("log", map1_row<Element<Log, T>, T, T>);
    case UnaryOp::log1p: return with("log1p", map1_row<Element<Log1p, T>, T, T>);
    case UnaryOp::log2: return with("log2", map1_row<Element<Log2, T>, T, T>);
    case UnaryOp::log10: return with("log10", map1_row<Element<Log10, T>, T, T>);
    case UnaryOp::sqrt: return with("sqrt", map1_row<Element<Sqrt, T>, T, T>);
    case UnaryOp::rsqrt: return with("rsqrt", map1_row<Element<Rsqrt, T>, T, T>);
    case UnaryOp::sigmoid: return with("sigmoid", map1_row<Element<Sigmoid, T>, T, T>);
    case UnaryOp::silu: return with("silu", map1_row<Element<Silu, T>, T, T>);
    case UnaryOp::gelu: return with("gelu", map1_row<Element<Gelu, T>, T, T>);
    case UnaryOp::tanh: return with("tanh", map1_row<Element<Tanh, T>, T, T>);
    case UnaryOp::erf: return with("erf", map1_row<Element<Erf, T>, T, T>);
    case UnaryOp::sin: return with("sin", map1_row<Element<Sin, T>, T, T>);
    case UnaryOp::cos: return with("cos", map1_row<Element<Cos, T>, T, T>);
    case UnaryOp::tan: return with("tan", map1_row<Element<Tan, T>, T, T>);
    case UnaryOp::asin: return with("asin", map1_row<Element<Asin, T>, T, T>);
    case UnaryOp::acos: return with("acos", map1_row<Element<Acos, T>, T, T>);
    case UnaryOp::atan: return with("atan", map1_row<Element<Atan, T>, T, T>);
    case UnaryOp::sinh: return with("sinh", map1_row<Element<Sinh, T>, T, T>);
    case UnaryOp::cosh: return with("cosh", map1_row<Element<Cosh, T>, T, T>);
    case UnaryOp::asinh: return with("asinh", map1_row<Element<Asinh, T>, T, T>);
    case UnaryOp::acosh: return with("acosh", map1_row<Element<Acosh, T>, T, T>);
    default: return with("atanh", map1_row<Element<Atanh, T>, T, T>);
  }
}

}  // namespace

void unary_math(UnaryOp op, const Array& out, const Array& a) {
  visit_floating(a.dtype(), [&]<typename T>() { run<T>(op, out, a); });
}

}  // namespace gpukit::cpu
