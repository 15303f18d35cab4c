#include "gpukit/base/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpukit {
namespace {

TEST(NumberText, IsTheShortestThatReadsBack) {
  EXPECT_EQ(number_text(0.1f), "0.1");
  EXPECT_EQ(number_text(2.0), "2");
  EXPECT_EQ(number_text(-1e-9), "-1e-09");
  EXPECT_EQ(number_text(1e6), "1e+06");
  EXPECT_EQ(number_text(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
  EXPECT_EQ(number_text(std::numeric_limits<float>::infinity()), "inf");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN()), "nan");
}

}  // namespace
}  // namespace gpukit
