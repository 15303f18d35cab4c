// The normal quantile in our own arithmetic: additions, products, quotients and roots, each rounded to nearest, in one
// order. Host and device give the same bits. Largest relative error against the true quantile of the drawn probability:
// 3e-7 in float32, 6e-16 in float64 (random_test.cpp measures it).
#pragma once
#include "gpukit/ops/common/rounded.cuh"

namespace gpukit::random {

using namespace rounded;

/// log(x) of a normal x > 0: x = 2^e m with m near 1, log m = 2 atanh((m - 1) / (m + 1)) by its series.
GPUKIT_DEVICE float natural_log(float x) {
  constexpr float kSeries[] = {1.0f / 11, 1.0f / 9, 1.0f / 7, 1.0f / 5, 1.0f / 3};
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const int32_t exponent = (bits_of(x) - kRootHalf) >> 23;
  const float m = from_bits(bits_of(x) - exponent * (1 << 23));
  const float s = div(add(m, -1.0f), add(m, 1.0f));
  const float s2 = mul(s, s);
  const float tail = mul(mul(s, s2), polynomial(kSeries, s2));
  return add(mul(static_cast<float>(exponent), 0.693147181f), mul(2.0f, add(s, tail)));
}
GPUKIT_DEVICE double natural_log(double x) {
  constexpr double kSeries[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  constexpr int64_t kRootHalf = 0x3fe6a09e667f3bcd;
  const int64_t exponent = (bits_of(x) - kRootHalf) >> 52;
  const double m = from_bits(bits_of(x) - exponent * (int64_t{1} << 52));
  const double s = div(add(m, -1.0), add(m, 1.0));
  const double s2 = mul(s, s);
  const double tail = mul(mul(s, s2), polynomial(kSeries, s2));
  return add(mul(static_cast<double>(exponent), 0.6931471805599453), mul(2.0, add(s, tail)));
}

// With p the smaller tail and q = 1/2 - p, quantile / q is smooth in w = -log(4 p (1 - p)) near the middle and in
// sqrt(w) further out. The polynomials below interpolate it at Chebyshev nodes; their own errors are below 2e-8 and
// 1e-17.

GPUKIT_DEVICE float quantile_central(float w) {
  constexpr float kCoefficients[] = {6.668097e-12f,  1.8884774e-09f,  -1.3188468e-08f, -7.043508e-08f,
                                     1.2051963e-06f, -3.9213223e-06f, -3.928214e-05f,  0.00052829884f,
                                     -0.0020950097f, -0.01706591f,    0.6792699f,      4.6772413f};
  return polynomial(kCoefficients, add(w, -3.125f));
}
GPUKIT_DEVICE float quantile_tail(float s) {
  constexpr float kCoefficients[] = {-2.8747796e-05f, 1.2267921e-05f, 0.00020715815f, -0.00050137844f,
                                     0.00074284466f,  -0.0011552873f, 0.0021391807f,  -0.004555932f,
                                     0.00733636f,     2.8513355f,     9.790471f};
  return polynomial(kCoefficients, add(s, -3.625f));
}
GPUKIT_DEVICE double quantile_central(double w) {
  constexpr double kCoefficients[] = {
      -1.0163112526435007e-21, 9.0340402132097e-21,     5.654761181915731e-20,   -9.824483320680918e-19,
      1.718283818995e-18,      4.387113070496915e-17,   -3.4551039581054353e-16, -1.11445349617283e-16,
      1.844511659344925e-14,   -1.1319374146123621e-13, -2.283085427478179e-13,  7.440253441907065e-12,
      -3.6709605155118776e-11, -1.53139622698403e-10,   2.973308713816725e-09,   -1.1632360335342971e-08,
      -8.22234832110089e-08,   1.1977789722554636e-06,  -3.862130055059762e-06,  -3.9265705727392884e-05,
      0.0005281640990812335,   -0.002095023138971234,   -0.017065798354534686,   0.6792699174022778,
      4.677241420053186};
  return polynomial(kCoefficients, add(w, -3.125));
}
GPUKIT_DEVICE double quantile_middle(double s) {
  constexpr double kCoefficients[] = {2.172288735851022e-08,  -4.3290202756844185e-08, -5.9155233422131834e-08,
                                      3.721832128695559e-07,  -6.943737386351875e-07,  -7.811313078293476e-08,
                                      4.190591369852474e-06,  -1.1273278807933458e-05, 8.294584448658209e-06,
                                      3.5256423940103484e-05, -0.0001338430967556028,  0.00019314513510372964,
                                      6.797138283819798e-05,  -0.0010041985828207743,  0.00269630943145465,
                                      -0.004775164318508941,  0.007046862409596021,    -0.01061001989524153,
                                      0.015191240407969129,   2.8433017316205316,      8.72254571033066};
  return polynomial(kCoefficients, add(s, -3.25));
}
GPUKIT_DEVICE double quantile_tail(double s) {
  constexpr double kCoefficients[] = {-1.3465225900531013e-12, 4.156677022455832e-12,   3.953371640045219e-12,
                                      -3.541182164882028e-11,  9.623140552884345e-11,   -2.711807314037458e-10,
                                      7.294399261877006e-10,   -1.5868627499586371e-09, 3.051207845232982e-09,
                                      -6.214979688023302e-09,  1.6921848004822726e-08,  -6.753961395268001e-08,
                                      3.2905684992025435e-07,  -1.6564217634686845e-06, 8.059177761527017e-06,
                                      -3.650070619543644e-05,  0.00014409095207997314,  -0.0003869053811029647,
                                      -0.0008519146125818728,  2.857161628971358,       14.610539723690186};
  return polynomial(kCoefficients, add(s, -5.3125));
}

/// The standard normal number of one random word. The top bit is the sign; the rest, 2k + 1, gives p = (2k + 1) / 2^33.
GPUKIT_DEVICE float standard_normal(uint32_t word) {
  const uint32_t odd = (word << 1) | 1u;
  const float p = mul(static_cast<float>(odd), 0x1p-33f);
  const float q = mul(static_cast<float>(0u - odd), 0x1p-33f);
  const float w = -natural_log(mul(mul(4.0f, p), add(1.0f, -p)));
  const float z = mul(q, w < 6.25f ? quantile_central(w) : quantile_tail(root(w)));
  return (word >> 31) != 0 ? -z : z;
}
GPUKIT_DEVICE double standard_normal(uint64_t word) {
  const uint64_t odd = (word << 1) | 1u;
  const double p = mul(static_cast<double>(odd), 0x1p-65);
  const double q = mul(static_cast<double>(uint64_t{0} - odd), 0x1p-65);
  const double w = -natural_log(mul(mul(4.0, p), add(1.0, -p)));
  const double z = mul(q, w < 6.25   ? quantile_central(w)
                          : w < 16.0 ? quantile_middle(root(w))
                                     : quantile_tail(root(w)));
  return (word >> 63) != 0 ? -z : z;
}

}  // namespace gpukit::random
