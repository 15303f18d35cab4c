#include "gpukit/ops/matmul/dense/grouped_gemm_sm90.h"

#include <gtest/gtest.h>

#include "gpukit/ops/matmul/dense/grouped_problem.cuh"

namespace gpukit::cuda {
namespace {

/// Dense rows [m, k] by weights [experts, n, k].
ScaledProblem make_problem(int64_t m, int64_t n, int64_t k, int64_t experts) {
  ScaledProblem s = {};
  s.m = m;
  s.n = n;
  s.k = k;
  s.experts = experts;
  s.a.row = k;
  s.b.row = k;
  s.b.batch = n * k;
  s.a.k = s.b.k = 1;
  s.out_m = n;
  s.out_n = 1;
  s.alpha = 1.0f;
  return s;
}

Grouped90Facts facts(DType input = DType::bfloat16, DType out = DType::bfloat16) {
  return {input, input, out, true, true, false, true, true, false, 132};
}

std::string chosen(const ScaledProblem& s, const Grouped90Facts& f = facts()) {
  const auto plan = plan_grouped90(s, f);
  return plan ? plan->str() : "none";
}

/// Scales of rows, of the tensor (row 0) or of blocks of 128.
void set_scales(ScaledOperand* o, int64_t row, int64_t column, int row_shift, int64_t batch) {
  o->has_scale = 1;
  o->scale = {row_shift, column != 0 ? 7 : 62, batch, row, column};
}

TEST(Grouped90Plan, ChoosesByRowsOfAnExpert) {
  EXPECT_EQ(chosen(make_problem(4096, 14336, 4096, 8)), "wgmma 128x256x64 by experts, 4 stages, 132 blocks");
  EXPECT_EQ(chosen(make_problem(4096, 1408, 2048, 64)), "wgmma 64x128x64 by experts, 8 stages, 132 blocks");
  EXPECT_EQ(chosen(make_problem(1024, 1408, 2048, 64)),
            "wgmma 128x32x64 by experts, rows as columns, 10 stages, 132 blocks");
}

TEST(Grouped90Plan, FewRowsStayInPlace) {
  EXPECT_EQ(chosen(make_problem(64, 14336, 4096, 8)),
            "wgmma 128x64x64 by experts, rows as columns in place, 8 stages, 132 blocks");
  EXPECT_EQ(chosen(make_problem(16, 14336, 4096, 8)),
            "wgmma 128x16x64 by experts, rows as columns in place, 12 stages, 132 blocks");
  EXPECT_EQ(chosen(make_problem(2, 1408, 2048, 64)),
            "wgmma 64x16x64 by experts, rows as columns in place, 16 stages, 44 blocks");
  EXPECT_EQ(chosen(make_problem(65, 14336, 4096, 8)).find("in place"), std::string::npos);
  ScaledProblem transposed = make_problem(16, 14336, 4096, 8);
  transposed.a.row = 1;
  transposed.a.k = 16;
  EXPECT_EQ(chosen(transposed), "wgmma 128x16x64 by experts, rows as columns, 12 stages, 132 blocks");
  Grouped90Facts f = facts();
  f.rows_aligned = false;
  EXPECT_EQ(chosen(make_problem(16, 14336, 4096, 8), f).find("in place"), std::string::npos);
}

TEST(Grouped90Plan, FewerMultiprocessorsFewerBlocks) {
  Grouped90Facts f = facts();
  f.sm_count = 32;
  EXPECT_EQ(chosen(make_problem(4096, 14336, 4096, 8), f), "wgmma 128x256x64 by experts, 4 stages, 32 blocks");
}

TEST(Grouped90Plan, TilesOfRowsAreBounded) {
  for (int64_t experts : {1, 3, 64}) {
    for (int64_t m : {65, 129, 1000}) {
      const auto plan = plan_grouped90(make_problem(m, 256, 64, experts), facts());
      ASSERT_TRUE(plan);
      const int64_t rows = plan->tile_rows(), met = std::min(m, experts);
      // The worst there is: all experts but one have one row, and that one a tile of a row beyond full ones.
      const int64_t worst = met - 1 + (m - (met - 1) + rows - 1) / rows;
      EXPECT_GE(plan->most_tiles, worst) << m << " rows, " << experts << " experts";
      EXPECT_LE(plan->most_tiles, m / rows + experts);
    }
  }
  EXPECT_EQ(most_tiles(4096, 128, 8), 40);
  EXPECT_EQ(most_tiles(3, 16, 8), 3);
}

TEST(Grouped90Plan, RowsAndResultsHaveAnyStrides) {
  ScaledProblem s = make_problem(100, 72, 64, 4);
  const std::string dense = chosen(s);
  ASSERT_NE(dense, "none");
  s.a.row = 1;
  s.a.k = 100;
  s.out_m = 1;
  s.out_n = 101;
  EXPECT_EQ(chosen(s), dense);
  s.n = 71;
  EXPECT_NE(chosen(s), "none");
}

TEST(Grouped90Plan, WeightsTheEngineCannotReadAreRefused) {
  EXPECT_EQ(chosen(make_problem(100, 72, 63, 4)), "none");  // rows of 126 bytes
  EXPECT_EQ(chosen(make_problem(100, 72, 0, 4)), "none");
  ScaledProblem along_n = make_problem(100, 72, 64, 4);
  along_n.b.row = 1;
  along_n.b.k = 72;
  EXPECT_EQ(chosen(along_n), "none");
  ScaledProblem shared = make_problem(100, 72, 64, 4);
  shared.b.batch = 0;
  EXPECT_EQ(chosen(shared), "none");
  Grouped90Facts f = facts();
  f.weights_aligned = false;
  EXPECT_EQ(chosen(make_problem(100, 72, 64, 4), f), "none");
  EXPECT_EQ(chosen(make_problem(100, 72, 64, kMaxExperts + 1)), "none");
  EXPECT_NE(chosen(make_problem(100, 72, 64, kMaxExperts)), "none");
}

TEST(Grouped90Plan, FormatsAndFinishes) {
  const auto with = [](auto change, DType input, DType out) {
    ScaledProblem s = make_problem(256, 256, 256, 4);
    Grouped90Facts f = facts(input, out);
    change(s, f);
    const auto plan = plan_grouped90(s, f);
    return plan ? std::optional(plan->finish) : std::nullopt;
  };
  const auto plain = [](ScaledProblem&, Grouped90Facts&) {};
  const auto by_row = [](ScaledProblem& s, Grouped90Facts&) {
    set_scales(&s.a, 1, 0, 0, 0);
    set_scales(&s.b, 1, 0, 0, 256);
  };
  const auto by_block = [](ScaledProblem& s, Grouped90Facts&) {
    set_scales(&s.a, 2, 1, 0, 0);
    set_scales(&s.b, 2, 1, 7, 4);
  };
  using enum Grouped90Finish;
  constexpr DType kHalf = DType::float16, kFloat = DType::float32, kFloat8 = DType::float8_e4m3;
  EXPECT_EQ(with(plain, kHalf, kHalf), none);
  EXPECT_EQ(with(plain, kHalf, kFloat), std::nullopt);
  EXPECT_EQ(with(plain, kFloat, kFloat), std::nullopt);
  EXPECT_EQ(with(plain, DType::int8, DType::int32), std::nullopt);
  EXPECT_EQ(with([](ScaledProblem& s, Grouped90Facts&) { s.alpha = 2; }, kHalf, kHalf), std::nullopt);
  EXPECT_EQ(with([](ScaledProblem&, Grouped90Facts& f) { f.bias = true; }, kHalf, kHalf), std::nullopt);
  EXPECT_EQ(with([](ScaledProblem&, Grouped90Facts& f) { f.weights = kFloat8; }, kHalf, kHalf), std::nullopt);
  for (DType out : {kFloat, kHalf, DType::bfloat16}) {
    EXPECT_EQ(with(plain, kFloat8, out), scales);
    EXPECT_EQ(with(by_row, kFloat8, out), scales);
    EXPECT_EQ(with(by_block, kFloat8, out), blocks);
  }
  EXPECT_EQ(with(by_row, DType::float8_e5m2, kFloat), scales);
  EXPECT_EQ(with(by_row, kFloat8, kFloat8), std::nullopt);
  const auto and_bias = [](auto change) {
    return [=](ScaledProblem& s, Grouped90Facts& f) {
      change(s, f);
      f.bias = true;
    };
  };
  EXPECT_EQ(with(and_bias(by_row), kFloat8, kHalf), scales_and_bias);
  EXPECT_EQ(with(and_bias(by_block), kFloat8, kHalf), std::nullopt);
  const auto scattered_bias = [&](ScaledProblem& s, Grouped90Facts& f) {
    and_bias(by_row)(s, f);
    f.bias_fits = false;
  };
  EXPECT_EQ(with(scattered_bias, kFloat8, kHalf), std::nullopt);
  const auto mixed = [&](ScaledProblem& s, Grouped90Facts& f) {
    by_block(s, f);
    set_scales(&s.b, 1, 0, 0, 256);
  };
  EXPECT_EQ(with(mixed, kFloat8, kHalf), std::nullopt);
  const auto odd = [&](ScaledProblem& s, Grouped90Facts& f) {
    by_row(s, f);
    s.n = 258;  // rows of 516 bytes
  };
  EXPECT_EQ(with(odd, kFloat8, kHalf), std::nullopt);
}

}  // namespace
}  // namespace gpukit::cuda
