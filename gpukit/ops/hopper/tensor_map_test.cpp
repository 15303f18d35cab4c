#include "gpukit/ops/hopper/tensor_map.h"

#include <gtest/gtest.h>

namespace gpukit {
namespace {

TEST(RowBoxes, BytesBetweenRows) {
  const driver::BoxLayout some = row_boxes(DType::bfloat16, 300, 7, 320, 64, 5);
  EXPECT_EQ(some.dtype, DType::bfloat16);
  EXPECT_EQ(some.shape[0], 300);
  EXPECT_EQ(some.shape[1], 7);
  EXPECT_EQ(some.shape[2], 1);
  EXPECT_EQ(some.strides[0], 640);
  EXPECT_EQ(some.box[0], 64);
  EXPECT_EQ(some.box[1], 5);
  EXPECT_EQ(some.swizzle, driver::BoxLayout::Swizzle::bytes128);
  // The stride of one row is anything, also what the engine does not take.
  EXPECT_EQ(row_boxes(DType::uint8, 300, 1, 0, 128, 1).strides[0], 304);
  EXPECT_EQ(row_boxes(DType::float32, 4, 1, -5, 32, 1).strides[0], 16);
}

}  // namespace
}  // namespace gpukit
