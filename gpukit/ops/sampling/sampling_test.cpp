#include "gpukit/ops/sampling/sampling_step.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/testing.h"

namespace gpukit::sampling {
namespace {

TEST(SamplingStep, KeysAreInTheOrderOfLogits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float ascending[] = {-kInfinity, -3e38f, -1.5f, -1e-45f, 0.0f, 1e-45f, 1.0f, 3e38f, kInfinity};
  for (size_t i = 1; i < std::size(ascending); ++i) EXPECT_LT(key_of(ascending[i - 1]), key_of(ascending[i]));
  for (const float logit : ascending) EXPECT_EQ(logit_of(key_of(logit)), logit);
  EXPECT_EQ(key_of(-0.0f), key_of(0.0f));
  EXPECT_EQ(key_of(-kInfinity), kMinusInfinity);
  EXPECT_EQ(key_of(-std::nanf("")), kNotANumber);
  EXPECT_LT(key_of(kInfinity), kNotANumber);
}

TEST(SamplingStep, WeightsAreExponentials) {
  EXPECT_EQ(weight_of(0.0f), kOne);
  EXPECT_EQ(weight_of(-28.0f), 0u);
  EXPECT_EQ(weight_of(-std::numeric_limits<float>::infinity()), 0u);
  EXPECT_EQ(weight_of(std::nanf("")), 0u);
  for (const double value : gpukit::testing::random_values(100000, 7, -28, 0)) {
    const auto x = static_cast<float>(value);
    const double exact = std::exp(static_cast<double>(x)) * static_cast<double>(kOne);
    const auto got = static_cast<double>(weight_of(x));
    ASSERT_LE(got, static_cast<double>(kOne));
    ASSERT_NEAR(got, exact, 1.0 + 3e-7 * exact) << x;
  }
}

TEST(SamplingStep, WeightsBesideTheLargestLogit) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(weight_of(key_of(kInfinity), key_of(kInfinity), 1.0f), kOne);
  EXPECT_EQ(weight_of(key_of(5.0f), key_of(kInfinity), 1.0f), 0u);
  EXPECT_EQ(weight_of(kMinusInfinity, key_of(5.0f), kInfinity), 0u);
  EXPECT_EQ(weight_of(key_of(4.0f), key_of(5.0f), kInfinity), kOne);
  EXPECT_EQ(weight_of(key_of(3.0f), key_of(5.0f), 2.0f), weight_of(-1.0f));
}

TEST(SamplingStep, PartsOfATotalAreRoundedUp) {
  EXPECT_EQ(nucleus(1000, 0.5f), 500u);
  EXPECT_EQ(nucleus(1001, 0.5f), 501u);
  EXPECT_EQ(nucleus(1000, 0.0f), 1u);
  EXPECT_EQ(nucleus(1000, -1.0f), 1u);
  EXPECT_EQ(nucleus(1000, 2.0f), 1000u);
  EXPECT_EQ(least_weight(0.0f), 0u);
  EXPECT_EQ(least_weight(0.25f), kOne / 4);
  EXPECT_EQ(least_weight(3.0f), kOne);
}

TEST(SamplingStep, UniformNumbersBecomeWords) {
  EXPECT_EQ(word_of(0.0f), 0u);
  EXPECT_EQ(word_of(-1.0f), 0u);
  EXPECT_EQ(word_of(std::nanf("")), 0u);
  EXPECT_EQ(word_of(0.5f), uint64_t{1} << 63);
  EXPECT_EQ(word_of(1.0f), ~uint64_t{0});
  EXPECT_NE(draw(1, 2, 3), draw(1, 3, 2));
}

}  // namespace
}  // namespace gpukit::sampling
