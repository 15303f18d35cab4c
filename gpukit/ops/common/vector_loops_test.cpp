#include "gpukit/ops/common/vector_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace gpukit::cpu {
namespace {

/// Tails, signs and what is no number, and a count that no register divides.
std::vector<float> arguments() {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          1e-30f,
                          -1e-30f,
                          1e30f,
                          -1e30f,
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()};
  for (int i = -4000; i < 4000; ++i) x.push_back(static_cast<float>(i) * 0.0247f);
  return x;
}

using InPlace = void (*VectorLoops::*)(float*, int64_t);

void expect_near(InPlace loop, double (*exact)(double), float low, float high, double relative) {
  std::vector<float> y = arguments();
  (vector_loops().*loop)(y.data(), static_cast<int64_t>(y.size()));
  const std::vector<float> x = arguments();
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(y[i]));
    }
    if (!(x[i] >= low && x[i] <= high)) continue;
    const double wanted = exact(x[i]);
    EXPECT_NEAR(y[i], wanted, relative * std::abs(wanted) + 1e-37) << x[i];
  }
}

TEST(VectorLoops, MatchFloat64) {
  constexpr float kAny = std::numeric_limits<float>::infinity();
  expect_near(
      &VectorLoops::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -80, kAny, 4e-7);
  expect_near(
      &VectorLoops::tanh, [](double x) { return std::tanh(x); }, -kAny, kAny, 3e-7);
  expect_near(
      &VectorLoops::silu, [](double x) { return x / (1 + std::exp(-x)); }, -80, 1e30f, 6e-7);
  expect_near(
      &VectorLoops::gelu,
      [](double x) {
        return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
      },
      -5, 90, 6e-6);
  expect_near(
      &VectorLoops::gelu_erf, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }, -6, 90, 6e-6);
}

TEST(VectorLoops, SnakeMatchesFloat64) {
  const std::vector<float> x = arguments();
  for (float a : {9.5e-5f, -0.3f, 1.0f, 50.0f, 1000.0f}) {
    const std::vector<float> alpha(x.size(), a);
    std::vector<float> y(x.size());
    vector_loops().snake(y.data(), x.data(), alpha.data(), static_cast<int64_t>(x.size()));
    for (size_t i = 0; i < x.size(); ++i) {
      if (!std::isfinite(x[i])) {
        EXPECT_TRUE(std::isnan(y[i]));
        continue;
      }
      // The angle is what float32 makes of it.
      const double s = std::sin(static_cast<double>(a * x[i])), wanted = x[i] + s * s / a;
      EXPECT_NEAR(y[i], wanted, 3e-7 * std::abs(wanted) + 6e-7 * std::abs(s / a)) << x[i] << " " << a;
    }
  }
}

TEST(VectorLoops, EveryLevelHasTheSameBits) {
  const std::vector<float> x = arguments();
  const auto count = static_cast<int64_t>(x.size());
  const std::vector<float> alpha(x.size(), 0.7f);
  for (const VectorLoops& level : all_vector_loops()) {
    for (InPlace loop :
         {&VectorLoops::gelu, &VectorLoops::gelu_erf, &VectorLoops::silu, &VectorLoops::sigmoid, &VectorLoops::tanh}) {
      std::vector<float> a = x, b = x;
      (level.*loop)(a.data(), count);
      (vector_loops().*loop)(b.data(), count);
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(std::memcmp(&a[i], &b[i], sizeof(float)) == 0 || (std::isnan(a[i]) && std::isnan(b[i]))) << x[i];
    }
    std::vector<float> a(x.size()), b(x.size());
    level.snake(a.data(), x.data(), alpha.data(), count);
    vector_loops().snake(b.data(), x.data(), alpha.data(), count);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << x[i];
  }
}

}  // namespace
}  // namespace gpukit::cpu
