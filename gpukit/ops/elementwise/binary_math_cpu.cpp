// Quotients, powers and angles of two floats.
#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/binary_impl.h"
#include "gpukit/ops/elementwise/math_rows.h"

namespace gpukit::cpu {

namespace {

/// fmod(a, b) for a quotient whose whole part R holds exactly: what fma gives is then exact as well.
template <typename R>
GPUKIT_ALWAYS_INLINE R exact_fmod(R a, R b) {
  const R r = std::fma(-std::trunc(a / b), b, a);
  // A quotient just below a whole number may have been rounded to it.
  const bool past = (r < R(0)) != (a < R(0)) && r != R(0);
  return past ? r + std::copysign(b, a) : r;
}

template <typename R>
struct Quotient {
  using Number = R;
  static constexpr R kMost = sizeof(R) == 4 ? R(0x1p23) : R(0x1p52);
  /// False for infinities, NaN and division by zero as well.
  GPUKIT_ALWAYS_INLINE static bool usual(R a, R b) {
    return std::fabs(a / b) < kMost && std::fabs(b) <= std::numeric_limits<R>::max();
  }
};

template <typename R>
struct RemainderOf : Quotient<R> {
  GPUKIT_ALWAYS_INLINE static R of(R a, R b) {
    const R r = exact_fmod(a, b);
    const R adjusted = (r < R(0)) != (b < R(0)) ? r + b : r;
    return r == R(0) ? std::copysign(r, b) : adjusted;
  }
  GPUKIT_NEVER_INLINE static R rare(R a, R b) { return Remainder::apply(a, b); }
};

template <typename R>
struct FloorDivideOf : Quotient<R> {
  GPUKIT_ALWAYS_INLINE static R of(R a, R b) {
    const R r = exact_fmod(a, b);
    const R q = (a - r) / b;
    const R down = r != R(0) && (r < R(0)) != (b < R(0)) ? q - R(1) : q;
    const R whole = std::floor(down);
    const R nearest = down - whole > R(0.5) ? whole + R(1) : whole;
    return down == R(0) ? std::copysign(R(0), a / b) : nearest;
  }
  GPUKIT_NEVER_INLINE static R rare(R a, R b) { return FloorDivide::apply(a, b); }
};

/// Functions computed in double, for elements that compute in R.
template <typename R>
struct InDouble {
  using Number = double;
  using Terms = MathTerms<R>;
  static constexpr double kLeast = 0x1p-500, kLargest = 0x1p500;
  GPUKIT_ALWAYS_INLINE static bool moderate(double x) { return std::fabs(x) >= kLeast && std::fabs(x) <= kLargest; }
};

template <typename R>
struct PowerOf : InDouble<R> {
  GPUKIT_ALWAYS_INLINE static double of(double x, double y) { return vector::pow_of<MathTerms<R>>(x, y); }
  GPUKIT_ALWAYS_INLINE static bool usual(double x, double y) {
    return x >= 0x1p-1022 && x <= std::numeric_limits<double>::max() && std::fabs(y) < 0x1p60;
  }
  GPUKIT_NEVER_INLINE static double rare(double x, double y) { return std::pow(static_cast<R>(x), static_cast<R>(y)); }
};

template <typename R>
struct Atan2Of : InDouble<R> {
  GPUKIT_ALWAYS_INLINE static double of(double y, double x) { return vector::atan2_of<MathTerms<R>>(y, x); }
  GPUKIT_ALWAYS_INLINE static bool usual(double y, double x) {
    return InDouble<R>::moderate(x) && InDouble<R>::moderate(y);
  }
  GPUKIT_NEVER_INLINE static double rare(double y, double x) {
    return std::atan2(static_cast<R>(y), static_cast<R>(x));
  }
};

template <typename R>
struct HypotOf : InDouble<R> {
  GPUKIT_ALWAYS_INLINE static double of(double x, double y) { return std::sqrt(std::fma(x, x, y * y)); }
  GPUKIT_ALWAYS_INLINE static bool usual(double x, double y) {
    return InDouble<R>::moderate(x) && InDouble<R>::moderate(y);
  }
  GPUKIT_NEVER_INLINE static double rare(double x, double y) {
    return std::hypot(static_cast<R>(x), static_cast<R>(y));
  }
};

template <typename R>
struct LogAddExpOf : InDouble<R> {
  GPUKIT_ALWAYS_INLINE static double of(double x, double y) { return vector::log_add_exp<MathTerms<R>>(x, y); }
  /// Not for infinities and NaN.
  GPUKIT_ALWAYS_INLINE static bool usual(double x, double y) {
    return std::fabs(x) <= InDouble<R>::kLargest && std::fabs(y) <= InDouble<R>::kLargest;
  }
  GPUKIT_NEVER_INLINE static double rare(double x, double y) {
    return LogAddExp::apply(static_cast<R>(x), static_cast<R>(y));
  }
};

}  // namespace

bool binary_math(BinaryOp op, DType dtype, const Array& out, const ElementInput& a, const ElementInput& b) {
  bool done = true;
  visit_floating(dtype, [&]<typename T>() {
    using R = compute_t<T>;
    switch (op) {
      case BinaryOp::remainder: return map_rows("remainder", out, {a, b}, math2_row<RemainderOf<R>, T>);
      case BinaryOp::floor_divide: return map_rows("floor_divide", out, {a, b}, math2_row<FloorDivideOf<R>, T>);
      case BinaryOp::power: return map_rows("power", out, {a, b}, math2_row<PowerOf<R>, T>);
      case BinaryOp::atan2: return map_rows("atan2", out, {a, b}, math2_row<Atan2Of<R>, T>);
      case BinaryOp::hypot: return map_rows("hypot", out, {a, b}, math2_row<HypotOf<R>, T>);
      case BinaryOp::logaddexp: return map_rows("logaddexp", out, {a, b}, math2_row<LogAddExpOf<R>, T>);
      default: done = false;
    }
  });
  return done;
}

}  // namespace gpukit::cpu
