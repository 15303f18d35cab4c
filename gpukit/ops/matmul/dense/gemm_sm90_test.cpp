#include "gpukit/ops/matmul/dense/gemm_sm90.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/matmul/plan/matmul_problem_test.h"

namespace gpukit::cuda {
namespace {

/// b[n][k] unless `b_along_k` is false.
MatmulProblem make_problem(int64_t m, int64_t n, int64_t k, bool b_along_k = true) {
  return testing::matmul_problem(m, n, k, b_along_k);
}

Gemm90Facts facts(int sm_count = 132, DType out = DType::bfloat16) {
  return {DType::bfloat16, out, true, true, true, sm_count};
}

std::string chosen(const MatmulProblem& s, const Gemm90Facts& f = facts()) {
  const auto plan = plan_gemm90(s, f);
  return plan ? plan->str() : "none";
}

TEST(Gemm90Plan, ChoosesByShape) {
  EXPECT_EQ(
      chosen(make_problem(4096, 4096, 4096)),
      "wgmma 128x256x64, sides swapped, 4 stages, a along k, b along k, stored by box, 132 blocks in clusters of 2");
  EXPECT_EQ(chosen(make_problem(4096, 4096, 4096, false)),
            "wgmma 128x256x64, 4 stages, a along k, b along n, stored by box, 132 blocks");
  EXPECT_EQ(
      chosen(make_problem(1024, 1024, 1024)),
      "wgmma 64x128x64, sides swapped, 8 stages, a along k, b along k, stored by box, 128 blocks in clusters of 2");
  EXPECT_EQ(
      chosen(make_problem(2048, 4608, 3584)),
      "wgmma 128x192x64, sides swapped, 4 stages, a along k, b along k, stored by box, 132 blocks in clusters of 2");
  EXPECT_EQ(chosen(make_problem(256, 4608, 3584)),
            "wgmma 128x80x64, 8 stages, a along k, b along k, stored by box, 116 blocks in clusters of 2");
}

TEST(Gemm90Plan, FewRowsStandAsColumns) {
  EXPECT_EQ(chosen(make_problem(16, 3584, 18944)),
            "mma by warps 28x16x64, sides swapped, 9 stages, a along k, b along k, stored by element, 128 blocks");
  EXPECT_EQ(chosen(make_problem(1, 18944, 3584)),
            "wgmma 72x16x64, sides swapped, 4 stages, a along k, b along k, stored by element, 132 blocks");
  EXPECT_EQ(chosen(make_problem(17, 14336, 4096)),
            "wgmma 112x32x64, sides swapped, 6 stages, a along k, b along k, stored by element, 128 blocks");
  EXPECT_EQ(chosen(make_problem(64, 4096, 4096)),
            "wgmma 64x64x64, sides swapped, 7 stages, a along k, b along k, stored by element, 64 blocks");
  EXPECT_EQ(chosen(make_problem(16, 28672, 4096, false)),
            "wgmma 128x16x64, sides swapped, 12 stages, a along m, b along k, stored by box, 132 blocks");
  EXPECT_EQ(chosen(make_problem(16, 4096, 4096), facts(32)),
            "wgmma 128x16x64, sides swapped, 6 stages, a along k, b along k, stored by element, 32 blocks");
}

TEST(Gemm90Plan, FewRowsShareTheWeights) {
  for (const int sm_count : {1, 7, 32, 100, 132})
    for (const int64_t weights : {8, 40, 72, 136, 1000, 3584, 4608, 18944, 29568})
      for (const int64_t rows : {1, 16, 17, 32, 33, 64})
        for (const int64_t k : {8, 520}) {
          const auto plan = plan_gemm90(make_problem(rows, weights, k), facts(sm_count));
          ASSERT_TRUE(plan);
          SCOPED_TRACE(plan->str());
          const Gemm90SwapAB& swap_ab = plan->swap_ab;
          EXPECT_EQ(swap_ab.rows % 4, 0);
          EXPECT_LE(swap_ab.rows, Gemm90SwapAB::kMaxRows);
          EXPECT_GE(int64_t{swap_ab.tiles} * swap_ab.rows, weights);
          EXPECT_LT((int64_t{swap_ab.tiles} - 1) * swap_ab.rows, weights);
          EXPECT_EQ(plan->grid, static_cast<unsigned>(std::min<int64_t>(swap_ab.tiles, sm_count)));
          // As many for each, up to four of every round.
          const int64_t rounds = ceil_div(swap_ab.tiles, sm_count);
          if (swap_ab.rows > plan->tile.columns) {
            EXPECT_LT(rounds * swap_ab.rows, ceil_div(weights, sm_count) + (rounds + 1) * 4);
          }

          EXPECT_EQ(plan->tile.columns, rows <= 16 ? 16 : rows <= 32 ? 32 : 64);
          EXPECT_TRUE(swap_ab.depth == 2 || (swap_ab.depth == 4 && plan->tile.columns <= 32));
          EXPECT_EQ(swap_ab.by_warps, swap_ab.rows <= 32 && rows <= 32);
          EXPECT_EQ(plan->str().starts_with("mma by warps "), swap_ab.by_warps);
          EXPECT_TRUE(!swap_ab.by_warps || swap_ab.depth == Gemm90SwapAB::kDeep);  // there is no other instance
          EXPECT_GE(swap_ab.stages, 3);
          EXPECT_LE(swap_ab.shared_bytes(plan->tile.columns), Gemm90SwapAB::kShared);
          EXPECT_GE(swap_ab.fills * swap_ab.depth * 64, k);
          EXPECT_LE(swap_ab.ahead, 2 * k);
          EXPECT_EQ(swap_ab.line, k);
          EXPECT_EQ(plan->a.box[1], swap_ab.rows);
          EXPECT_EQ(plan->b.box[1], rows);
        }
}

TEST(Gemm90Plan, FewRowsOfBytes) {
  const auto cut = [](int64_t rows, int64_t weights, int64_t k) {
    return plan_gemm90_swap_ab(rows, {weights, k + 16, 0, 1, 1}, k, 132);
  };
  for (const int64_t rows : {1, 16, 17, 32, 33, 64})
    for (const int64_t k : {16, 1000, 4096}) {
      const Gemm90SwapABPlan plan = cut(rows, 4608, k);
      EXPECT_EQ(plan.columns, rows <= 16 ? 16 : rows <= 32 ? 32 : 64);
      EXPECT_EQ(plan.swap_ab.rows, rows <= 32 ? 36 : 64);
      EXPECT_EQ(plan.swap_ab.depth, 4);
      EXPECT_EQ(plan.swap_ab.fills, ceil_div(k, 128 * plan.swap_ab.depth));
      EXPECT_EQ(plan.swap_ab.ahead, std::min<int64_t>(k / 16 * 16, 2048));
      EXPECT_EQ(plan.swap_ab.line, k + 16);
      EXPECT_GE(plan.swap_ab.stages, 3);
      EXPECT_LE(plan.swap_ab.shared_bytes(plan.columns), Gemm90SwapAB::kShared);
    }
  for (const int64_t rows : {1, 17, 64})
    for (const int64_t weights : {8, 28672, 29568, 128256}) EXPECT_GE(cut(rows, weights, 4096).swap_ab.stages, 2);
  EXPECT_EQ(cut(1, 28672, 4096).swap_ab.tiles, 256);  // two for each multiprocessor
  EXPECT_EQ(plan_gemm90_swap_ab(16, {4608, 4096, 0, 1, 1}, 4096, 132, 64).swap_ab.rows, 64);
}

TEST(Gemm90Plan, FewerMultiprocessorsFewerBlocks) {
  EXPECT_EQ(
      chosen(make_problem(4096, 4096, 4096), facts(32)),
      "wgmma 128x256x64, sides swapped, 4 stages, a along k, b along k, stored by box, 32 blocks in clusters of 2");
}

TEST(Gemm90Plan, OverlapsWhereThatPays) {
  const auto overlaps = [](int64_t m, int64_t n, int64_t k) {
    return plan_gemm90(make_problem(m, n, k), facts())->overlaps;
  };
  for (const int64_t size : {1024, 2048, 4096}) EXPECT_TRUE(overlaps(size, size, size)) << size;
  EXPECT_FALSE(overlaps(256, 4096, 4096));  // low tiles
  EXPECT_TRUE(overlaps(256, 6144, 4096));
  for (const int64_t n : {3584, 4096, 4608, 14336}) {
    EXPECT_TRUE(overlaps(16, n, 4096)) << n;            // nearly all multiprocessors
    EXPECT_EQ(overlaps(64, n, 4096), n == 14336) << n;  // tiles of 64
  }
  const Gemm90Tile tile{128, 256, 2, 2, Gemm90Store::tma};
  EXPECT_TRUE(fused_gemm90_overlaps(tile, 4096, 264, 132));
  EXPECT_FALSE(fused_gemm90_overlaps(tile, 4096, 265, 132));
}

TEST(Gemm90Plan, OutputsTheEngineCannotWriteGoByElement) {
  EXPECT_EQ(chosen(make_problem(256, 257, 64)),
            "wgmma 128x128x64, 7 stages, a along k, b along k, stored by element, 6 blocks");
  EXPECT_EQ(chosen(make_problem(256, 256, 64), facts(132, DType::float32)),
            "wgmma 64x128x64, 8 stages, a along k, b along k, stored by box, 8 blocks");
  // It writes whole pieces of 16 bytes, beyond a row that ends within one.
  EXPECT_NE(chosen(make_problem(1, 130, 64)).find("by element"), std::string::npos);
  MatmulProblem padded = make_problem(256, 130, 64);
  padded.out_m = 136;
  EXPECT_NE(chosen(padded).find("by element"), std::string::npos);
  Gemm90Facts f = facts();
  f.out_aligned = false;
  EXPECT_NE(chosen(make_problem(256, 256, 64), f).find("by element"), std::string::npos);
}

TEST(Gemm90Plan, OperandsTheEngineCannotReadAreRefused) {
  EXPECT_EQ(chosen(make_problem(64, 64, 63)), "none");  // rows of 126 bytes
  EXPECT_EQ(chosen(make_problem(64, 63, 64, false)), "none");
  EXPECT_EQ(chosen(make_problem(64, 64, 0)), "none");
  Gemm90Facts f = facts();
  f.a_aligned = false;
  EXPECT_EQ(chosen(make_problem(64, 64, 64), f), "none");
  MatmulProblem negative = make_problem(64, 64, 64);
  negative.a_m = -64;
  EXPECT_EQ(chosen(negative), "none");
  MatmulProblem repeated = make_problem(64, 64, 64);
  repeated.b_n = 0;
  EXPECT_EQ(chosen(repeated), "none");
}

TEST(Gemm90Plan, OtherTypes) {
  const auto of = [](DType input, DType out, bool b_along_k) {
    return chosen(make_problem(4096, 4096, 4096, b_along_k), {input, out, true, true, true, 132});
  };
  EXPECT_EQ(of(DType::float32, DType::float32, true),
            "wgmma 128x256x32, 4 stages, a along k, b along k, stored by box, 132 blocks");
  EXPECT_EQ(of(DType::int8, DType::int32, true),
            "wgmma 128x256x128, 4 stages, a along k, b along k, stored by box, 132 blocks");
  EXPECT_EQ(of(DType::float32, DType::float32, false),
            "wgmma 128x256x32, sides swapped, 4 stages, a along m, b along k, stored by box, 132 blocks");
  EXPECT_EQ(of(DType::int8, DType::int32, false), "none");
  EXPECT_EQ(of(DType::int8, DType::int8, true), "none");
  EXPECT_EQ(of(DType::float64, DType::float64, true), "none");
}

TEST(Gemm90Plan, Tf32TakesARowMajorB) {
  const auto tf32 = [](const MatmulProblem& s, bool out_aligned = true) {
    return chosen(s, {DType::float32, DType::float32, true, true, out_aligned, 132});
  };
  EXPECT_EQ(tf32(make_problem(1024, 1024, 1024, false)),
            "wgmma 64x128x32, sides swapped, 8 stages, a along m, b along k, stored by box, 128 blocks");
  EXPECT_EQ(tf32(make_problem(16, 4096, 4096, false)),
            "wgmma 64x64x32, sides swapped, 13 stages, a along m, b along k, stored by box, 64 blocks");
  EXPECT_EQ(tf32(make_problem(256, 258, 64, false)), "none");  // rows of 1032 bytes
  EXPECT_EQ(tf32(make_problem(256, 256, 64, false), false), "none");
  MatmulProblem transposed = make_problem(256, 256, 64);  // a along M, b along K: the other side would have to be taken
  transposed.a_m = 1;
  transposed.a_k = 256;
  EXPECT_EQ(tf32(transposed), "none");
  std::swap(transposed.out_m, transposed.out_n);
  EXPECT_EQ(tf32(transposed), "wgmma 64x64x32, 13 stages, a along m, b along k, stored by box, 16 blocks");

  const auto plan =
      plan_gemm90(make_problem(256, 512, 64, false), {DType::float32, DType::float32, true, true, true, 132});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->a.shape[0], 512);  // lines of N, 128 bytes a box
  EXPECT_EQ(plan->a.box[0], 32);
  EXPECT_EQ(plan->a.box[1], 32);
  EXPECT_EQ(plan->out.box[0], 32);
  EXPECT_EQ(plan->out.box[1], 32);
}

TEST(Gemm90Plan, AColumnMajorOutputSwapsTheOperands) {
  MatmulProblem s = make_problem(512, 1024, 256, false);
  s.out_m = 1;
  s.out_n = 512;
  const auto plan = plan_gemm90(s, facts());
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->swapped);
  EXPECT_EQ(plan->problem.m, 1024);
  EXPECT_EQ(plan->problem.n, 512);
  EXPECT_TRUE(plan->transpose_a);
  EXPECT_FALSE(plan->transpose_b);
  EXPECT_EQ(plan->out.shape[0], 512);
  EXPECT_EQ(plan->out.shape[1], 1024);
}

TEST(Gemm90Plan, BatchesNeedOneStride) {
  MatmulProblem s = make_problem(128, 128, 64);
  s.batches = 6;
  s.batch_rank = 2;
  s.batch_shape[0] = 2;
  s.batch_shape[1] = 3;
  s.batch_a[0] = 3 * 8192;
  s.batch_a[1] = 8192;
  s.batch_out[0] = 3 * 16384;
  s.batch_out[1] = 16384;
  const auto plan = plan_gemm90(s, facts());  // b serves every batch
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->problem.batches, 6);
  EXPECT_EQ(plan->problem.a_step, 1);
  EXPECT_EQ(plan->problem.b_step, 0);
  EXPECT_EQ(plan->a.shape[2], 6);
  EXPECT_EQ(plan->b.shape[2], 1);
  s.batch_a[0] = 0;  // the same three matrices twice
  EXPECT_FALSE(plan_gemm90(s, facts()));
}

TEST(Gemm90Plan, SharedMemoryFits) {
  for (int rows : {64, 128})
    for (int columns : {16, 32, 64, 96, 128, 192, 256})
      for (Gemm90Store store : {Gemm90Store::tma, Gemm90Store::transposed_tma, Gemm90Store::elements}) {
        const Gemm90Tile tile{rows, columns, 2, 4, store};
        if (tile.stages() < 3) continue;
        EXPECT_LE(tile.shared_bytes(), 227 * 1024);
        EXPECT_LE(tile.stages() * 16, Gemm90Tile::kBarrierBytes);
      }
}

}  // namespace
}  // namespace gpukit::cuda
