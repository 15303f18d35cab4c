// Functions of floats without branches, so that a loop over them becomes wide registers. Computed in double: with
// `Full` terms they are good to a few units in the last place of a double, with `Short` ones to about 2^-29, which
// rounds to a float. std::fma is one instruction where registers are wide, and the same bits elsewhere.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "gpukit/ops/common/levels.h"
#include "gpukit/ops/common/vector_terms.h"

namespace gpukit::cpu::vector {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1, kLn2Low = 0x1.abc9e3b39803fp-56;
inline constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54,
                        kHalfPiLeast = -0x1.f1976b7ed8fbcp-110;

template <typename R>
GPUKIT_ALWAYS_INLINE R pick(bool condition, R yes, R no) {
  return condition ? yes : no;
}

/// terms[0] + terms[1] z + ...
template <int kCount>
GPUKIT_ALWAYS_INLINE double polynomial(const double (&terms)[kCount], double z) {
  double p = terms[kCount - 1];
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) p = std::fma(p, z, terms[i]);
  return p;
}

/// To the nearest integer, for |x| < 2^51; the low bits of x + kShift are that integer.
inline constexpr double kShift = 0x1.8p52;

/// 2^n for -1022 <= n <= 1023, n an integer.
GPUKIT_ALWAYS_INLINE double power_of_two(double n) {
  return std::bit_cast<double>((std::bit_cast<uint64_t>(n + (kShift + 1023.0))) << 52);
}

/// exp(x) = 2^n (1 + q), |x| < 2^10.
struct ExpParts {
  double n, q;
};
template <typename P>
GPUKIT_ALWAYS_INLINE ExpParts exp_parts(double x) {
  const double n = std::fma(x, 0x1.71547652b82fep+0, kShift) - kShift;
  double r = std::fma(n, -kLn2, x);
  if constexpr (P::kFull) r = std::fma(n, -kLn2Low, r);
  return {n, std::fma(r * r, polynomial(P::kExp, r), r)};
}

template <typename P>
GPUKIT_ALWAYS_INLINE double exp_of(double x) {
  if constexpr (P::kFull) {
    x = pick(x < -746.0, -746.0, x);
    x = pick(x > 710.0, 710.0, x);
    const auto [n, q] = exp_parts<P>(x);
    // In two factors: 2^n may be subnormal or too large, the product right.
    const double half = std::fma(n, 0.5, kShift) - kShift;
    return (1.0 + q) * power_of_two(half) * power_of_two(n - half);
  } else {
    x = pick(x < -120.0, -120.0, x);
    x = pick(x > 120.0, 120.0, x);
    const auto [n, q] = exp_parts<P>(x);
    return (1.0 + q) * power_of_two(n);
  }
}

/// (exp(x) - 1) / 2: no overflow before exp(x) / 2 has it twice over.
template <typename P>
GPUKIT_ALWAYS_INLINE double half_expm1(double x) {
  x = pick(x < -40.0, -40.0, x);
  x = pick(x > 710.5, 710.5, x);
  const auto [n, q] = exp_parts<P>(x);
  const double quarter = power_of_two(n - 2.0);
  return 2.0 * std::fma(quarter, q, quarter - 0.25);
}

template <typename P>
GPUKIT_ALWAYS_INLINE double expm1_of(double x) {
  return pick(x == 0.0, x, 2.0 * half_expm1<P>(x));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double sinh_of(double x) {
  const double h = half_expm1<P>(std::fabs(x));
  const double value = pick(h > 1e16, h, h + h / std::fma(2.0, h, 1.0));
  return std::copysign(value, x);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double cosh_of(double x) {
  const double e = half_expm1<P>(std::fabs(x)) + 0.5;
  return e + 0.25 / e;
}
template <typename P>
GPUKIT_ALWAYS_INLINE double tanh_of(double x) {
  const double a = 2.0 * std::fabs(x);
  const double h = half_expm1<P>(pick(a > 44.0, 44.0, a));
  return std::copysign(h / (h + 1.0), x);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double sigmoid_of(double x) {
  return 1.0 / (1.0 + exp_of<P>(-x));
}

/// x = 2^k (1 + f), 1 + f between sqrt(1/2) and sqrt(2), for normal x > 0.
struct LogParts {
  double k, f;
};
GPUKIT_ALWAYS_INLINE LogParts log_parts(double x) {
  constexpr uint64_t kBias = uint64_t{1024} << 52;
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t above = bits - 0x3fe6a09e667f3bcdu + kBias;  // over sqrt(1/2)
  const double k = std::bit_cast<double>((above >> 52) | 0x4330000000000000u) - (0x1p52 + 1024.0);
  const double m = std::bit_cast<double>(bits - ((above & 0xfff0000000000000u) - kBias));
  return {k, m - 1.0};
}
/// log(1 + f) without f - f^2 / 2: what is left is small beside it.
template <typename P>
GPUKIT_ALWAYS_INLINE double log_rest(double f, double half_square) {
  const double s = f / (2.0 + f), z = s * s;
  return s * std::fma(z, polynomial(P::kLog, z), half_square);
}
/// k log(2) + log(1 + f) + more, more small.
template <typename P>
GPUKIT_ALWAYS_INLINE double log_sum(double k, double f, double more) {
  const double half_square = 0.5 * f * f;
  const double rest = log_rest<P>(f, half_square) + std::fma(k, kLn2Low, more);
  return std::fma(k, kLn2, f - (half_square - rest));
}
/// What log gives where x is no number above zero; `value` elsewhere.
GPUKIT_ALWAYS_INLINE double log_edges(double x, double value) {
  value = pick(x == kInfinity, x, value);
  value = pick(x == 0.0, -kInfinity, value);
  value = pick(x < 0.0, kNan, value);
  return pick(x != x, x, value);
}
template <typename P>
GPUKIT_ALWAYS_INLINE LogParts log_start(double x) {
  if constexpr (!P::kFull) return log_parts(x);
  const bool small = x < 0x1p-1022;
  auto [k, f] = log_parts(pick(small, x * 0x1p54, x));
  return {k - pick(small, 54.0, 0.0), f};
}
template <typename P>
GPUKIT_ALWAYS_INLINE double log_of(double x) {
  const auto [k, f] = log_start<P>(x);
  return log_edges(x, log_sum<P>(k, f, 0.0));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double log2_of(double x) {
  const auto [k, f] = log_start<P>(x);
  const double part = log_sum<P>(0.0, f, 0.0);
  return log_edges(x, k + std::fma(part, 0x1.71547652b82fep+0, part * 0x1.777d0ffda0d24p-56));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double log10_of(double x) {
  const auto [k, f] = log_start<P>(x);
  const double part = log_sum<P>(0.0, f, 0.0);
  const double rest = std::fma(k, -0x1.9dc1da994fd21p-59, part * 0x1.95355baaafad3p-57);
  return log_edges(x, std::fma(k, 0x1.34413509f79ffp-2, std::fma(part, 0x1.bcb7b1526e50ep-2, rest)));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double log1p_of(double x) {
  const double u = 1.0 + x, back = u - 1.0;
  const double lost = (1.0 - (u - back)) + (x - back);
  const auto [k, f] = log_parts(u);
  const bool near = k == 0.0;
  const double value = log_sum<P>(k, pick(near, x, f), pick(near, 0.0, lost / u));
  return pick(x == 0.0, x, log_edges(u, value));
}

// asinh, acosh and atanh by log1p; a far argument has log(2 a).
template <typename P>
GPUKIT_ALWAYS_INLINE double asinh_of(double x) {
  const double a = std::fabs(x);
  const bool far = a > 0x1p30;
  const double t = pick(far, a - 1.0, a + a * a / (1.0 + std::sqrt(std::fma(a, a, 1.0))));
  return std::copysign(log1p_of<P>(t) + pick(far, kLn2, 0.0), x);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double acosh_of(double x) {
  const double t = pick(x < 1.0, kNan, x - 1.0);
  const bool far = x > 0x1p30;
  return log1p_of<P>(pick(far, t, t + std::sqrt(std::fma(t, t, 2.0 * t)))) + pick(far, kLn2, 0.0);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double atanh_of(double x) {
  const double a = std::fabs(x);
  return std::copysign(0.5 * log1p_of<P>(2.0 * a / (1.0 - a)), x);
}

/// Farther out the remainder by pi / 2 has too few bits.
inline constexpr double kMostAngle = 0x1p30;

/// The remainder by pi / 2, its sine and cosine, and how many quarters were taken off.
struct Angle {
  double sine, cosine;
  uint64_t quarters;
};
template <typename P>
GPUKIT_ALWAYS_INLINE Angle angle_of(double x) {
  const double shifted = std::fma(x, 0x1.45f306dc9c883p-1, kShift), n = shifted - kShift;
  double r = std::fma(n, -kHalfPi, x);
  double low = 0.0;
  if constexpr (P::kFull) {
    const double d = r;
    r = std::fma(n, -kHalfPiLow, d);
    low = std::fma(n, -kHalfPiLow, d - r) - n * kHalfPiLeast;
  } else {
    r = std::fma(n, -kHalfPiLow, r);
  }
  const double z = r * r, cube = z * r;
  const double sine = r + std::fma(cube, polynomial(P::kSin, z), low);
  const double half = 0.5 * z, one = 1.0 - half;
  const double cosine = one + (((1.0 - one) - half) + std::fma(z * z, polynomial(P::kCos, z), -r * low));
  return {sine, cosine, std::bit_cast<uint64_t>(shifted)};
}
GPUKIT_ALWAYS_INLINE double with_sign_bit(double x, uint64_t bit) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) ^ (bit << 63));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double sin_of(double x) {
  const Angle a = angle_of<P>(x);
  const double value = pick((a.quarters & 1) != 0, a.cosine, a.sine);
  return pick(x == 0.0, x, with_sign_bit(value, a.quarters >> 1 & 1));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double cos_of(double x) {
  const Angle a = angle_of<P>(x);
  const double value = pick((a.quarters & 1) != 0, a.sine, a.cosine);
  return with_sign_bit(value, (a.quarters + 1) >> 1 & 1);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double tan_of(double x) {
  const Angle a = angle_of<P>(x);
  const bool odd = (a.quarters & 1) != 0;
  const double value = pick(odd, -a.cosine, a.sine) / pick(odd, a.sine, a.cosine);
  return pick(x == 0.0, x, value);
}

/// The angle of (b, a), both at least 0 and not both 0.
template <typename P>
GPUKIT_ALWAYS_INLINE double first_quadrant(double a, double b) {
  const bool steep = a > 2.414213562373095 * b, middle = a > 0.41421356237309503 * b;
  const double top = pick(steep, -b, pick(middle, a - b, a)), bottom = pick(steep, a, pick(middle, a + b, b));
  const double t = top / bottom, z = t * t;
  const double base = pick(steep, kHalfPi, pick(middle, 0.5 * kHalfPi, 0.0));
  const double low = pick(steep, kHalfPiLow, pick(middle, 0.5 * kHalfPiLow, 0.0));
  return base + (t + std::fma(t * z, polynomial(P::kAtan, z), low));
}
template <typename P>
GPUKIT_ALWAYS_INLINE double atan_of(double x) {
  const double a = std::fabs(x);
  return std::copysign(pick(a > 0x1p60, kHalfPi, first_quadrant<P>(a, 1.0)), x);
}
/// For finite y and x that are not 0, whose quotient is normal.
template <typename P>
GPUKIT_ALWAYS_INLINE double atan2_of(double y, double x) {
  const double angle = first_quadrant<P>(std::fabs(y), std::fabs(x));
  const double turned = 2.0 * kHalfPi - (angle - 2.0 * kHalfPiLow);
  return std::copysign(pick(x < 0.0, turned, angle), y);
}

/// asin(v) - v over v, of z = v^2 <= 1/4.
template <typename P>
GPUKIT_ALWAYS_INLINE double asin_rest(double z) {
  return z * polynomial(P::kAsin, z);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double asin_of(double x) {
  const double a = std::fabs(x);
  const bool far = a > 0.5;
  const double z = pick(far, 0.5 * (1.0 - a), a * a), v = pick(far, std::sqrt(z), a);
  const double near = std::fma(v, asin_rest<P>(z), v);
  return std::copysign(pick(far, kHalfPi - std::fma(2.0, near, -kHalfPiLow), near), x);
}
template <typename P>
GPUKIT_ALWAYS_INLINE double acos_of(double x) {
  const double a = std::fabs(x);
  const bool far = a > 0.5;
  const double z = pick(far, 0.5 * (1.0 - a), a * a), v = pick(far, std::sqrt(z), a);
  const double near = std::fma(v, asin_rest<P>(z), v);
  const double outer = pick(x < 0.0, 2.0 * kHalfPi - std::fma(2.0, near, -2.0 * kHalfPiLow), 2.0 * near);
  return pick(far, outer, kHalfPi - (std::copysign(near, x) - kHalfPiLow));
}

/// 2^(high + low), |high| < 2^50 and low small beside it.
template <typename P>
GPUKIT_ALWAYS_INLINE double exp2_of(double high, double low) {
  low = pick(std::fabs(high) > 1100.0, 0.0, low);
  high = pick(high < -1100.0, -1100.0, high);
  high = pick(high > 1100.0, 1100.0, high);
  const double n = (high + kShift) - kShift;
  const double r = ((high - n) + low) * kLn2;
  const double q = std::fma(r * r, polynomial(P::kExp, r), r);
  const double half = std::fma(n, 0.5, kShift) - kShift;
  return (1.0 + q) * power_of_two(half) * power_of_two(n - half);
}
/// x^y for normal x > 0 and |y| < 2^60. Logarithms of doubles are carried with 64 bits.
template <typename P>
GPUKIT_ALWAYS_INLINE double pow_of(double x, double y) {
  const auto [k, f] = log_parts(x);
  if constexpr (!P::kFull) {
    const double log2 = std::fma(log_sum<Full>(0.0, f, 0.0), 0x1.71547652b82fep+0, k);
    return exp2_of<P>(y * log2, 0.0);
  } else {
    // log(1 + f) = s (2 + w), s = f / (2 + f), w = z (2/3 + z (2/5 + ...)), each a sum of two doubles.
    const double d = 2.0 + f, d_low = f - (d - 2.0);
    const double s = f / d, s_low = (std::fma(-s, d, f) - s * d_low) / d;
    const double z = s * s, z_low = std::fma(s, s, -z) + 2.0 * s * s_low;
    const double tail = z * polynomial(P::kLogTail, z);
    const double u = 0x1.5555555555555p-1 + tail;
    const double u_low = ((0x1.5555555555555p-1 - u) + tail) + 0x1.5555555555555p-55;
    const double w = z * u, w_low = std::fma(z, u, -w) + std::fma(z, u_low, z_low * u);
    const double v = 2.0 + w, v_low = ((2.0 - v) + w) + w_low;
    const double l = s * v, l_low = std::fma(s, v, -l) + std::fma(s, v_low, s_low * v);
    constexpr double kLog2e = 0x1.71547652b82fep+0, kLog2eLow = 0x1.777d0ffda0d24p-56;
    const double m = l * kLog2e, m_low = std::fma(l, kLog2e, -m) + std::fma(l, kLog2eLow, l_low * kLog2e);
    const double t = k + m, t_low = ((k - t) + m) + m_low;
    const double high = y * t;
    return exp2_of<P>(high, std::fma(y, t, -high) + y * t_low);
  }
}
/// log(exp(a) + exp(b)) of finite numbers.
template <typename P>
GPUKIT_ALWAYS_INLINE double log_add_exp(double a, double b) {
  return pick(a > b, a, b) + log1p_of<P>(exp_of<P>(-std::fabs(a - b)));
}

}  // namespace gpukit::cpu::vector
