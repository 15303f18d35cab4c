#include "gpukit/ops/gemv/gemv_codes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/scales.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::GemvCodesChip;
using cuda::GemvCodesPlan;
using cuda::plan_gemv_codes;
using testing::kCpu;

constexpr GemvCodesChip kHopper = {132, 232448, 2048}, kAda = {128, 101376, 1536};

/// A row of x by w [n, k] with scales of `rows` by `group`; group 0: one a row.
ScaledProduct product(DType x, DType w, int64_t n, int64_t k, int64_t group, bool zero = false, int64_t rows = 1) {
  const auto operand = [](const Quantized& q, const CodeShape& shape) {
    ScaledOperand o = {};
    o.code = code_of("test", "codes", q.data.dtype());
    o.row = q.data.strides()[0], o.k = q.data.strides()[1];
    o.has_scale = q.scale.defined() ? 1 : 0;
    if (q.scale.defined()) o.scale = scale_layout("test", "scale", q.scale, shape, false);
    if (q.zero.defined()) o.zero = scale_layout("test", "zero", q.zero, shape, false);
    return o;
  };
  const Dims blocks = {ceil_div(n, rows), group == 0 ? 1 : ceil_div(k, group)};
  ScaledProduct p;
  p.a.data = Array::empty({1, k}, x, kCpu);
  p.b.data = Array::empty({n, is_packed(w) ? k / 2 : k}, w, kCpu);
  p.b.scale = Array::empty(blocks, w == DType::float4_e2m1 ? DType::float8_e4m3 : DType::float32, kCpu);
  if (zero) p.b.zero = Array::empty(blocks, DType::int8, kCpu);
  p.space = {};
  p.space.m = 1, p.space.n = n, p.space.k = k;
  p.space.a = operand(p.a, {1, 1, k});
  p.space.b = operand(p.b, {1, n, k});
  return p;
}
bool planned(const ScaledProduct& p) { return plan_gemv_codes(p, kHopper, false).has_value(); }

TEST(GemvCodes, HasTheFormats) {
  for (DType x : {DType::float16, DType::bfloat16}) {
    EXPECT_TRUE(planned(product(x, DType::float8_e4m3, 300, 640, 0)));
    EXPECT_TRUE(planned(product(x, DType::float8_e4m3, 300, 640, 128, false, 128)));
    EXPECT_TRUE(planned(product(x, DType::int8, 300, 640, 0)));
    for (int64_t group : {32, 64, 128})
      for (bool zero : {false, true}) EXPECT_TRUE(planned(product(x, DType::int4, 300, 640, group, zero)));
    for (int64_t group : {16, 32}) EXPECT_TRUE(planned(product(x, DType::float4_e2m1, 300, 640, group)));
  }
  EXPECT_TRUE(planned(product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, 0)));
  EXPECT_TRUE(planned(product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, 128, false, 128)));

  EXPECT_FALSE(planned(product(DType::float32, DType::int8, 300, 640, 0)));
  EXPECT_FALSE(planned(product(DType::float16, DType::float8_e5m2, 300, 640, 0)));
  EXPECT_FALSE(planned(product(DType::float16, DType::float8_e4m3, 300, 640, 128)));
  EXPECT_FALSE(planned(product(DType::float16, DType::int4, 300, 640, 0)));
  EXPECT_FALSE(planned(product(DType::float16, DType::int4, 300, 640, 128, false, 128)));
  EXPECT_FALSE(planned(product(DType::int8, DType::int8, 300, 640, 0)));
}

TEST(GemvCodes, LeavesOtherLayouts) {
  const auto int8 = [] { return product(DType::bfloat16, DType::int8, 300, 640, 0); };
  ASSERT_TRUE(planned(int8()));
  ScaledProduct p = int8();
  p.space.m = 2, p.space.a.row = 644;
  EXPECT_FALSE(planned(p));
  p.space.m = 1;
  EXPECT_TRUE(planned(p));
  EXPECT_FALSE(plan_gemv_codes(p, kHopper, true).has_value());
  p = int8();
  p.space.experts = 4;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.space.b.k = 300, p.space.b.row = 1;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.space.b.row = 648;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.space.a.k = 2;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.a.data = p.a.data.narrow(1, 1, 639);
  EXPECT_FALSE(planned(p));
  p = int8();
  p.b.data = p.b.data.narrow(1, 8, 632);
  EXPECT_FALSE(planned(p));
  EXPECT_FALSE(planned(product(DType::bfloat16, DType::int8, 300, 648, 0)));
  EXPECT_FALSE(planned(product(DType::bfloat16, DType::int4, 300, 656, 64)));
  // Rows of scales that are no whole words.
  EXPECT_FALSE(planned(product(DType::bfloat16, DType::float4_e2m1, 300, 672, 16)));
  p = product(DType::bfloat16, DType::int4, 300, 640, 64, true);
  p.space.b.zero.row = 16;
  EXPECT_FALSE(planned(p));
  p = product(DType::bfloat16, DType::int4, 300, 640, 64);
  p.space.b.scale.column = 300, p.space.b.scale.row = 1;
  EXPECT_FALSE(planned(p));
}

TEST(GemvCodes, TakesScalesOfBlocksOnBothSides) {
  for (int64_t group : {0, 128}) {
    ScaledProduct p = product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, group, false, group == 0 ? 1 : 128);
    p.space.a.has_scale = 1;
    EXPECT_TRUE(planned(p));
    p.space.a.scale.column = 1, p.space.a.scale.column_shift = 7;
    EXPECT_EQ(planned(p), group == 128);
  }
}

/// The order of sums follows from the number of threads: k and the format give it, not the chip or n.
TEST(GemvCodes, ThreadsFollowFromK) {
  struct Row {
    int64_t k;
    unsigned bytes8, bits4;
  };
  for (const Row& row : {Row{128, 32, 32}, Row{640, 64, 32}, Row{3584, 128, 128}, Row{4096, 128, 128},
                         Row{4224, 96, 96}, Row{8192, 128, 128}, Row{14336, 128, 128}, Row{29568, 128, 128}})
    for (int64_t n : {1, 300, 29568})
      for (const GemvCodesChip& chip : {kHopper, kAda, GemvCodesChip{1, 101376, 1536}}) {
        EXPECT_EQ(plan_gemv_codes(product(DType::bfloat16, DType::int8, n, row.k, 0), chip, false)->block, row.bytes8);
        EXPECT_EQ(plan_gemv_codes(product(DType::bfloat16, DType::float4_e2m1, n, row.k, 32), chip, false)->block,
                  row.bits4);
      }
}

TEST(GemvCodes, BlocksFillTheChipTwice) {
  const auto grid = [](DType w, int64_t n, int64_t k, int64_t group, const GemvCodesChip& chip) {
    const GemvCodesPlan plan = *plan_gemv_codes(product(DType::bfloat16, w, n, k, group), chip, false);
    EXPECT_EQ(plan.shared_bytes, 0u);
    return plan.grid;
  };
  // Rows of several rounds: four of them a block.
  EXPECT_EQ(grid(DType::int8, 14336, 4096, 0, kHopper), 3584u);
  EXPECT_EQ(grid(DType::int8, 131, 4096, 0, kHopper), 33u);
  // 6 blocks of 128 threads on each of 132 multiprocessors, twice: 1584.
  EXPECT_EQ(grid(DType::int4, 14336, 4096, 128, kHopper), 1792u);
  EXPECT_EQ(grid(DType::int4, 6 * 4 * 792, 4096, 128, kHopper), 1584u);
  EXPECT_EQ(grid(DType::int4, 16 * 4 * 792, 4096, 128, kHopper), 3168u);
  EXPECT_EQ(grid(DType::int4, 4096, 4096, 128, kHopper), 1024u);
  EXPECT_EQ(grid(DType::int4, 14336, 4096, 128, {1, 101376, 1536}), 896u);
  EXPECT_EQ(grid(DType::int4, 3, 4096, 32, kHopper), 2u);
}

TEST(GemvCodes, MoreRowsTakeTiles) {
  ScaledProduct p = product(DType::bfloat16, DType::int8, 300, 640, 0);
  struct Row {
    int64_t m;
    int tokens;
  };
  for (const Row& row : {Row{1, 1}, Row{2, 16}, Row{16, 16}, Row{17, 64}, Row{64, 64}, Row{65, 64}, Row{4096, 64}}) {
    p.space.m = row.m;
    for (const GemvCodesChip& chip : {kHopper, kAda}) {
      const GemvCodesPlan plan = *plan_gemv_codes(p, chip, false);
      EXPECT_EQ(plan.tokens, row.tokens);
      EXPECT_EQ(plan_gemv_codes(p, chip, true)->tokens, std::max(row.tokens, 16));
      if (row.m == 1) continue;
      EXPECT_EQ(plan.grid, static_cast<unsigned>(5 * ceil_div(row.m, row.tokens)));
      EXPECT_EQ(plan.block, 128u);
      EXPECT_LE(plan.shared_bytes, static_cast<unsigned>(chip.shared_per_block));
    }
  }
  // Two rows of codes go elsewhere.
  p = product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, 0);
  p.space.m = 2;
  EXPECT_FALSE(planned(p));
  p.space.m = 1;
  EXPECT_FALSE(plan_gemv_codes(p, kHopper, true).has_value());
  // 64 rows of packed codes at once need more than a small chip has.
  p = product(DType::bfloat16, DType::int4, 300, 640, 32);
  p.space.m = 64;
  EXPECT_EQ(plan_gemv_codes(p, kHopper, false)->tokens, 64);
  EXPECT_EQ(plan_gemv_codes(p, kAda, false)->tokens, 16);
  EXPECT_EQ(plan_gemv_codes(p, kAda, false)->grid, 5u * 4);
}

}  // namespace
}  // namespace gpukit
