#include "gpukit/ops/manipulate/manipulate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

using V = std::vector<int64_t>;

class Manipulate : public testing::Test {
 protected:
  static Array counting(const Dims& shape, Device device) {
    V values(static_cast<size_t>(shape.product()));
    std::iota(values.begin(), values.end(), 0);
    return from_host(values.data(), shape, DType::int64, device);
  }
  static V values(const Array& a) {
    V out(static_cast<size_t>(a.size()));
    to_host(out.data(), contiguous(a));
    return out;
  }
};

TEST_F(Manipulate, ReshapeCopiesOnlyWhereItMust) {
  for (Device device : runtime::devices()) {
    const Array x = counting({2, 3}, device);
    EXPECT_EQ(reshape(x, {3, -1}).storage(), x.storage());
    const Array turned = reshape(x.transpose(), {6});
    EXPECT_NE(turned.storage(), x.storage());
    EXPECT_EQ(values(turned), (V{0, 3, 1, 4, 2, 5}));
    EXPECT_EQ(flatten(x).shape(), (Dims{6}));
    EXPECT_THROW(reshape(x, {-1, -1}), ShapeError);
    EXPECT_THROW(reshape(x, {4}), ShapeError);
    EXPECT_THROW(reshape(x.transpose(), {6}, false), ShapeError);
  }
}

TEST_F(Manipulate, JoinsAndRepeats) {
  for (Device device : runtime::devices()) {
    const Array x = counting({2, 2}, device);
    const Array parts[] = {x, x.transpose()};
    EXPECT_EQ(values(concat(parts, 1)), (V{0, 1, 0, 2, 2, 3, 1, 3}));
    EXPECT_EQ(values(concat(parts, std::nullopt)), (V{0, 1, 2, 3, 0, 2, 1, 3}));
    EXPECT_EQ(stack(parts, -1).shape(), (Dims{2, 2, 2}));
    EXPECT_EQ(values(repeat(x, 2, 1)), (V{0, 0, 1, 1, 2, 2, 3, 3}));
    const int64_t counts[] = {2, 0};
    EXPECT_EQ(values(repeat(x, counts, 0)), (V{0, 1, 0, 1}));
    EXPECT_EQ(values(tile(x, {2, 1})), (V{0, 1, 2, 3, 0, 1, 2, 3}));
    EXPECT_EQ(tile(x, {2, 1, 2}).shape(), (Dims{2, 2, 4}));
    EXPECT_THROW(concat({}, 0), ArgumentError);
    const Array misfit[] = {x, x.narrow(1, 0, 1)};
    EXPECT_THROW(concat(misfit, 0), ShapeError);
    EXPECT_THROW(stack(misfit), ShapeError);
  }
}

// More repeated axes than one copy has room for.
TEST_F(Manipulate, TilesEveryAxisOfALargeRank) {
  for (Device device : runtime::devices()) {
    const Array x = counting({1, 2, 1, 2, 1}, device);
    const Array tiled = tile(x, {2, 2, 2, 2, 2});
    EXPECT_EQ(tiled.shape(), (Dims{2, 4, 2, 4, 2}));
    const V got = values(tiled);
    for (int64_t i = 0; i < tiled.size(); ++i) EXPECT_EQ(got[static_cast<size_t>(i)], (i / 16 % 2) * 2 + i / 2 % 2);
  }
}

TEST_F(Manipulate, PadsByEveryMode) {
  for (Device device : runtime::devices()) {
    const Array x = counting({3}, device);
    const std::pair<int64_t, int64_t> widths[] = {{5, 4}};
    EXPECT_EQ(values(pad(x, widths, PadMode::constant, 9)), (V{9, 9, 9, 9, 9, 0, 1, 2, 9, 9, 9, 9}));
    EXPECT_EQ(values(pad(x, widths, PadMode::edge)), (V{0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2}));
    EXPECT_EQ(values(pad(x, widths, PadMode::reflect)), (V{1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2}));
    EXPECT_THROW(pad(x.narrow(0, 0, 0), widths, PadMode::edge), ShapeError);
    EXPECT_THROW(pad(x, {}, PadMode::edge), ShapeError);
  }
}

TEST_F(Manipulate, RollsAndFlips) {
  for (Device device : runtime::devices()) {
    const Array x = counting({2, 3}, device);
    EXPECT_EQ(values(roll(x, {1}, Dims{1})), (V{2, 0, 1, 5, 3, 4}));
    EXPECT_EQ(values(roll(x, {-1})), (V{1, 2, 3, 4, 5, 0}));
    EXPECT_EQ(values(roll(x, {1, 4}, Dims{0, 1})), (V{5, 3, 4, 2, 0, 1}));
    EXPECT_EQ(values(flip(x)), (V{5, 4, 3, 2, 1, 0}));
    EXPECT_EQ(flip(x).storage(), x.storage());
    roll(x, {1}, Dims{0}, &x);
    EXPECT_EQ(values(x), (V{3, 4, 5, 0, 1, 2}));
  }
}

}  // namespace
}  // namespace gpukit
