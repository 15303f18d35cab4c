#include <gtest/gtest.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/custom/program.h"
#include "gpukit/ops/custom/reduction_kernel.h"

namespace gpukit {
namespace {

TEST(CustomKernels, LevelsFollowFromTheCountAlone) {
  for (const int64_t count : {0, 1, 2, 3, 31, 32, 33, 1023, 1024}) {
    const std::vector<ReductionLevel> levels = reduction_levels(count);
    ASSERT_EQ(levels.size(), 1u) << count;
    EXPECT_EQ(levels[0].segments, 1);
    EXPECT_LE(int64_t{1} << levels[0].log2_lanes, std::max<int64_t>(count, 1));
  }
  const std::vector<ReductionLevel> levels = reduction_levels(int64_t{3} << 30);
  ASSERT_EQ(levels.size(), 4u);
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    EXPECT_EQ(levels[i].segments, (levels[i].count + 1023) / 1024);
    EXPECT_EQ(levels[i + 1].count, levels[i].segments);
  }
  EXPECT_EQ(levels.back().segments, 1);
}

TEST(CustomKernels, ParametersAreTypesAndNames) {
  std::vector<std::string> names;
  const auto parameters = custom::parse_parameters("k", "in_params", " T x,raw  float32 y , bool z", &names);
  ASSERT_EQ(parameters.size(), 3u);
  EXPECT_EQ(parameters[0].letter, 'T');
  EXPECT_TRUE(parameters[1].raw);
  EXPECT_EQ(parameters[1].dtype, DType::float32);
  EXPECT_EQ(parameters[2].name, "z");
  EXPECT_TRUE(custom::parse_parameters("k", "in_params", "  ", &names).empty());
  EXPECT_THROW(custom::parse_parameters("k", "in_params", "T x", &names), ArgumentError);
  EXPECT_THROW(custom::parse_parameters("k", "in_params", "float w", &names), DTypeError);
}

TEST(CustomKernels, AxesThatEveryOperandWalksAsOneAreMerged) {
  custom::Space space{{2, 3, 1, 4}, {{12, 4, 4, 1}, {12, 4, 0, 1}}};
  space.merge_axes();
  EXPECT_EQ(space.shape, Dims({24}));
  EXPECT_EQ(space.packed(), (std::vector<int64_t>{24, 24, 1, 1}));
  custom::Space row{{2, 3, 4}, {{12, 4, 1}, {0, 4, 1}}};
  row.merge_axes();
  EXPECT_EQ(row.shape, Dims({2, 12}));
  EXPECT_EQ(row.strides[1], Dims({0, 1}));
  custom::Space one{{}, {{}}};
  one.merge_axes();
  EXPECT_EQ(one.packed(), (std::vector<int64_t>{1, 1, 0}));
}

}  // namespace
}  // namespace gpukit
