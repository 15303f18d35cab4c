#include "gpukit/jit/slices.h"

#include <gtest/gtest.h>

#include <vector>

#include "gpukit/base/error.h"

namespace gpukit::jit {
namespace {

Parameter integer(const char* name, DType dtype = DType::int64) {
  Parameter parameter;
  parameter.name = name;
  parameter.type.kind = ParameterType::Kind::scalar;
  parameter.type.dtype = dtype;
  return parameter;
}

Argument number(const Scalar& value) {
  Argument argument;
  argument.kind = Argument::Kind::number;
  argument.number = value;
  return argument;
}

class ItemRangeTest : public ::testing::Test {
 protected:
  std::optional<ItemRange> range() const { return item_range("f", parameters, arguments, options); }
  std::vector<Parameter> parameters{integer("n"), integer("item_count", DType::int32), integer("item_offset")};
  std::vector<Argument> arguments{number(1), number(1000), number(24)};
  LaunchOptions options;
};

TEST_F(ItemRangeTest, FindsTheItems) {
  EXPECT_FALSE(range().has_value());  // not asked for
  options.slice_ms = 1.0;
  const auto found = range();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->offset_parameter, 2u);
  EXPECT_EQ(found->count_parameter, 1u);
  EXPECT_EQ(found->first, 24);
  EXPECT_EQ(found->count, 1000);
}

TEST_F(ItemRangeTest, AKernelThatDeclaresNoneRunsWhole) {
  options.slice_ms = 1.0;
  options.grid = Extent{1, 1, 1};
  parameters[1].name = "count";
  EXPECT_FALSE(range().has_value());
  parameters[1] = integer("item_count", DType::float32);
  EXPECT_FALSE(range().has_value());
}

TEST_F(ItemRangeTest, RefusesWhatIsNoRange) {
  for (double ms : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    options.slice_ms = ms;
    EXPECT_THROW(range(), ArgumentError) << ms;
  }
  options.slice_ms = 2.0;
  arguments[1] = number(-1);
  EXPECT_THROW(range(), ArgumentError);
  arguments[1] = number(2.5);
  EXPECT_THROW(range(), ArgumentError);
  arguments[1] = number(INT64_MAX);
  EXPECT_THROW(range(), ArgumentError);
  arguments[1] = number(5);
  options.grid = Extent{1, 1, 1};
  EXPECT_THROW(range(), ArgumentError);
}

}  // namespace
}  // namespace gpukit::jit
