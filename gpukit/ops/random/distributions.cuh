// Numbers of other distributions than the uniform and the normal one. Shared by host and device: every operation is
// rounded once and in one order, logarithms and powers are our own, so both give the same bits.
//
// Element i draws from blocks i of the offsets offset, offset + 1, ...: one for each attempt of a method that rejects.
// Everything that depends on the parameters alone was computed on the host.
#pragma once
#include "gpukit/ops/common/normal.cuh"
#include "gpukit/ops/common/philox.cuh"

namespace gpukit::random {

enum class Law : int32_t { exponential, gamma, beta, poisson, binomial, geometric };

/// Marsaglia and Tsang's constants of one gamma distribution: d = k - 1/3 and 1 / sqrt(9 d) for k = shape, or shape + 1
/// below 1, whose results are then multiplied by u^(1 / shape).
struct GammaShape {
  double d, c, power;  // power: 1 / shape below 1, else 0
};

/// Parameters as the methods use them; what each is stands beside its use.
/// Below it a float64 has a neighbour in int64.
constexpr double kNoLimit = 9e18;

struct Distribution {
  Law law = Law::exponential;
  bool by_search = false, flipped = false;
  double most = kNoLimit;  // whole numbers beyond it, the largest of the dtype, become it
  double scale = 1, count = 0, mean = 0, first = 0, ratio = 0;
  double a = 0, b = 0, centre = 0, squeeze = 0, alpha = 0, log_ratio = 0, mode = 0, base = 0;
  GammaShape x = {}, y = {};
};

/// Offsets that one gamma may use; the chance that it needs more is below 1e-80.
constexpr uint64_t kAttempts = 64;
constexpr uint64_t kOffsetsPerCall = 2 * kAttempts;

struct Source {
  uint64_t seed, offset, element;
  /// Two words of 64 bits.
  GPUKIT_DEVICE Words block(uint64_t attempt) const { return philox(seed, offset + attempt, element); }
};

/// In (0, 1), never 0 or 1.
GPUKIT_DEVICE double open_unit(uint64_t word) { return mul(add(static_cast<double>(word >> 12), 0.5), 0x1p-52); }

/// e^x; 0 below -708.
GPUKIT_DEVICE double natural_exp(double x) {
  constexpr double kSeries[] = {
      1.0 / 6227020800.0, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
      1.0 / 720,          1.0 / 120,       1.0 / 24,       1.0 / 6,       0.5,          1.0,         1.0};
  if (x < -708.0) return 0.0;
  if (x > 709.0) x = 709.0;
  const double turns = mul(x, 1.4426950408889634);
  const int64_t power = static_cast<int64_t>(turns < 0 ? add(turns, -0.5) : add(turns, 0.5));
  const double whole = static_cast<double>(power);
  const double rest = add(add(x, mul(whole, -0x1.62e42feep-1)), mul(whole, -1.9082149292705877e-10));
  return mul(polynomial(kSeries, rest), from_bits((power + 1023) << 52));
}

/// log(x!) of a whole x >= 0, by Stirling's series.
GPUKIT_DEVICE double log_factorial(double x) {
  constexpr double kSeries[] = {-691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12};
  double z = add(x, 1.0), product = 1.0;
  while (z < 8.0) {
    product = mul(product, z);
    z = add(z, 1.0);
  }
  const double inverse = div(1.0, z);
  const double tail = mul(polynomial(kSeries, mul(inverse, inverse)), inverse);
  const double main = add(mul(add(z, -0.5), natural_log(z)), -z);
  return add(add(add(main, 0.9189385332046728), tail), -natural_log(product));
}

GPUKIT_DEVICE double whole_below(double x) {
  const double cut = static_cast<double>(static_cast<int64_t>(x));
  return cut > x ? add(cut, -1.0) : cut;
}

/// The logarithm of a gamma number of scale 1, which cannot underflow.
GPUKIT_DEVICE double log_gamma_number(const GammaShape& shape, const Source& source, uint64_t start) {
  double log_value = natural_log(shape.d);
  for (uint64_t attempt = 0; attempt + 1 < kAttempts; ++attempt) {
    const Words words = source.block(start + attempt);
    const double x = standard_normal(Draws<uint64_t>::word(words, 0));
    const double base = add(1.0, mul(shape.c, x));
    if (!(base > 0.0)) continue;
    const double log_v = mul(3.0, natural_log(base));
    const double v = mul(mul(base, base), base);
    const double bound = add(mul(mul(0.5, x), x), mul(shape.d, add(add(1.0, -v), log_v)));
    if (natural_log(open_unit(Draws<uint64_t>::word(words, 1))) < bound) {
      log_value = add(natural_log(shape.d), log_v);
      break;
    }
  }
  if (shape.power == 0.0) return log_value;
  const uint64_t word = Draws<uint64_t>::word(source.block(start + kAttempts - 1), 0);
  return add(log_value, mul(natural_log(open_unit(word)), shape.power));
}

/// Poisson numbers of a small mean and binomial ones of few successes: probabilities added up until they pass u.
GPUKIT_DEVICE double by_search(const Distribution& d, double u) {
  double k = 0, term = d.first, sum = d.first;
  while (u > sum && k < d.count) {
    k = add(k, 1.0);
    // Poisson: mean / k. Binomial: (n - k + 1) / k * p / (1 - p).
    const double factor = d.law == Law::poisson ? d.mean : mul(add(add(d.count, 1.0), -k), d.ratio);
    term = mul(term, div(factor, k));
    if (term == 0.0) break;
    sum = add(sum, term);
  }
  return k;
}

/// Hoermann's transformed rejection with squeeze: PTRS of the Poisson, BTRS of the binomial distribution.
GPUKIT_DEVICE double by_rejection(const Distribution& d, const Source& source) {
  for (uint64_t attempt = 0; attempt < kOffsetsPerCall; ++attempt) {
    const Words words = source.block(attempt);
    const double u = add(open_unit(Draws<uint64_t>::word(words, 0)), -0.5);
    const double v = open_unit(Draws<uint64_t>::word(words, 1));
    const double distance = add(0.5, u < 0 ? u : -u);
    const double k = whole_below(add(mul(add(div(mul(2.0, d.a), distance), d.b), u), d.centre));
    if (k < 0.0 || k > d.count) continue;
    if (distance >= 0.07 && v <= d.squeeze) return k;
    if (d.law == Law::poisson && distance < 0.013 && v > distance) continue;
    const double hat = add(div(d.a, mul(distance, distance)), d.b);
    const double left = natural_log(div(mul(v, d.alpha), hat));
    double right = add(add(d.base, mul(add(k, -d.mode), d.log_ratio)), -log_factorial(k));
    if (d.law == Law::binomial) right = add(right, -log_factorial(add(d.count, -k)));
    if (left <= right) return k;
  }
  return whole_below(d.centre);
}

GPUKIT_DEVICE double at_most(double k, double most) { return k < most ? k : most; }

GPUKIT_DEVICE double draw(const Distribution& d, const Source& source) {
  switch (d.law) {
    case Law::exponential: return mul(d.scale, -natural_log(open_unit(Draws<uint64_t>::word(source.block(0), 0))));
    case Law::gamma: return mul(d.scale, natural_exp(log_gamma_number(d.x, source, 0)));
    case Law::beta: {
      const double x = log_gamma_number(d.x, source, 0), y = log_gamma_number(d.y, source, kAttempts);
      return div(1.0, add(1.0, natural_exp(add(y, -x))));
    }
    case Law::geometric: {
      const double u = open_unit(Draws<uint64_t>::word(source.block(0), 0));
      const double x = mul(natural_log(u), d.ratio);
      return at_most(x < kNoLimit ? add(whole_below(x), 1.0) : kNoLimit, d.most);
    }
    default: {
      const double k =
          d.by_search ? by_search(d, open_unit(Draws<uint64_t>::word(source.block(0), 0))) : by_rejection(d, source);
      return at_most(d.flipped ? add(d.count, -k) : k, d.most);
    }
  }
}

}  // namespace gpukit::random
