#include "gpukit/array/array.h"

#include <gtest/gtest.h>

#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

Array counting(const Dims& shape) {
  Array a = Array::empty(shape, DType::int32, kCpu);
  for (int64_t i = 0; i < a.size(); ++i) static_cast<int32_t*>(a.host_data())[i] = static_cast<int32_t>(i);
  return a;
}

/// Elements in row-major order, read through the strides.
std::vector<int> values(const Array& a) {
  std::vector<int> out;
  std::vector<int64_t> at(static_cast<size_t>(a.ndim()), 0);
  for (int64_t i = 0; i < a.size(); ++i) {
    int64_t rest = i, offset = 0;
    for (int axis = a.ndim() - 1; axis >= 0; --axis) {
      offset += rest % a.shape()[axis] * a.strides()[axis];
      rest /= a.shape()[axis];
    }
    out.push_back(static_cast<int32_t*>(a.host_data())[offset]);
  }
  return out;
}

using V = std::vector<int>;

TEST(Array, SlicesAreViews) {
  Array a = counting({3, 4});
  EXPECT_EQ(values(a.slice(1, 1, 4, 2)), (V{1, 3, 5, 7, 9, 11}));
  EXPECT_EQ(values(a.slice(0, 2, -1, -1)), (V{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}));
  EXPECT_EQ(values(a.slice(1, 3, -1, -2)), (V{3, 1, 7, 5, 11, 9}));
  EXPECT_EQ(a.slice(0, 2, 1, 1).size(), 0);
  EXPECT_EQ(a.slice(0, 1, 2, 1).storage(), a.storage());
  EXPECT_EQ(values(a.select(0, -1)), (V{8, 9, 10, 11}));
  EXPECT_THROW(a.select(0, 3), OutOfRangeError);
  EXPECT_THROW(a.slice(0, 0, 1, 0), ArgumentError);
  EXPECT_EQ(values(a.narrow(1, 2, 2)), (V{2, 3, 6, 7, 10, 11}));
  EXPECT_THROW(a.narrow(1, 3, 2), OutOfRangeError);
}

TEST(Array, TransposeKeepsStorage) {
  Array a = counting({2, 3});
  Array t = a.transpose();
  EXPECT_EQ(t.shape(), (Dims{3, 2}));
  EXPECT_FALSE(t.is_contiguous());
  EXPECT_EQ(values(t), (V{0, 3, 1, 4, 2, 5}));
  EXPECT_TRUE(t.transpose().is_contiguous());
  EXPECT_THROW(a.permute({0, 0}), ShapeError);
  EXPECT_THROW(a.permute({0}), ShapeError);
}

TEST(Array, ReshapeViewsWhatStridesAllow) {
  Array a = counting({4, 6});
  EXPECT_EQ(a.reshape_view({2, 2, 6}).shape(), (Dims{2, 2, 6}));
  Array columns = a.slice(1, 0, 4, 1);
  EXPECT_TRUE(columns.can_view({2, 2, 4}));
  EXPECT_TRUE(columns.can_view({4, 2, 2}));
  EXPECT_TRUE(columns.can_view({4, 1, 4, 1}));
  EXPECT_FALSE(columns.can_view({16}));
  EXPECT_THROW(columns.reshape_view({16}), ShapeError);
  EXPECT_THROW(a.reshape_view({5, 5}), ShapeError);
  EXPECT_EQ(values(columns.reshape_view({2, 2, 2, 2})), values(columns));
  EXPECT_EQ(counting({0, 3}).reshape_view({3, 0}).size(), 0);
}

TEST(Array, BroadcastHasZeroStrides) {
  Array a = counting({3, 1});
  Array b = a.broadcast_to({2, 3, 2});
  EXPECT_EQ(values(b), (V{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  EXPECT_TRUE(has_internal_overlap(b));
  EXPECT_FALSE(has_internal_overlap(a.transpose()));
  EXPECT_THROW(a.broadcast_to({2, 2}), ShapeError);
  EXPECT_THROW(a.broadcast_to({3}), ShapeError);
}

TEST(Array, OverlapSeesPartsOfOneStorage) {
  Array a = counting({8});
  EXPECT_FALSE(partially_overlap(a, a));
  EXPECT_TRUE(partially_overlap(a.slice(0, 0, 5, 1), a.slice(0, 4, 8, 1)));
  EXPECT_FALSE(partially_overlap(a.slice(0, 0, 4, 1), a.slice(0, 4, 8, 1)));
  EXPECT_TRUE(partially_overlap(a, a.slice(0, 7, -1, -1)));
  EXPECT_FALSE(partially_overlap(a, counting({8})));
}

TEST(Array, BitcastChangesTheLastAxis) {
  Array a = counting({2, 4});
  EXPECT_EQ(a.bitcast(DType::float32).shape(), (Dims{2, 4}));
  EXPECT_EQ(a.bitcast(DType::int64).shape(), (Dims{2, 2}));
  EXPECT_EQ(a.bitcast(DType::uint8).shape(), (Dims{2, 16}));
  EXPECT_THROW(a.transpose().bitcast(DType::int64), DTypeError);
  EXPECT_THROW(a.slice(1, 0, 3, 1).bitcast(DType::int64), ShapeError);
}

TEST(Array, NoViewReachesPastItsBlock) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const Array a = counting({4});
  EXPECT_THROW(a.reshape_view({kHuge + 1, 4}), ShapeError);
  EXPECT_THROW(a.reshape_view({-2, -2}), ShapeError);
  EXPECT_THROW(a.can_view({kHuge + 1, 4}), ShapeError);
  EXPECT_THROW(counting({1}).broadcast_to({kHuge, 4}), ShapeError);
  EXPECT_THROW(counting({1, 0}).broadcast_to({kHuge, 0}), ShapeError);
  EXPECT_THROW(Array(a.storage(), DType::int32, {5}, {1}, 0), OutOfRangeError);
  EXPECT_THROW(Array(a.storage(), DType::int32, {4}, {1}, 4), OutOfRangeError);
  EXPECT_THROW(Array(a.storage(), DType::int32, {4}, {-1}, 8), OutOfRangeError);
  EXPECT_THROW(Array(a.storage(), DType::int32, {2}, {kHuge}, 0), ShapeError);
  EXPECT_THROW(Array(a.storage(), DType::int32, {4}, {1, 1}, 0), ShapeError);
  EXPECT_EQ(values(Array(a.storage(), DType::int32, {4}, {-1}, 12)), (V{3, 2, 1, 0}));
  EXPECT_EQ(Array(a.storage(), DType::int32, {0, 9}, {kHuge, kHuge}, 400).size(), 0);
}

TEST(Array, StepsOfOneElementMayBeAnything) {
  const Array a = counting({4});
  EXPECT_EQ(values(a.slice(0, 1, 4, INT64_MAX)), (V{1}));
  EXPECT_EQ(values(a.slice(0, 3, -1, INT64_MIN)), (V{3}));
  EXPECT_EQ(values(a.slice(0, 3, -1, -2)), (V{3, 1}));
  EXPECT_EQ(a.slice(0, 3, 1, 1).size(), 0);
}

TEST(Array, EmptyChecksShapes) {
  EXPECT_THROW(Array::empty({-1}, DType::float32, kCpu), ShapeError);
  EXPECT_THROW(Array::empty({int64_t{1} << 40, int64_t{1} << 40}, DType::float32, kCpu), ShapeError);
  EXPECT_EQ(Array::empty({}, DType::float64, kCpu).size(), 1);
  EXPECT_EQ(Array::empty({0, 5}, DType::float64, kCpu).nbytes(), 0);
  EXPECT_THROW(Array::empty({1}, DType::float32, {DeviceKind::cpu, 9}), DeviceError);
}

TEST(Array, SqueezeAndExpand) {
  Array a = counting({1, 3, 1});
  EXPECT_EQ(a.squeeze().shape(), (Dims{3}));
  EXPECT_EQ(a.squeeze(0).shape(), (Dims{3, 1}));
  EXPECT_THROW(a.squeeze(1), ShapeError);
  EXPECT_EQ(a.expand_dims(-1).shape(), (Dims{1, 3, 1, 1}));
  EXPECT_TRUE(a.expand_dims(1).is_contiguous());
}

}  // namespace
}  // namespace gpukit
