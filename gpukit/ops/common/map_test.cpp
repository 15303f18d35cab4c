#include "gpukit/ops/common/map.h"

#include <gtest/gtest.h>

#include <array>

namespace gpukit::cuda {
namespace {

/// A space given by hand: shape, then the strides of each operand.
StridedSpace space(std::initializer_list<int64_t> shape,
                   std::initializer_list<std::initializer_list<int64_t>> strides) {
  StridedSpace s;
  s.rank = static_cast<int>(shape.size());
  s.num_operands = static_cast<int>(strides.size());
  s.size = 1;
  int axis = 0;
  for (int64_t extent : shape) {
    s.shape[axis++] = extent;
    s.size *= extent;
  }
  int operand = 0;
  for (auto row : strides) {
    axis = 0;
    for (int64_t stride : row) s.strides[operand][axis++] = stride;
    ++operand;
  }
  return s;
}

int64_t covered(const StridedPlan& plan, int widest) {
  const MapTile tile = map_tile(widest);
  return int64_t{plan.grid} * kMapThreads * tile.packs * tile.pack;
}

TEST(StridedPlan, TransposedInputGoesThroughSharedMemory) {
  const std::array<int, 3> sizes = {4, 4, 4};
  const StridedPlan plan = plan_strided(space({8192, 16384}, {{16384, 1}, {1, 8192}, {16384, 1}}), sizes);
  EXPECT_EQ(plan.map.tiled, 1u);
  EXPECT_EQ(plan.shared_bytes, static_cast<unsigned>(map_tile_bytes(4, 4)));
  EXPECT_EQ(plan.map.blocks_x, 16384u / 64);
  EXPECT_EQ(plan.map.blocks_y, 8192u / 32);
  EXPECT_EQ(plan.grid, plan.map.blocks_x * plan.map.blocks_y);
}

TEST(StridedPlan, TwoByteTilesAre64Wide) {
  const std::array<int, 2> sizes = {2, 2};
  const StridedPlan plan = plan_strided(space({8192, 16384}, {{16384, 1}, {1, 8192}}), sizes);
  EXPECT_EQ(plan.map.blocks_x, 16384u / 64);
  EXPECT_EQ(plan.map.blocks_y, 8192u / 64);
}

TEST(StridedPlan, BothTransposedInputsShareTheTileAxis) {
  const std::array<int, 3> sizes = {2, 2, 2};
  const StridedPlan plan = plan_strided(space({64, 64}, {{64, 1}, {1, 64}, {1, 64}}), sizes);
  EXPECT_EQ(plan.map.tiled, 3u);
  EXPECT_EQ(plan.shared_bytes, static_cast<unsigned>(2 * map_tile_bytes(2, 2)));
}

TEST(StridedPlan, TileAxisIsPlacedBeforeX) {
  const std::array<int, 2> sizes = {4, 4};
  // The input is contiguous along the outermost axis.
  const StridedPlan plan = plan_strided(space({40, 3, 50}, {{150, 50, 1}, {1, 40, 120}}), sizes);
  EXPECT_EQ(plan.map.tiled, 1u);
  EXPECT_EQ(plan.map.shape[0], 3u);
  EXPECT_EQ(plan.map.shape[1], 40u);
  EXPECT_EQ(plan.map.shape[2], 50u);
  EXPECT_EQ(plan.map.strides[1][1], 1);
}

TEST(StridedPlan, BroadcastsNeedNoTile) {
  const std::array<int, 3> sizes = {4, 4, 4};
  const StridedPlan row = plan_strided(space({16384, 8192}, {{8192, 1}, {8192, 1}, {0, 1}}), sizes);
  EXPECT_EQ(row.map.tiled, 0u);
  EXPECT_EQ(row.shared_bytes, 0u);
  EXPECT_EQ(row.map.log2_lanes, 8);
  const StridedPlan column = plan_strided(space({16384, 8192}, {{8192, 1}, {8192, 1}, {1, 0}}), sizes);
  EXPECT_EQ(column.map.tiled, 0u);
}

TEST(StridedPlan, ShortRowsShareABlock) {
  const std::array<int, 2> sizes = {4, 4};
  const StridedPlan plan = plan_strided(space({1000000, 3}, {{3, 1}, {4, 1}}), sizes);
  EXPECT_EQ(plan.map.log2_lanes, 2);
  EXPECT_EQ(plan.map.tiled, 0u);
  EXPECT_LT(covered(plan, 4), 2 * 4000000);
}

TEST(StridedPlan, OneLongRowIsCutAlongX) {
  const std::array<int, 2> sizes = {4, 4};
  const StridedPlan plan = plan_strided(space({1 << 20}, {{1}, {2}}), sizes);
  EXPECT_EQ(plan.map.rank, 2);
  EXPECT_EQ(plan.map.packs_along, 1);
  EXPECT_EQ(covered(plan, 4), 1 << 20);
}

TEST(StridedPlan, RowsComeFromTheLongestAxisWhenTheNearestIsShort) {
  const std::array<int, 2> sizes = {4, 4};
  const StridedPlan plan = plan_strided(space({100000, 2, 5}, {{10, 5, 1}, {20, 5, 1}}), sizes);
  EXPECT_EQ(plan.map.shape[1], 100000u);
  EXPECT_LT(covered(plan, 4), 2 * 2 * 100000 * 8);
}

TEST(StridedPlan, EveryElementHasAThread) {
  const std::array<int, 3> sizes = {2, 2, 2};
  for (int64_t y : {1, 7, 8, 33, 64, 65})
    for (int64_t x : {1, 2, 8, 31, 64, 129, 1025}) {
      for (const StridedSpace& s : {space({y, x}, {{x, 1}, {1, y}, {x, 1}}), space({y, x}, {{x, 1}, {x, 1}, {0, 1}}),
                                    space({3, y, x}, {{y * x, x, 1}, {1, 3 * x, 3}, {0, 0, 0}})}) {
        const StridedPlan plan = plan_strided(s, sizes);
        EXPECT_GE(covered(plan, 2), s.size);
        const int log2_x = plan.map.log2_lanes + (plan.map.packs_along != 0 ? 3 : 0);
        const int last = plan.map.rank - 1;
        EXPECT_GE(int64_t{plan.map.blocks_x} * (2 << log2_x), int64_t{plan.map.shape[last]});
        EXPECT_GE(int64_t{plan.map.blocks_y} * ((kMapThreads * 8) >> log2_x), int64_t{plan.map.shape[last - 1]});
      }
    }
}

TEST(MapLayout, TilesFillTheBlockExactly) {
  for (int widest : {1, 2, 4, 8, 16}) {
    const MapTile tile = map_tile(widest);
    EXPECT_EQ(tile.tile_y * tile.lanes, kMapThreads * tile.packs);
    EXPECT_EQ((kMapThreads / tile.lanes) % tile.pack, 0) << "a thread's rows must share their place in a pack";
    EXPECT_EQ(map_vector(widest) * widest, 16);
  }
}

}  // namespace
}  // namespace gpukit::cuda
