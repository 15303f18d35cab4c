#include "gpukit/ops/matmul/plan/dequant_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/scales.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/matmul/quantized/nvfp4_gemv_shape.cuh"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::DequantPlan;
using cuda::MatmulChip;
using cuda::plan_dequant_kernel;
using testing::kCpu;

constexpr MatmulChip kHopper = {132, 232448, 9}, kAda = {128, 101376, 8}, kBlackwell = {148, 232448, 10};

/// A row of x by w [n, k] with scales of `rows` by `group`; group 0: one a row.
ScaledProduct product(DType x, DType w, int64_t n, int64_t k, int64_t group, bool zero = false, int64_t rows = 1) {
  const auto operand = [](const Quantized& q, const CodeShape& shape) {
    ScaledOperand o = {};
    o.code = code_of("test", "values", q.data.dtype());
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
  p.problem = {};
  p.problem.m = 1, p.problem.n = n, p.problem.k = k;
  p.problem.a = operand(p.a, {1, 1, k});
  p.problem.b = operand(p.b, {1, n, k});
  return p;
}
bool planned(const ScaledProduct& p) { return plan_dequant_kernel(p, kHopper, false).has_value(); }

TEST(DequantKernel, HasTheFormats) {
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

TEST(DequantKernel, LeavesOtherLayouts) {
  const auto int8 = [] { return product(DType::bfloat16, DType::int8, 300, 640, 0); };
  ASSERT_TRUE(planned(int8()));
  ScaledProduct p = int8();
  p.problem.m = 2, p.problem.a.row = 644;
  EXPECT_FALSE(planned(p));
  p.problem.m = 1;
  EXPECT_TRUE(planned(p));
  EXPECT_FALSE(plan_dequant_kernel(p, kHopper, true).has_value());
  p = int8();
  p.problem.experts = 4;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.problem.b.k = 300, p.problem.b.row = 1;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.problem.b.row = 648;
  EXPECT_FALSE(planned(p));
  p = int8();
  p.problem.a.k = 2;
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
  p.problem.b.zero.row = 16;
  EXPECT_FALSE(planned(p));
  p = product(DType::bfloat16, DType::int4, 300, 640, 64);
  p.problem.b.scale.column = 300, p.problem.b.scale.row = 1;
  EXPECT_FALSE(planned(p));
}

TEST(DequantKernel, TakesScalesOfBlocksOnBothSides) {
  for (int64_t group : {0, 128}) {
    ScaledProduct p = product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, group, false, group == 0 ? 1 : 128);
    p.problem.a.has_scale = 1;
    EXPECT_TRUE(planned(p));
    p.problem.a.scale.column = 1, p.problem.a.scale.column_shift = 7;
    EXPECT_EQ(planned(p), group == 128);
  }
}

/// The order of sums follows from the number of threads: k and the format give it, not n or the multiprocessors.
TEST(DequantKernel, ThreadsFollowFromK) {
  struct Row {
    int64_t k;
    unsigned bytes8;
    int rounds8;
    unsigned bits4;
    int rounds4;
  };
  for (const Row& row :
       {Row{128, 32, 1, 32, 1}, Row{640, 64, 1, 32, 1}, Row{3584, 224, 1, 128, 1}, Row{4096, 256, 1, 128, 1},
        Row{8192, 512, 1, 256, 1}, Row{8320, 544, 1, 288, 1}, Row{14336, 448, 2, 448, 1}, Row{18944, 416, 3, 608, 1},
        Row{29568, 480, 4, 480, 2}, Row{32768, 512, 4, 512, 2}})
    for (int64_t n : {1, 300, 29568})
      for (int sms : {132, 1}) {
        const MatmulChip chip = {sms, kHopper.shared_per_block, kHopper.sm_major};
        const auto of8 = plan_dequant_kernel(product(DType::bfloat16, DType::int8, n, row.k, 0), chip, false);
        EXPECT_EQ(of8->block, row.bytes8);
        EXPECT_EQ(of8->rounds, row.rounds8);
        const auto of4 = plan_dequant_kernel(product(DType::bfloat16, DType::int4, n, row.k, 64), chip, false);
        EXPECT_EQ(of4->block, row.bits4);
        EXPECT_EQ(of4->rounds, row.rounds4);
        for (const auto& plan : {of8, of4}) {
          EXPECT_EQ(plan->tokens, 1);
          EXPECT_EQ(plan->batch % 8, 0);
          const bool alone = plan->block > 341u;  // on a multiprocessor
          EXPECT_EQ(plan->overlaps, alone && cuda::should_overlap(plan->grid, sms)) << row.k;
          EXPECT_LE(plan->shared_bytes, static_cast<unsigned>(chip.shared_per_block));
        }
      }
}

TEST(DequantKernel, ThreadsOfE2m1FollowFromK) {
  struct Row {
    int64_t k;
    unsigned threads;
    int rounds;
  };
  for (const Row& row : {Row{128, 32, 0}, Row{640, 160, 0}, Row{3584, 512, 0}, Row{4096, 512, 1}, Row{4224, 512, 1},
                         Row{8192, 512, 2}, Row{14336, 512, 3}, Row{18944, 512, 4}, Row{29568, 512, 7}})
    for (int64_t group : {16, 32})
      for (int64_t n : {1, 300, 29568})
        for (int sms : {132, 1}) {
          const MatmulChip chip = {sms, kHopper.shared_per_block, kHopper.sm_major};
          const auto plan =
              plan_dequant_kernel(product(DType::bfloat16, DType::float4_e2m1, n, row.k, group), chip, false);
          EXPECT_EQ(plan->tokens, 1);
          EXPECT_EQ(plan->block, row.threads) << row.k;
          EXPECT_EQ(plan->rounds, row.rounds) << row.k;
          EXPECT_EQ(plan->overlaps, row.threads == 512u && cuda::should_overlap(plan->grid, sms)) << row.k;
        }
  const auto product_of_ada = product(DType::bfloat16, DType::float4_e2m1, 300, 8192, 16);
  EXPECT_FALSE(plan_dequant_kernel(product_of_ada, kAda, false)->overlaps);
}

/// Every chunk of a row has a warp and every warp a chunk, x and the stages fit, and no block is without rows.
TEST(DequantKernel, E2m1FitsEveryChip) {
  for (int64_t k = 128; k <= 60000; k += 896)
    for (int64_t n : {1, 131, 4096})
      for (const MatmulChip& chip : {kHopper, kAda}) {
        const auto plan = plan_dequant_kernel(product(DType::float16, DType::float4_e2m1, n, k, 32), chip, false);
        ASSERT_TRUE(plan.has_value());
        EXPECT_LE(plan->shared_bytes, static_cast<unsigned>(chip.shared_per_block));
        if (plan->tokens != 1) {  // x leaves too little
          EXPECT_GE(k, chip.shared_per_block == kAda.shared_per_block ? 28000 : 90000) << k;
          continue;
        }
        const int64_t warps = plan->block / 32, chunks = ceil_div(k, kNvfp4GemvK / 2);
        const int64_t left_over = chunks - 2 * warps * plan->rounds;
        EXPECT_GE(left_over, plan->rounds == 0 ? warps : 0);
        EXPECT_LT(left_over, 2 * warps);
        EXPECT_LE(warps, kNvfp4GemvWarps);
        EXPECT_GE(plan->grid, 1u);
        EXPECT_LE(plan->grid, n);
      }
}

/// Where shared memory is small, a block is narrower and takes more rounds.
TEST(DequantKernel, FitsSharedMemory) {
  const auto plan = [](DType x, DType w, int64_t k, int64_t group, const MatmulChip& chip) {
    return plan_dequant_kernel(product(x, w, 300, k, group), chip, false);
  };
  EXPECT_EQ(plan(DType::bfloat16, DType::int4, 14336, 128, kAda)->block, 224u);
  EXPECT_EQ(plan(DType::bfloat16, DType::int4, 14336, 128, kAda)->rounds, 2);
  EXPECT_EQ(plan(DType::bfloat16, DType::int8, 14336, 0, kAda)->rounds, 2);
  EXPECT_EQ(plan(DType::bfloat16, DType::int8, 24576, 0, kAda)->tokens, 16);
  for (int64_t k = 256; k <= 33024; k += 128)
    for (const MatmulChip& chip : {kHopper, kAda})
      for (DType w : {DType::int8, DType::int4}) {
        const auto p = plan(DType::bfloat16, w, k, w == DType::int8 ? 0 : 128, chip);
        ASSERT_TRUE(p.has_value());
        EXPECT_LE(p->shared_bytes, static_cast<unsigned>(chip.shared_per_block));
        if (p->tokens != 1) continue;
        EXPECT_LE(p->block, 640u);
        EXPECT_GE(static_cast<int64_t>(p->block) * p->rounds * 16, k / (w == DType::int8 ? 1 : 2));
      }
  // Rows that no block has the registers for.
  const ScaledProduct blocks = product(DType::bfloat16, DType::float8_e4m3, 300, 33024, 128, false, 128);
  EXPECT_EQ(plan_dequant_kernel(blocks, kHopper, false)->tokens, 8);
  EXPECT_EQ(plan(DType::bfloat16, DType::int8, 32784, 0, kBlackwell)->tokens, 16);
  EXPECT_EQ(plan(DType::bfloat16, DType::int4, 32896, 128, kBlackwell)->tokens, 16);
  EXPECT_FALSE(plan(DType::float8_e4m3, DType::float8_e4m3, 32784, 0, kHopper).has_value());
}

TEST(DequantKernel, BlocksFillTheChipOnce) {
  const auto grid = [](DType w, int64_t n, int64_t k, int64_t group, const MatmulChip& chip) {
    return plan_dequant_kernel(product(DType::bfloat16, w, n, k, group), chip, false)->grid;
  };
  // 4 blocks of 128 threads on each of 132 multiprocessors, 28 rows each.
  EXPECT_EQ(grid(DType::int4, 14336, 4096, 128, kHopper), 528u);
  EXPECT_EQ(grid(DType::int4, 18944, 3584, 128, kHopper), 528u);
  // 5 of them would take 6 groups of 4 rows each, 4 take 7; of 100 rows 5 take 5.
  EXPECT_EQ(grid(DType::int4, 132 * 100, 4096, 128, kHopper), 660u);
  EXPECT_EQ(grid(DType::int4, 4096, 14336, 128, kHopper), 132u);
  EXPECT_EQ(grid(DType::int4, 14336, 4096, 128, {1, 232448, 9}), 4u);
  // No block without rows.
  EXPECT_EQ(grid(DType::int8, 131, 4096, 0, kHopper), 33u);
  EXPECT_EQ(grid(DType::int4, 3, 4096, 32, kHopper), 2u);
  // Blocks of e2m1 are wide: one on a multiprocessor, and two where k is short.
  EXPECT_EQ(grid(DType::float4_e2m1, 14336, 4096, 16, kHopper), 132u);
  EXPECT_EQ(grid(DType::float4_e2m1, 29568, 1024, 16, kHopper), 264u);
  EXPECT_EQ(grid(DType::float4_e2m1, 3, 4096, 16, kHopper), 3u);
}

TEST(DequantKernel, MoreRowsTakeTiles) {
  ScaledProduct p = product(DType::bfloat16, DType::int8, 300, 640, 0);
  struct Row {
    int64_t m;
    int tokens;
  };
  for (const Row& row : {Row{1, 1}, Row{2, 16}, Row{16, 16}, Row{17, 64}, Row{64, 64}, Row{65, 64}, Row{4096, 64}}) {
    p.problem.m = row.m;
    for (const MatmulChip& chip : {kBlackwell, kAda}) {
      EXPECT_EQ(plan_dequant_kernel(p, chip, true)->blocks, 0);
      const DequantPlan plan = *plan_dequant_kernel(p, chip, false);
      EXPECT_EQ(plan.tokens, row.tokens);
      EXPECT_EQ(plan_dequant_kernel(p, chip, true)->tokens, row.tokens);
      EXPECT_EQ(plan_dequant_kernel(p, chip, true)->ordered, row.m == 1);
      EXPECT_FALSE(plan.ordered);
      if (row.m == 1) continue;
      EXPECT_EQ(plan.grid, static_cast<unsigned>(5 * ceil_div(row.m, row.tokens)));
      EXPECT_EQ(plan.block, 128u);
      EXPECT_LE(plan.shared_bytes, static_cast<unsigned>(chip.shared_per_block));
    }
  }
  // Two rows of quantised values go elsewhere.
  p = product(DType::float8_e4m3, DType::float8_e4m3, 300, 640, 0);
  p.problem.m = 2;
  EXPECT_FALSE(planned(p));
  p.problem.m = 1;
  EXPECT_FALSE(plan_dequant_kernel(p, kHopper, true).has_value());
  // 64 rows of packed quantised values at once need more than a small chip has.
  p = product(DType::bfloat16, DType::int4, 300, 640, 32);
  p.problem.m = 64;
  EXPECT_EQ(plan_dequant_kernel(p, kHopper, false)->tokens, 64);
  EXPECT_EQ(plan_dequant_kernel(p, kAda, false)->tokens, 16);
  EXPECT_EQ(plan_dequant_kernel(p, kAda, false)->grid, 5u * 4);
}

/// group_scaled_split_k_sm90: up to 32 rows by 8 bits whose scales change along k on sm_90, and one row where there is
/// to be one order.
TEST(DequantKernel, FewRowsTakeClusters) {
  ScaledProduct p = product(DType::float16, DType::float8_e4m3, 4096, 14336, 128, false, 128);
  struct Row {
    int64_t m;
    int tokens;
  };
  for (const Row& row : {Row{1, 8}, Row{8, 8}, Row{9, 16}, Row{17, 32}, Row{32, 32}}) {
    p.problem.m = row.m;
    const DequantPlan plan = *plan_dequant_kernel(p, kHopper, true);
    EXPECT_EQ(plan.tokens, row.tokens);
    EXPECT_EQ(plan.blocks, 4);
    EXPECT_EQ(plan.share.rows, 144);
    EXPECT_EQ(plan.grid, 4u * 29);
    EXPECT_EQ(plan.block, static_cast<unsigned>(split_k_threads(row.tokens, false)));
  }
  p.problem.m = 1;
  EXPECT_EQ(plan_dequant_kernel(p, kHopper, false)->blocks, 0);
  p.problem.m = 33;
  EXPECT_EQ(plan_dequant_kernel(p, kHopper, false)->blocks, 0);
}

/// What the kernel can do, for every shape; and that the multiprocessors are busy where there is enough to do.
TEST(DequantKernel, FewRowsFitTheKernel) {
  for (DType w : {DType::float8_e4m3, DType::int4, DType::float4_e2m1})
    for (const int sms : {1, 16, 78, 114, 132})
      for (int64_t n : {1, 7, 300, 3584, 4096, 14336, 29568, 128256})
        for (int64_t k : {256, 640, 3584, 4096, 14336, 29568, 102400})
          for (int64_t m : {2, 16, 32}) {
            const bool packed = w != DType::float8_e4m3;
            ScaledProduct p = product(DType::bfloat16, w, n, k, packed ? 32 : 128, false, packed ? 1 : 128);
            p.problem.m = m;
            const auto plan = plan_dequant_kernel(p, {sms, 232448, 9}, false);
            ASSERT_TRUE(plan.has_value());
            if (plan->blocks == 0) {  // no room for the registers
              EXPECT_TRUE(w == DType::int4 && m > 8) << n << " " << k << " " << m;
              continue;
            }
            EXPECT_TRUE(plan->blocks == 1 || sms >= 8);
            const SplitKShare& share = plan->share;
            const auto blocks = static_cast<unsigned>(plan->blocks);
            EXPECT_EQ(share.rows % 16, 0);
            EXPECT_LE(share.rows, 256);
            EXPECT_GE(share.split, 1);
            EXPECT_LE(share.rows / 16 * share.split, split_k_warps(plan->tokens, packed));
            EXPECT_GE(share.stages, kSplitKMinStages);
            EXPECT_EQ(plan->grid % blocks, 0u);
            EXPECT_GE(static_cast<int64_t>(plan->grid / blocks) * share.rows, n);
            EXPECT_LT(static_cast<int64_t>(plan->grid / blocks - 1) * share.rows, n);
            EXPECT_LE(plan->shared_bytes, 232448u);
            const int chains = static_cast<int>(ceil_div(k, kSplitKChain));
            EXPECT_EQ(static_cast<int>(plan->shared_bytes),
                      split_k_shared_bytes(share, plan->tokens, packed, chains, plan->blocks));
            const bool large = n >= 3584 && k >= 3584 && sms == 132;
            EXPECT_GE(plan->grid, large ? 105u : 1u) << n << " " << k << " " << m;
          }
}

/// w8a16_sm90: any number of rows by 8 bits whose scales do not change along k, on sm_90.
TEST(DequantKernel, RowsByBytesTakeWgmma) {
  struct Case {
    int64_t m, n, k;
    int tokens, rows, warpgroups, ways, tiles, fills;
  };
  for (DType w : {DType::int8, DType::float8_e4m3})
    for (const Case& c : {Case{2, 4096, 14336, 8, 32, 1, 3, 128, 28}, Case{8, 4608, 3584, 8, 35, 2, 2, 132, 7},
                          Case{8, 28672, 4096, 8, 218, 4, 1, 132, 16}, Case{9, 8192, 8192, 16, 63, 2, 1, 131, 16},
                          Case{16, 14336, 4096, 16, 109, 4, 1, 132, 8},
                          // Tiles of more than 128 weights have a fifth warpgroup.
                          Case{8, 18944, 3584, 8, 144, 5, 1, 132, 7}, Case{16, 18944, 3584, 16, 144, 5, 1, 132, 7},
                          Case{17, 8192, 8192, 32, 63, 1, 3, 131, 32},
                          // Tiles in turns, and stages that do not go up in the ways.
                          Case{9000, 30, 1296, 32, 30, 1, 2, 282, 3},
                          // One chain at a time where two would take as long: half as many tiles read the tokens.
                          Case{32, 28672, 4096, 32, 218, 4, 1, 132, 16}, Case{32, 14336, 4096, 32, 109, 2, 2, 132, 16},
                          Case{32, 18944, 3584, 32, 144, 3, 1, 132, 14},
                          // Many tokens: tiles of 32, 64 or 128 of them.
                          Case{64, 14336, 4096, 64, 109, 2, 1, 132, 16}, Case{64, 28672, 4096, 64, 109, 2, 1, 264, 16},
                          Case{64, 4096, 14336, 32, 63, 1, 3, 132, 56}, Case{128, 18944, 3584, 64, 144, 3, 1, 264, 14},
                          Case{256, 4096, 14336, 128, 63, 1, 1, 132, 56},
                          Case{1024, 8192, 8192, 128, 125, 2, 1, 528, 32}, Case{100, 300, 640, 32, 10, 1, 2, 120, 2}}) {
      ScaledProduct p = product(DType::bfloat16, w, c.n, c.k, 0);
      p.problem.m = c.m;
      const DequantPlan plan = *plan_dequant_kernel(p, kHopper, false);
      EXPECT_GE(plan.instance, 0);
      EXPECT_EQ(plan.tokens, c.tokens);
      EXPECT_EQ(plan.tiling.rows, c.rows) << c.m << " " << c.n;
      EXPECT_EQ(plan.tiling.warpgroups, c.warpgroups) << c.m << " " << c.n;
      EXPECT_EQ(plan.tiling.ways, c.ways) << c.m << " " << c.n;
      EXPECT_EQ(plan.tiling.tiles, c.tiles) << c.m << " " << c.n;
      EXPECT_EQ(plan.tiling.fills, c.fills) << c.m << " " << c.n;
      EXPECT_EQ(plan.tiling.tokens, std::min<int64_t>(c.m, c.tokens));
      for (const MatmulChip& chip : {kAda, kBlackwell}) EXPECT_LT(plan_dequant_kernel(p, chip, false)->instance, 0);
    }
}

/// One row has a kernel of its own, which can have the order of several; many weights take that of several.
TEST(DequantKernel, OneRowInTheOrderOfSeveral) {
  for (int64_t k : {3584, 4096, 14336, 18944, 29568}) {
    const DequantPlan plan =
        *plan_dequant_kernel(product(DType::bfloat16, DType::float8_e4m3, 4096, k, 0), kHopper, true);
    EXPECT_EQ(plan.tokens, 1) << k;
    EXPECT_TRUE(plan.ordered && plan.overlaps) << k;
    EXPECT_EQ(plan.block, static_cast<unsigned>(ceil_div(k, 2048) * 32));
    // As many blocks as there are to be on a multiprocessor fit, and no more.
    const unsigned blocks = plan.grid / 132, of_all = 233472;
    EXPECT_EQ(plan.grid % 132, 0u);
    EXPECT_LE(blocks * (plan.shared_bytes + 1024), of_all);
    EXPECT_GT((blocks + 1) * (plan.shared_bytes + 1024), of_all);
  }
  const ScaledProduct many = product(DType::bfloat16, DType::float8_e4m3, 14336, 4096, 0);
  EXPECT_EQ(plan_dequant_kernel(many, kHopper, true)->tokens, 8);
  EXPECT_EQ(plan_dequant_kernel(many, kHopper, false)->tokens, 1);
  for (const MatmulChip& chip : {kAda, kBlackwell}) EXPECT_TRUE(plan_dequant_kernel(many, chip, true)->ordered);
}

/// What the kernel can do, for every shape.
TEST(DequantKernel, RowsByBytesFitTheKernel) {
  for (const int sms : {1, 16, 78, 132})
    for (int64_t n : {1, 7, 300, 3584, 4096, 14336, 29568, 128256})
      for (int64_t k : {16, 128, 640, 3584, 29568, 102400})
        for (int64_t m : {2, 8, 9, 16, 17, 32, 33, 64, 100, 4096}) {
          ScaledProduct p = product(DType::bfloat16, DType::int8, n, k, 0);
          p.problem.m = m;
          const DequantPlan plan = *plan_dequant_kernel(p, {sms, 232448, 9}, false);
          ASSERT_GE(plan.instance, 0);
          const W8A16Tiling& tiling = plan.tiling;
          const int of[] = {2, 1, 2, 2, 1, 2, 1, 2, 1, 1}, most[] = {4, 4, 5, 4, 4, 5, 4, 4, 3, 2};
          const int chains = of[plan.instance];
          EXPECT_GE(tiling.ways, 1);
          EXPECT_LE(tiling.ways, std::min(W8A16Tiling::kMaxWays, tiling.fills));
          EXPECT_LE(tiling.ways * tiling.warpgroups, most[plan.instance]);
          EXPECT_LE(tiling.rows, tiling.warpgroups * W8A16Tiling::warpgroup_rows(chains));
          EXPECT_GE(tiling.stages, 2);
          EXPECT_LE(tiling.ways * tiling.stages, W8A16Tiling::kMaxStages);
          EXPECT_EQ(plan.overlaps, cuda::should_overlap(plan.grid, sms));
          EXPECT_LE(plan.shared_bytes, 232448u);
          EXPECT_EQ(plan.shared_bytes, static_cast<unsigned>(tiling.shared_bytes(plan.tokens, chains)));
          EXPECT_EQ(plan.block, static_cast<unsigned>(tiling.threads()));
          EXPECT_LE(tiling.tokens, plan.tokens);
          EXPECT_GE(int64_t{tiling.token_tiles} * plan.tokens, m);
          EXPECT_EQ(tiling.tiles, ceil_div(n, tiling.rows) * tiling.token_tiles);
          EXPECT_LE(plan.grid, static_cast<unsigned>(std::min(sms, tiling.tiles)));
          EXPECT_GE(int64_t{tiling.fills} * chains * kBytesChain, k);
          EXPECT_LE(tiling.ahead, k);
          EXPECT_EQ(tiling.ahead % 16, 0);
        }
}

}  // namespace
}  // namespace gpukit
