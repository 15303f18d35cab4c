#include "tests/support/testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gpukit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(AllClose, AcceptsWhatIsWithinTolerance) {
  std::vector<double> expected = {1, -2, 0, kNan, kInf}, got = {1 + 1e-7, -2, 1e-9, kNan, kInf};
  EXPECT_TRUE(all_close(got, expected, 1e-6, 1e-8));
  EXPECT_FALSE(all_close(got, expected, 1e-8, 1e-8));
}

TEST(AllClose, FindsTheWorstElement) {
  std::vector<double> expected = {1, 2, 3}, got = {1.5, 2, 9};
  ::testing::AssertionResult result = all_close(got, expected, 0, 0);
  EXPECT_FALSE(result);
  EXPECT_NE(std::string(result.message()).find("2 of 3 elements differ; worst at 2"), std::string::npos)
      << result.message();
}

TEST(AllClose, NanAndInfinityNeverPassForNumbers) {
  for (double wrong : {kNan, kInf, -kInf}) {
    std::vector<double> got = {wrong}, expected = {1};
    EXPECT_FALSE(all_close(got, expected, 1, 1)) << wrong;
    EXPECT_FALSE(all_close(expected, got, 1e-3, 1)) << wrong;
  }
  EXPECT_FALSE(all_close(std::vector<double>{1}, std::vector<double>{1, 2}, 1, 1));
}

TEST(RandomValues, AreReproducibleAndInRange) {
  std::vector<double> a = random_values(1000, 7, -2, 3);
  EXPECT_EQ(a, random_values(1000, 7, -2, 3));
  EXPECT_NE(a, random_values(1000, 8, -2, 3));
  double sum = 0;
  for (double value : a) {
    EXPECT_GE(value, -2);
    EXPECT_LT(value, 3);
    sum += value;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.2);
}

class MakeArray : public DeviceTest {};
GPUKIT_ON_DEVICES(MakeArray);

TEST_P(MakeArray, RoundTripsEveryComputableDtype) {
  std::vector<double> values = {0, 1, 2, 3, 100, 5.5};
  for (int i = 0; i < static_cast<int>(DType::float8_e4m3); ++i) {
    DType dtype = static_cast<DType>(i);
    Array array = make_array(values, {2, 3}, dtype, device());
    EXPECT_EQ(array.dtype(), dtype);
    std::vector<double> expected = values;
    if (is_integer(dtype)) expected[5] = 5;
    if (dtype == DType::boolean) expected = {0, 1, 1, 1, 1, 1};
    EXPECT_EQ(to_doubles(array), expected) << name(dtype);
    EXPECT_EQ(to_doubles(array.transpose())[1], expected[3]) << name(dtype);
  }
}

}  // namespace
}  // namespace gpukit::testing
