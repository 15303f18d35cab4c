#include "gpukit/base/dims.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "gpukit/base/device.h"
#include "gpukit/base/error.h"

namespace gpukit {
namespace {

static_assert(std::is_trivially_copyable_v<Dims>);

TEST(Dims, Edits) {
  Dims d{2, 3};
  d.push_back(5);
  d.insert(0, 7);
  d.insert(4, 9);
  EXPECT_EQ(d, (Dims{7, 2, 3, 5, 9}));
  d.erase(1);
  EXPECT_EQ(d, (Dims{7, 3, 5, 9}));
  EXPECT_EQ(d.str(), "[7, 3, 5, 9]");
  EXPECT_EQ(d.product(), 7 * 3 * 5 * 9);
  EXPECT_EQ(Dims().str(), "[]");
  EXPECT_EQ(Dims().product(), 1);
  EXPECT_NE((Dims{1}), (Dims{1, 1}));
  EXPECT_THROW(d.insert(6, 1), OutOfRangeError);
  EXPECT_THROW(d.erase(4), OutOfRangeError);
}

TEST(Dims, AtMostEight) {
  EXPECT_THROW(Dims(std::vector<int64_t>(9, 1)), ShapeError);
  EXPECT_THROW(Dims::filled(9, 1), ShapeError);
  Dims full = Dims::filled(8, 1);
  EXPECT_THROW(full.push_back(1), ShapeError);
  EXPECT_THROW(full.insert(0, 1), ShapeError);
}

TEST(Dims, Strides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Dims{4, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Dims());
}

TEST(Dims, Broadcast) {
  EXPECT_EQ(broadcast_shapes("add", {2, 1, 4}, {3, 1}), (Dims{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes("add", {}, {3}), (Dims{3}));
  EXPECT_EQ(broadcast_shapes("add", {0}, {1}), (Dims{0}));
  EXPECT_EQ(broadcast_shapes("add", {1, 0}, {5, 1}), (Dims{5, 0}));
  EXPECT_THROW(broadcast_shapes("add", {0}, {2}), ShapeError);
  try {
    broadcast_shapes("add", {2, 3}, {4});
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "add: arrays must have the same shape or shapes that broadcast, got [2, 3] and [4]");
  }
}

TEST(Dims, Axis) {
  EXPECT_EQ(normalize_axis("sum", -1, 3), 2);
  EXPECT_EQ(normalize_axis("sum", 0, 3), 0);
  EXPECT_THROW(normalize_axis("sum", 3, 3), OutOfRangeError);
  EXPECT_THROW(normalize_axis("sum", -4, 3), OutOfRangeError);
  EXPECT_THROW(normalize_axis("sum", 0, 0), OutOfRangeError);
}

TEST(Dims, CheckedBytes) {
  EXPECT_EQ(checked_bytes("zeros", {3, 5}, 4), 60);
  EXPECT_EQ(checked_bytes("zeros", {}, 8), 8);
  EXPECT_EQ(checked_bytes("zeros", {int64_t{1} << 30, 0, 5}, 8), 0);
  EXPECT_THROW(checked_bytes("zeros", {int64_t{1} << 62, 0, int64_t{1} << 62}, 8), ShapeError);
  EXPECT_THROW(checked_bytes("zeros", {2, -1}, 4), ShapeError);
  EXPECT_THROW(checked_bytes("zeros", {0, -1}, 4), ShapeError);
  EXPECT_THROW(checked_bytes("zeros", {int64_t{1} << 31, int64_t{1} << 31}, 4), ShapeError);
}

TEST(Dims, ProductsOfSizesAreChecked) {
  constexpr int64_t kHuge = int64_t{1} << 61;
  EXPECT_THROW((Dims{kHuge + 1, 8}).product(), ShapeError);
  EXPECT_THROW((Dims{kHuge, 8, 0}).product(), ShapeError);
  EXPECT_THROW(contiguous_strides({2, kHuge, 8}), ShapeError);
  EXPECT_EQ(checked_size("op", {3, 0, 5}, 4), 0);
  EXPECT_EQ(checked_size("op", {kHuge}, 1), kHuge);
  EXPECT_THROW(checked_size("op", {kHuge}, 2), ShapeError);
  EXPECT_THROW(checked_size("op", {kHuge + 1, 8}, 1), ShapeError);
  EXPECT_THROW(checked_size("op", {-2, -2}, 1), ShapeError);
  EXPECT_EQ(checked_product("op", kHuge, 1), kHuge);
  EXPECT_EQ(checked_product("op", kHuge, 0), 0);
  EXPECT_THROW(checked_product("op", kHuge, 2), ShapeError);
  EXPECT_THROW(checked_product("op", -1, 2), ShapeError);
  EXPECT_EQ(checked_sum("op", kHuge, 5), kHuge + 5);
  EXPECT_THROW(checked_sum("op", kHuge, kHuge), ShapeError);
  EXPECT_THROW(checked_sum("op", INT64_MAX, INT64_MAX), ShapeError);
}

TEST(Dims, FillInSize) {
  EXPECT_EQ(fill_in_size("reshape", {2, -1}, 6), (Dims{2, 3}));
  EXPECT_EQ(fill_in_size("reshape", {}, 1), Dims());
  EXPECT_EQ(fill_in_size("reshape", {0, 4}, 0), (Dims{0, 4}));
  EXPECT_THROW(fill_in_size("reshape", {-1, -1}, 4), ShapeError);
  EXPECT_THROW(fill_in_size("reshape", {-2, -2}, 4), ShapeError);
  EXPECT_THROW(fill_in_size("reshape", {0, -1}, 0), ShapeError);
  EXPECT_THROW(fill_in_size("reshape", {5, -1}, 6), ShapeError);
  EXPECT_THROW(fill_in_size("reshape", {(int64_t{1} << 62) + 1, 4}, 4), ShapeError);
}

TEST(Dims, Reach) {
  const Reach reach = checked_reach("view", {3, 2}, {-4, 5}, 8);
  EXPECT_EQ(reach.low, -8);
  EXPECT_EQ(reach.high, 5);
  EXPECT_EQ(checked_reach("view", {0, 9}, {INT64_MAX, INT64_MAX}, 8).high, 0);
  EXPECT_THROW(checked_reach("view", {3}, {INT64_MAX}, 8), ShapeError);
  EXPECT_THROW(checked_reach("view", {2, 2}, {int64_t{1} << 60, int64_t{1} << 60}, 8), ShapeError);
  EXPECT_THROW(checked_reach("view", {2}, {1, 1}, 8), ShapeError);
}

TEST(Device, Names) {
  EXPECT_EQ(str(Device{}), "cpu");
  EXPECT_EQ(str(Device{DeviceKind::cpu, 1}), "cpu:1");
  EXPECT_EQ(str(Device{DeviceKind::cuda, 0}), "cuda:0");
  EXPECT_EQ(device_from_name("cpu"), (Device{}));
  EXPECT_EQ(device_from_name("cpu:2"), (Device{DeviceKind::cpu, 2}));
  EXPECT_EQ(device_from_name("gpu"), (Device{DeviceKind::cuda, 0}));
  EXPECT_EQ(device_from_name("gpu:3"), (Device{DeviceKind::cuda, 3}));
  EXPECT_EQ(device_from_name("cuda:15"), (Device{DeviceKind::cuda, 15}));
  for (const char* bad : {"", "tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999", "CPU", "cpu :0"})
    EXPECT_THROW(device_from_name(bad), ArgumentError) << bad;
}

}  // namespace
}  // namespace gpukit
