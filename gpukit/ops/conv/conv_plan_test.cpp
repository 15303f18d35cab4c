#include "gpukit/ops/conv/conv_plan.h"

#include <gtest/gtest.h>

namespace gpukit::cuda {
namespace {

constexpr ConvChip kH200{132, 232448, 233472}, kAda{128, 101376, 102400};

/// A dense conv1d of one item.
ConvSpace sound(int64_t in, int64_t out, int64_t length, int64_t taps, int64_t stride = 1, int64_t dilation = 1) {
  ConvSpace s{};
  s.batches = s.groups = 1;
  s.in_channels = in;
  s.out_channels = out;
  const int64_t padding = dilation * (taps - 1) / 2;
  s.rows = {1, 1, 1, 1, 0, 1};
  s.columns = {length,  (length + 2 * padding - dilation * (taps - 1) - 1) / stride + 1, taps, stride, padding,
               dilation};
  s.x_batch = in * length;
  s.x_channel = length;
  s.x_column = 1;
  s.out_batch = out * s.columns.out;
  s.out_channel = s.columns.out;
  s.out_column = 1;
  s.w_out = in * taps;
  s.w_in = taps;
  s.w_column = 1;
  return s;
}

ConvPlan plan(const ConvSpace& s, const ConvChip& chip = kH200, DType dtype = DType::float16, bool tf32 = false) {
  return plan_conv(s, dtype, tf32, true, true, true, chip);
}

TEST(ConvPlan, KernelsFollowFromDtypeAndSizes) {
  const ConvSpace s = sound(128, 128, 1001, 3);
  EXPECT_EQ(plan(s).kernel, ConvKernel::mma);
  EXPECT_EQ(plan(s, kAda).kernel, ConvKernel::mma);
  EXPECT_EQ(plan(s, kH200, DType::bfloat16).kernel, ConvKernel::mma);
  EXPECT_EQ(plan(s, kH200, DType::float32).kernel, ConvKernel::simt);
  EXPECT_EQ(plan(s, kH200, DType::float32, true).kernel, ConvKernel::mma);
  EXPECT_EQ(plan(s, kH200, DType::float64).kernel, ConvKernel::simt);
  EXPECT_EQ(plan(sound(1, 8, 1001, 3)).kernel, ConvKernel::depthwise);
  EXPECT_EQ(plan(sound(7, 9, 1001, 3)).kernel, ConvKernel::simt);
  EXPECT_EQ(plan(sound(8, 8, 1001, 3)).kernel, ConvKernel::mma);
  EXPECT_EQ(plan(sound(1, 64, 1001, 3)).kernel, ConvKernel::mma);
}

TEST(ConvPlan, TilesFillTheChip) {
  // Many outputs: the largest tile. Few: smaller ones for more multiprocessors.
  EXPECT_EQ(plan(sound(512, 512, 60000, 7)).tile, ConvTile::t128x128);
  EXPECT_EQ(plan(sound(512, 512, 400, 7)).tile, ConvTile::t64x64);
  const ConvPlan p = plan(sound(1280, 1280, 3000, 3, 2));
  EXPECT_EQ(p.tile, ConvTile::t128x128);
  EXPECT_EQ(p.blocks, 10 * 12);
  EXPECT_EQ(p.grid.one_tap, 0);
  EXPECT_EQ(p.grid.vectors, 1);
  EXPECT_EQ(plan(sound(512, 512, 2001, 7)).grid.vectors, 0);
}

TEST(ConvPlan, WindowsFitTheChip) {
  for (const ConvChip& chip : {kH200, kAda})
    for (const int64_t taps : {1, 3, 11, 200, 3000})
      for (const int64_t stride : {1, 2, 7, 500})
        for (const int64_t dilation : {1, 5, 64, 9000}) {
          const ConvPlan p = plan(sound(64, 64, 40000, taps, stride, dilation), chip);
          ASSERT_EQ(p.kernel, ConvKernel::mma);
          EXPECT_LE(p.shared_bytes, static_cast<unsigned>(chip.shared_per_block));
          EXPECT_EQ(p.grid.raw_bytes == 0, p.tile == ConvTile::gathered);
        }
  EXPECT_EQ(plan(sound(64, 64, 40000, 3, 1, 9000)).grid.one_tap, 1);
  EXPECT_EQ(plan(sound(64, 64, 40000, 11, 1, 5)).grid.one_tap, 0);
}

TEST(ConvPlan, LayoutsChooseHowTheInputIsRead) {
  ConvSpace s = sound(64, 96, 4000, 5);
  EXPECT_NE(plan(s).tile, ConvTile::gathered);
  s.x_channel = 1;
  s.x_column = 64;
  EXPECT_EQ(plan(s).tile, ConvTile::gathered);
  EXPECT_EQ(plan(s).grid.channel_chunks, 1);
  EXPECT_EQ(plan_conv(s, DType::float16, false, false, true, true, kH200).grid.channel_chunks, 0);
}

TEST(ConvPlan, WeightsOfOneTapStayWhereTheyAre) {
  EXPECT_FALSE(plan(sound(64, 64, 100, 1)).packs);
  EXPECT_TRUE(plan(sound(60, 64, 100, 1)).packs);  // rows of 120 bytes
  EXPECT_TRUE(plan(sound(64, 64, 100, 1), kH200, DType::float32, true).packs);
  EXPECT_TRUE(plan_conv(sound(64, 64, 100, 1), DType::float16, false, true, false, true, kH200).packs);
  const ConvPlan p = plan(sound(80, 64, 100, 3));
  EXPECT_EQ(p.packed_elements(1), 3 * 3 * 64 * 32);
}

TEST(ConvPlan, WeightsWithTheirChannelsSideBySideStayWhereTheyAre) {
  ConvSpace s = sound(80, 64, 100, 3);
  s.w_in = 1;
  s.w_out = 80;
  s.w_column = 64 * 80;
  const ConvPlan p = plan(s);
  EXPECT_FALSE(p.packs);
  EXPECT_EQ(p.grid.weight_tap, 64 * 80);
  EXPECT_EQ(p.grid.weight_output, 80);
  EXPECT_EQ(p.grid.weight_block, 32);
  EXPECT_TRUE(plan(s, kH200, DType::float32, true).packs);
  s.w_column += 4;  // taps that begin at 8 bytes
  EXPECT_TRUE(plan(s).packs);

  s = sound(80, 64, 100, 3);
  s.rows = {9, 9, 2, 1, 1, 1};
  s.w_in = 1;
  s.w_out = 80;
  s.w_column = 64 * 80;
  s.w_row = 3 * s.w_column;
  EXPECT_FALSE(plan(s).packs);
  s.w_row += 80;  // rows of taps that lie apart
  EXPECT_TRUE(plan(s).packs);
}

}  // namespace
}  // namespace gpukit::cuda
