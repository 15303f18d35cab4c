#include <cmath>

#include "gpukit/ops/elementwise/math_rows.h"
#include "gpukit/ops/elementwise/unary_impl.h"

namespace gpukit::cpu {

namespace {

#define GPUKIT_MATH(Name, value)                      \
  struct Name {                                       \
    template <typename P>                             \
    GPUKIT_ALWAYS_INLINE static double of(double x) { \
      return value;                                   \
    }                                                 \
  };
#define GPUKIT_ANGLE(Name, value, beyond)                              \
  struct Name {                                                        \
    static constexpr double kMost = vector::kMostAngle;                \
    template <typename P>                                              \
    GPUKIT_ALWAYS_INLINE static double of(double x) {                  \
      return value;                                                    \
    }                                                                  \
    GPUKIT_NEVER_INLINE static double far(double x) { return beyond; } \
  };

GPUKIT_MATH(Exp, vector::exp_of<P>(x))
GPUKIT_MATH(Expm1, vector::expm1_of<P>(x))
GPUKIT_MATH(Log, vector::log_of<P>(x))
GPUKIT_MATH(Log1p, vector::log1p_of<P>(x))
GPUKIT_MATH(Log2, vector::log2_of<P>(x))
GPUKIT_MATH(Log10, vector::log10_of<P>(x))
GPUKIT_MATH(Sigmoid, vector::sigmoid_of<P>(x))
// Whose exponential has infinity, so that all of them give NaN at minus infinity.
GPUKIT_MATH(Silu, x / (1.0 + vector::exp_of<vector::Full>(-x)))
GPUKIT_MATH(Gelu,
            x / (1.0 + vector::exp_of<vector::Full>(-(x * std::fma(x * x, 0.07135481627260025, 1.5957691216057308)))))
GPUKIT_MATH(Tanh, vector::tanh_of<P>(x))
GPUKIT_ANGLE(Sin, vector::sin_of<P>(x), std::sin(x))
GPUKIT_ANGLE(Cos, vector::cos_of<P>(x), std::cos(x))
GPUKIT_ANGLE(Tan, vector::tan_of<P>(x), std::tan(x))
GPUKIT_MATH(Asin, vector::asin_of<P>(x))
GPUKIT_MATH(Acos, vector::acos_of<P>(x))
GPUKIT_MATH(Atan, vector::atan_of<P>(x))
GPUKIT_MATH(Sinh, vector::sinh_of<P>(x))
GPUKIT_MATH(Cosh, vector::cosh_of<P>(x))
GPUKIT_MATH(Asinh, vector::asinh_of<P>(x))
GPUKIT_MATH(Acosh, vector::acosh_of<P>(x))
GPUKIT_MATH(Atanh, vector::atanh_of<P>(x))
#undef GPUKIT_MATH
#undef GPUKIT_ANGLE

template <typename T>
struct Sqrt {
  static T of(T x) { return store<T>(std::sqrt(load(x))); }
};
template <typename T>
struct Rsqrt {
  static T of(T x) { return store<T>(compute_t<T>(1) / std::sqrt(load(x))); }
};
template <typename T>
struct Erf {
  static T of(T x) { return store<T>(std::erf(load(x))); }
};

template <typename T>
void run(UnaryOp op, const Array& out, const Array& a) {
  auto with = [&](const char* name, RowFunction row) { map_rows(name, out, {{&a, {}}}, row); };
  switch (op) {
    case UnaryOp::exp: return with("exp", math1_row<Exp, T>);
    case UnaryOp::expm1: return with("expm1", math1_row<Expm1, T>);
    case UnaryOp::log: return with("log", math1_row<Log, T>);
    case UnaryOp::log1p: return with("log1p", math1_row<Log1p, T>);
    case UnaryOp::log2: return with("log2", math1_row<Log2, T>);
    case UnaryOp::log10: return with("log10", math1_row<Log10, T>);
    case UnaryOp::sqrt: return with("sqrt", wide1_row<Sqrt<T>, T, T>);
    case UnaryOp::rsqrt: return with("rsqrt", wide1_row<Rsqrt<T>, T, T>);
    case UnaryOp::sigmoid: return with("sigmoid", math1_row<Sigmoid, T>);
    case UnaryOp::silu: return with("silu", math1_row<Silu, T>);
    case UnaryOp::gelu: return with("gelu", math1_row<Gelu, T>);
    case UnaryOp::tanh: return with("tanh", math1_row<Tanh, T>);
    case UnaryOp::erf: return with("erf", map1_row<Erf<T>, T, T>);
    case UnaryOp::sin: return with("sin", math1_row<Sin, T>);
    case UnaryOp::cos: return with("cos", math1_row<Cos, T>);
    case UnaryOp::tan: return with("tan", math1_row<Tan, T>);
    case UnaryOp::asin: return with("asin", math1_row<Asin, T>);
    case UnaryOp::acos: return with("acos", math1_row<Acos, T>);
    case UnaryOp::atan: return with("atan", math1_row<Atan, T>);
    case UnaryOp::sinh: return with("sinh", math1_row<Sinh, T>);
    case UnaryOp::cosh: return with("cosh", math1_row<Cosh, T>);
    case UnaryOp::asinh: return with("asinh", math1_row<Asinh, T>);
    case UnaryOp::acosh: return with("acosh", math1_row<Acosh, T>);
    default: return with("atanh", math1_row<Atanh, T>);
  }
}

}  // namespace

void unary_math(UnaryOp op, const Array& out, const Array& a) {
  visit_floating(a.dtype(), [&]<typename T>() { run<T>(op, out, a); });
}

}  // namespace gpukit::cpu
