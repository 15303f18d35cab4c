// Resampling by a windowed sinc: result t is the sum of samples around t * down / up, each by the filter at its
// distance.
//
// Of small ratios the filter of every phase is in a table. Else it is read between the points of one curve, which
// serves all ratios.
#pragma once
#include "gpukit/ops/audio/gather.cuh"

namespace gpukit {

inline constexpr int kSincCrossings = 96;  // on each side
inline constexpr int kCurveSteps = 1024;   // points of the curve for each crossing
inline constexpr int kCurvePoints = kSincCrossings * kCurveSteps + 2;

/// The modified Bessel function of order 0, up to about 12.
GPUKIT_DEVICE double bessel_i0(double x) {
  const double quarter = 0.25 * x * x;
  double term = 1.0, sum = 1.0;
  for (int k = 1; k < 40; ++k) {
    term *= quarter / (static_cast<double>(k) * static_cast<double>(k));
    sum += term;
  }
  return sum;
}

/// The filter at `u` crossings of the lower half rate from its middle. A Kaiser window of 100 dB; the middle of its
/// slope lies at 0.965.
GPUKIT_DEVICE double sinc_filter(double u) {
  constexpr double kPi = 3.14159265358979323846, kBeta = 10.06, kCutoff = 0.965;
  if (u < 0) u = -u;
  if (u >= kSincCrossings) return 0.0;
  const double angle = kPi * kCutoff * u;
  const double sinc = angle == 0.0 ? 1.0 : ::sin(angle) / angle;
  const double edge = u / kSincCrossings;
  return kCutoff * sinc * bessel_i0(kBeta * ::sqrt(1.0 - edge * edge)) / bessel_i0(kBeta);
}

/// Element (phase, tap) of the table: the filter at tap - (reach - 1) - phase / up samples, or element i of the curve.
struct SincTable {
  using Value = float;
  struct Params {
    int64_t up, taps;  // up 0: the curve
    int64_t reach;
    int32_t phase_first;  // [up, taps], else [taps, up]
    double lower;         // the lower rate of the two over the input's
  };
  static GPUKIT_DEVICE float at(int64_t i, const float*, const float*, const float*, const Params& p) {
    if (p.up == 0) return static_cast<float>(sinc_filter(static_cast<double>(i) / kCurveSteps));
    const int64_t phase = p.phase_first ? i / p.taps : i % p.up, tap = p.phase_first ? i % p.taps : i / p.up;
    const double x = static_cast<double>(tap - (p.reach - 1)) - static_cast<double>(phase) / static_cast<double>(p.up);
    return static_cast<float>(p.lower * sinc_filter(x * p.lower));
  }
};

struct ResampleParams {
  int64_t n, length;  // of a row before and after
  int64_t up, down;
  int64_t reach, taps;
  float lower;
};

/// Where the samples of a result begin, and which of them there are.
struct ResampleSpan {
  int64_t row, first, phase, begin, end;
};
GPUKIT_DEVICE ResampleSpan resample_span(int64_t i, const ResampleParams& p) {
  const int64_t position = i % p.length * p.down;
  ResampleSpan span;
  span.row = i / p.length * p.n;
  span.first = position / p.up - (p.reach - 1);
  span.phase = position % p.up;
  span.begin = span.first < 0 ? -span.first : 0;
  span.end = p.n - span.first < p.taps ? p.n - span.first : p.taps;
  return span;
}

/// The filter `x` samples from its middle, by the curve.
GPUKIT_DEVICE float curve_at(const float* curve, float x, float lower) {
  const float u = (x < 0 ? -x : x) * lower * static_cast<float>(kCurveSteps);
  if (!(u < static_cast<float>(kCurvePoints - 2))) return 0.0f;
  const int at = static_cast<int>(u);
  const float part = u - static_cast<float>(at);
  return curve[at] + part * (curve[at + 1] - curve[at]);
}

/// Signal `a` by the table `b` [taps, up].
struct ResampleByTable {
  using Value = float;
  using Params = ResampleParams;
#ifdef __CUDACC_RTC__
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const ResampleSpan span = resample_span(i, p);
    const float* x = a + span.row + span.first;
    const float* filter = b + span.phase;
    float sum = 0.0f;
    for (int64_t k = span.begin; k < span.end; ++k) sum = fmaf(x[k], filter[k * p.up], sum);
    return sum;
  }
#endif
};

/// Signal `a` by the curve `b`.
struct ResampleByCurve {
  using Value = float;
  using Params = ResampleParams;
#ifdef __CUDACC_RTC__
  static GPUKIT_DEVICE float at(int64_t i, const float* a, const float* b, const float*, const Params& p) {
    const ResampleSpan span = resample_span(i, p);
    const float* x = a + span.row + span.first;
    const float part = static_cast<float>(static_cast<double>(span.phase) / static_cast<double>(p.up));
    float sum = 0.0f;
    for (int64_t k = span.begin; k < span.end; ++k)
      sum = fmaf(x[k], curve_at(b, static_cast<float>(k - (p.reach - 1)) - part, p.lower), sum);
    return sum * p.lower;
  }
#endif
};

}  // namespace gpukit
