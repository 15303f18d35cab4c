#include "gpukit/ops/common/strided.h"

#include <gtest/gtest.h>

namespace gpukit {
namespace {

Array array(const Dims& shape) { return Array::empty(shape, DType::float32, Device{DeviceKind::cpu, 0}); }

TEST(StridedSpace, ContiguousArraysBecomeOneAxis) {
  const Array a = array({3, 4, 5}), b = array({3, 4, 5});
  const StridedSpace s = strided_space(a, {&b});
  EXPECT_EQ(s.rank, 1);
  EXPECT_EQ(s.shape[0], 60);
  EXPECT_TRUE(s.contiguous());
}

TEST(StridedSpace, EqualPermutationsBecomeOneAxis) {
  const Array a = array({3, 4, 5}).permute({2, 0, 1}), b = array({3, 4, 5}).permute({2, 0, 1});
  const StridedSpace s = strided_space(a, {&b});
  EXPECT_TRUE(s.contiguous());
}

TEST(StridedSpace, TheOutputsFastestAxisIsLast) {
  const Array out = array({4, 6}), in = array({6, 4}).transpose();
  StridedSpace s = strided_space(out, {&in});
  ASSERT_EQ(s.rank, 2);
  EXPECT_EQ(s.shape[1], 6);
  EXPECT_EQ(s.strides[0][1], 1);
  EXPECT_EQ(s.strides[1][1], 4);
  s = strided_space(in, {&out});
  EXPECT_EQ(s.shape[1], 4);
  EXPECT_EQ(s.strides[0][1], 1);
  EXPECT_EQ(s.strides[1][1], 6);
}

TEST(StridedSpace, BroadcastAxesHaveStrideZero) {
  const Array out = array({2, 3, 4}), row = array({4}), column = array({3, 1});
  const StridedSpace s = strided_space(out, {&row, &column});
  ASSERT_EQ(s.rank, 3);
  EXPECT_EQ(s.strides[1][2], 1);
  EXPECT_EQ(s.strides[1][1], 0);
  EXPECT_EQ(s.strides[1][0], 0);
  EXPECT_EQ(s.strides[2][2], 0);
  EXPECT_EQ(s.strides[2][1], 1);
  EXPECT_EQ(s.strides[2][0], 0);
}

TEST(StridedSpace, ScalarsDoNotKeepAxesApart) {
  const Array out = array({2, 3, 4}), zero_d = array({});
  const StridedSpace s = strided_space(out, {nullptr, &zero_d});
  EXPECT_EQ(s.rank, 1);
  EXPECT_EQ(s.strides[1][0], 0);
  EXPECT_EQ(s.strides[2][0], 0);
  EXPECT_FALSE(s.contiguous());
}

TEST(StridedSpace, AxesOfOneAreDropped) {
  const Array out = array({1, 5, 1}), in = array({5, 1});
  const StridedSpace s = strided_space(out, {&in});
  EXPECT_EQ(s.rank, 1);
  EXPECT_TRUE(s.contiguous());
}

TEST(StridedSpace, OneElementHasNoAxes) {
  const Array out = array({}), in = array({1, 1});
  const StridedSpace s = strided_space(out, {&out});
  EXPECT_EQ(s.rank, 0);
  EXPECT_EQ(s.size, 1);
  EXPECT_TRUE(s.contiguous());
  EXPECT_EQ(strided_space(in, {&out}).rank, 0);
}

TEST(StridedSpace, EmptyArraysHaveNoElements) {
  const Array out = array({3, 0, 2});
  EXPECT_EQ(strided_space(out, {&out}).size, 0);
}

TEST(StridedSpace, ReversedAxesKeepTheirSign) {
  const Array out = array({5}), in = array({5});
  const Array reversed(in.storage(), in.dtype(), {5}, {-1}, 16);
  const StridedSpace s = strided_space(out, {&reversed});
  EXPECT_EQ(s.strides[1][0], -1);
  EXPECT_FALSE(s.contiguous());
}

TEST(StridedSpace, SomeNeighboursMerge) {
  const Array out = array({2, 3, 4, 5}), in = array({2, 3, 5, 4}).permute({0, 1, 3, 2});
  const StridedSpace s = strided_space(out, {&in});
  EXPECT_EQ(s.rank, 3);
  EXPECT_EQ(s.shape[0], 6);
  EXPECT_EQ(s.shape[1], 4);
  EXPECT_EQ(s.shape[2], 5);
}

}  // namespace
}  // namespace gpukit
