#include "gpukit/base/version.h"

#include <gtest/gtest.h>

#include <cstdio>

namespace gpukit {
namespace {

TEST(Version, HasThreeNumbers) {
  int major = -1, minor = -1, patch = -1;
  ASSERT_EQ(std::sscanf(version(), "%d.%d.%d", &major, &minor, &patch), 3);
  EXPECT_GE(major, 0);
  EXPECT_GE(minor, 0);
  EXPECT_GE(patch, 0);
}

}  // namespace
}  // namespace gpukit
