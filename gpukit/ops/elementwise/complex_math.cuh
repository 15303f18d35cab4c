// Functions of complex numbers, written once for kernels and CPU loops. All is computed in double, so that complex64
// results are exact to an ulp of each part. Infinities, NaN and signed zeros go as in Annex G of the C standard.
#pragma once
#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/codes.cuh"

namespace gpukit {

using Complex = complex<double>;

inline constexpr double kPiDouble = 3.14159265358979323846;
inline constexpr double kLn2Double = 0.69314718055994530942;
/// Beyond it squares overflow; there sqrt(1 + z^2) is z.
inline constexpr double kFarAway = 1e150;

GPUKIT_DEVICE bool is_finite(double x) { return x - x == 0; }
GPUKIT_DEVICE bool is_nan(double x) { return x != x; }
GPUKIT_DEVICE bool is_infinite(double x) { return x == x && !is_finite(x); }
GPUKIT_DEVICE double larger(double x, double y) { return x < y || y != y ? y : x; }
/// NaN, for an x that is not finite.
GPUKIT_DEVICE double nan_of(double x) { return x - x; }
GPUKIT_DEVICE Complex conj_of(Complex z) { return {z.re, -z.im}; }
GPUKIT_DEVICE Complex times_i(Complex z) { return {-z.im, z.re}; }
GPUKIT_DEVICE Complex times_minus_i(Complex z) { return {z.im, -z.re}; }

/// e^x * (cos y, sin y) * factor for finite y; e^x alone may overflow.
GPUKIT_DEVICE Complex scaled_turn(double x, double y, double factor) {
  const double c = cos(y), s = sin(y);
  if (x > 700 && is_finite(x)) {
    const double half = exp(0.5 * x);
    return {factor * half * c * half, factor * half * s * half};
  }
  const double e = factor * exp(x);
  return {e * c, e * s};
}

GPUKIT_DEVICE Complex exp_of(Complex z) {
  if (z.im == 0) return {exp(z.re), z.im};
  if (is_finite(z.im)) return scaled_turn(z.re, z.im, 1);
  if (is_infinite(z.re)) return z.re < 0 ? Complex{0, 0} : Complex{z.re, nan_of(z.im)};
  return {nan_of(z.im), nan_of(z.im)};
}

GPUKIT_DEVICE Complex expm1_of(Complex z) {
  if (z.im == 0) return {expm1(z.re), z.im};
  if (!is_finite(z.im)) {
    if (is_infinite(z.re)) return z.re < 0 ? Complex{-1, 0} : Complex{z.re, nan_of(z.im)};
    return {nan_of(z.im), nan_of(z.im)};
  }
  const Complex e = scaled_turn(z.re, z.im, 1);
  if (z.re < -40) return {e.re - 1, e.im};
  if (z.re > 40 || is_nan(z.re)) return e;
  const double s = sin(0.5 * z.im);
  return {expm1(z.re) * cos(z.im) - 2 * s * s, e.im};
}

/// log|z|
GPUKIT_DEVICE double log_abs(double x, double y) {
  x = fabs(x);
  y = fabs(y);
  const double a = larger(x, y), b = x < y ? x : y;
  if (is_infinite(x) || is_infinite(y)) return larger(is_infinite(x) ? x : y, 0);
  if (a > 0.5 && a < 2) return 0.5 * log1p((a - 1) * (a + 1) + b * b);
  if (a > 1e300) return log(hypot(0.5 * x, 0.5 * y)) + kLn2Double;
  return log(hypot(x, y));
}

GPUKIT_DEVICE Complex log_of(Complex z) { return {log_abs(z.re, z.im), atan2(z.im, z.re)}; }

GPUKIT_DEVICE Complex log1p_of(Complex z) {
  if (fabs(z.re) < 0.5 && fabs(z.im) < 0.5)
    return {0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), atan2(z.im, 1 + z.re)};
  return log_of({1 + z.re, z.im});
}

GPUKIT_DEVICE Complex sqrt_of(Complex z) {
  double x = z.re, y = z.im;
  if (x == 0 && y == 0) return {0, y};
  if (is_infinite(y)) return {fabs(y), y};
  if (is_nan(x)) return {x, x};
  if (is_infinite(x)) {
    const double other = is_nan(y) ? y : 0;
    return x > 0 ? Complex{x, copysign(other, y)} : Complex{fabs(other), copysign(x, y)};
  }
  double scale = 1;
  const double size = larger(fabs(x), fabs(y));
  if (size > 0x1p1020) {
    x *= 0.25, y *= 0.25, scale = 2;
  } else if (size < 0x1p-960) {
    x *= 0x1p108, y *= 0x1p108, scale = 0x1p-54;
  }
  const double t = sqrt(0.5 * (fabs(x) + hypot(x, y)));
  if (x >= 0) return {scale * t, scale * (y / (2 * t))};
  return {scale * (fabs(y) / (2 * t)), scale * copysign(t, y)};
}

GPUKIT_DEVICE Complex sinh_of(Complex z) {
  if (z.im == 0) return {sinh(z.re), z.im};
  if (!is_finite(z.im)) {
    if (z.re == 0) return {z.re, nan_of(z.im)};
    return {is_infinite(z.re) ? z.re : nan_of(z.im), nan_of(z.im)};
  }
  if (fabs(z.re) > 40) {
    const Complex e = scaled_turn(fabs(z.re), z.im, 0.5);
    return {z.re < 0 ? -e.re : e.re, e.im};
  }
  return {sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im)};
}

GPUKIT_DEVICE Complex cosh_of(Complex z) {
  const double zero = copysign(0.0, z.re) * copysign(1.0, z.im);
  if (z.im == 0) return {cosh(z.re), zero};
  if (!is_finite(z.im)) {
    if (z.re == 0) return {nan_of(z.im), zero};
    return {is_infinite(z.re) ? fabs(z.re) : nan_of(z.im), nan_of(z.im)};
  }
  if (fabs(z.re) > 40) {
    const Complex e = scaled_turn(fabs(z.re), z.im, 0.5);
    return {e.re, z.re < 0 ? -e.im : e.im};
  }
  return {cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im)};
}

GPUKIT_DEVICE Complex tanh_of(Complex z) {
  if (z.im == 0) return {tanh(z.re), z.im};
  if (is_infinite(z.re)) return {copysign(1.0, z.re), copysign(0.0, is_finite(z.im) ? sin(2 * z.im) : z.im)};
  if (!is_finite(z.im)) return {z.re == 0 ? z.re : nan_of(z.im), nan_of(z.im)};
  if (fabs(z.re) > 20) {
    const double e = exp(-fabs(z.re));
    return {copysign(1.0, z.re), 4 * sin(z.im) * cos(z.im) * e * e};
  }
  const double t = tan(z.im), s = sinh(z.re), rho = sqrt(1 + s * s);
  const double beta = 1 + t * t, below = 1 + beta * s * s;
  return {beta * rho * s / below, t / below};
}

/// The inverse functions far from 0: log(2z).
GPUKIT_DEVICE double log_twice_abs(Complex z) { return log_abs(z.re, z.im) + kLn2Double; }
GPUKIT_DEVICE bool is_far(Complex z) { return fabs(z.re) > kFarAway || fabs(z.im) > kFarAway; }

GPUKIT_DEVICE Complex asin_of(Complex z) {
  if (is_far(z)) return {atan2(z.re, fabs(z.im)), copysign(log_twice_abs(z), z.im)};
  if (z.re == 0 && is_nan(z.im)) return z;
  const Complex minus = sqrt_of({1 - z.re, -z.im}), plus = sqrt_of({1 + z.re, z.im});
  const Complex product = Multiply::apply(minus, plus);
  return {atan2(z.re, product.re), asinh(Multiply::apply(conj_of(minus), plus).im)};
}

GPUKIT_DEVICE Complex acos_of(Complex z) {
  if (is_far(z)) return {atan2(fabs(z.im), z.re), -copysign(log_twice_abs(z), z.im)};
  if (z.re == 0 && is_nan(z.im)) return {0.5 * kPiDouble, z.im};
  const Complex minus = sqrt_of({1 - z.re, -z.im}), plus = sqrt_of({1 + z.re, z.im});
  return {2 * atan2(minus.re, plus.re), asinh(Multiply::apply(conj_of(plus), minus).im)};
}

GPUKIT_DEVICE Complex acosh_of(Complex z) {
  if (is_far(z)) return {log_twice_abs(z), atan2(z.im, z.re)};
  if (z.re == 0 && is_nan(z.im)) return {z.im, 0.5 * kPiDouble};
  const Complex minus = sqrt_of({z.re - 1, z.im}), plus = sqrt_of({z.re + 1, z.im});
  return {asinh(Multiply::apply(conj_of(minus), plus).re), 2 * atan2(minus.im, plus.re)};
}

GPUKIT_DEVICE Complex atanh_of(Complex z) {
  if (is_far(z) || is_infinite(z.im) || is_infinite(z.re)) {
    // 1 / z, whose imaginary part is beyond what pi / 2 can show.
    const double x = fabs(z.re), y = fabs(z.im);
    const double ratio =
        is_finite(x) && is_finite(y) ? (x < y ? x / y / y / (1 + x / y * (x / y)) : 1 / x / (1 + y / x * (y / x))) : 0;
    return {copysign(ratio, z.re), is_nan(z.im) ? z.im : copysign(0.5 * kPiDouble, z.im)};
  }
  if (z.re == 0 && is_nan(z.im)) return z;
  const double apart = 1 - z.re, y2 = z.im * z.im;
  if (z.im == 0 && fabs(z.re) == 1) return {copysign(1.0 / fabs(apart * (1 + z.re)), z.re), z.im};
  const double x = fabs(z.re);
  const double re = 0.25 * log1p(4 * x / ((1 - x) * (1 - x) + y2));
  return {copysign(re, z.re), 0.5 * atan2(2 * z.im, apart * (1 + z.re) - y2)};
}

GPUKIT_DEVICE Complex atan_of(Complex z) {
  // Turning z would lose the sign of a NaN on some chips.
  if (is_infinite(z.re) && is_nan(z.im)) return {copysign(0.5 * kPiDouble, z.re), copysign(0.0, z.im)};
  return times_minus_i(atanh_of(times_i(z)));
}

GPUKIT_DEVICE Complex sign_of(Complex z) {
  if (z.re == 0 && z.im == 0) return {0, 0};
  double size = hypot(z.re, z.im);
  if (is_infinite(size) && is_finite(z.re) && is_finite(z.im)) {
    z = {0.25 * z.re, 0.25 * z.im};
    size = hypot(z.re, z.im);
  }
  const Complex unit{z.re / size, z.im / size};
  const double any = unit.re + unit.im;
  return is_nan(any) ? Complex{any, any} : unit;
}

GPUKIT_DEVICE Complex scaled(Complex z, double factor) { return {z.re * factor, z.im * factor}; }

GPUKIT_DEVICE Complex complex_function(UnaryOp op, Complex z) {
  switch (op) {
    case UnaryOp::exp: return exp_of(z);
    case UnaryOp::expm1: return expm1_of(z);
    case UnaryOp::log: return log_of(z);
    case UnaryOp::log1p: return log1p_of(z);
    case UnaryOp::log2: return scaled(log_of(z), 1.44269504088896340736);
    case UnaryOp::log10: return scaled(log_of(z), 0.43429448190325182765);
    case UnaryOp::sqrt: return sqrt_of(z);
    case UnaryOp::sin: return times_minus_i(sinh_of(times_i(z)));
    case UnaryOp::cos: return cosh_of(times_i(z));
    case UnaryOp::tan: return times_minus_i(tanh_of(times_i(z)));
    case UnaryOp::asin: return asin_of(z);
    case UnaryOp::acos: return acos_of(z);
    case UnaryOp::atan: return atan_of(z);
    case UnaryOp::sinh: return sinh_of(z);
    case UnaryOp::cosh: return cosh_of(z);
    case UnaryOp::tanh: return tanh_of(z);
    case UnaryOp::asinh: return times_minus_i(asin_of(times_i(z)));
    case UnaryOp::acosh: return acosh_of(z);
    case UnaryOp::atanh: return atanh_of(z);
    case UnaryOp::sign: return sign_of(z);
    case UnaryOp::round: return {rint(z.re), rint(z.im)};
    default: return conj_of(z);
  }
}

/// Small whole exponents by products, others by exp(b log a). 0 to a power whose real part is positive is 0.
GPUKIT_DEVICE Complex complex_power(Complex a, Complex b) {
  if (b.re == 0 && b.im == 0) return {1, 0};
  if (a.re == 0 && a.im == 0) return b.re > 0 ? Complex{0, 0} : Complex{a.re / a.re, a.re / a.re};
  if (b.im == 0 && b.re == rint(b.re) && fabs(b.re) <= 64) {
    Complex power = {1, 0}, base = a;
    for (int n = static_cast<int>(fabs(b.re)); n != 0; n >>= 1) {
      if ((n & 1) != 0) power = Multiply::apply(power, base);
      base = Multiply::apply(base, base);
    }
    return b.re < 0 ? Divide::apply(Complex{1, 0}, power) : power;
  }
  return exp_of(Multiply::apply(b, log_of(a)));
}

}  // namespace gpukit
