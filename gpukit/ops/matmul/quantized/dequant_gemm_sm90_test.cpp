#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gpukit/ops/common/rounding.h"

namespace gpukit::cuda {
namespace {

constexpr int kShared = 232448;

ScaledProblem problem(int64_t m, int64_t n, int64_t k) {
  ScaledProblem s = {};
  s.m = m, s.n = n, s.k = k;
  s.out = Code::bfloat16;
  return s;
}
DequantGemmFacts facts(Code weights, int group, bool zero = false, int sm_count = 132) {
  return {sm_count, kShared, weights, group, zero, true};
}
std::string chosen(int64_t m, int64_t n, int64_t k, const DequantGemmFacts& f) {
  const auto plan = plan_dequant_gemm(problem(m, n, k), f);
  if (!plan) return "none";
  return std::to_string(plan->share.rows) + "x" + std::to_string(plan->columns) + ", " + std::to_string(plan->grid) +
         " blocks" + (plan->blocks > 1 ? " in clusters of " + std::to_string(plan->blocks) : "") +
         (plan->share.ways > 1 ? " of " + std::to_string(plan->share.ways) + " ways" : "");
}

TEST(DequantGemm, ChoosesByShape) {
  const DequantGemmFacts int4 = facts(Code::int4, 128), nvfp4 = facts(Code::float4_e2m1, 16);
  EXPECT_EQ(chosen(16, 14336, 4096, int4), "128x16, 112 blocks");
  EXPECT_EQ(chosen(32, 1024, 8192, int4), "64x32, 64 blocks in clusters of 4");
  EXPECT_EQ(chosen(32, 8192, 8192, int4), "64x32, 128 blocks of 2 ways");
  EXPECT_EQ(chosen(32, 8192, 2048, int4), "64x32, 128 blocks");
  EXPECT_EQ(chosen(2048, 8192, 4096, int4), "128x160, 132 blocks");
  EXPECT_EQ(chosen(2048, 8192, 4096, nvfp4), "128x192, 132 blocks");
}

/// What the kernel can do, for every shape.
TEST(DequantGemm, FitsTheKernel) {
  struct Case {
    Code weights;
    int group;
    bool zero;
  };
  for (const Case& c : {Case{Code::int8, 0, false}, Case{Code::float8_e4m3, 128, false}, Case{Code::int4, 32, true},
                        Case{Code::int4, 128, false}, Case{Code::float4_e2m1, 16, false}})
    for (const int sms : {1, 16, 78, 132})
      for (int64_t m : {2, 16, 33, 64, 100, 300, 4096})
        for (int64_t n : {1, 7, 300, 4096, 29568, 128256})
          for (int64_t k : {32, 640, 2048, 4096, 14336, 102400})
            for (const Code out : {Code::bfloat16, Code::float32})
              for (const bool tma_store : {false, true}) {
                ScaledProblem s = problem(m, n, k);
                s.out = out;
                DequantGemmFacts f = facts(c.weights, c.group, c.zero, sms);
                f.tma_store = tma_store;
                const auto plan = plan_dequant_gemm(s, f);
                ASSERT_TRUE(plan) << m << " " << n << " " << k;
                const DequantGemm& share = plan->share;
                const int64_t chains = c.group == 0 ? 1 : ceil_div(k, DequantGemm::kChain);
                EXPECT_LE(share.shared_bytes(plan->columns), kShared);
                EXPECT_GE(share.weight_stages, 2);
                EXPECT_GE(share.token_stages, 2);
                EXPECT_LE(std::max(share.weight_stages, share.token_stages), DequantGemm::kMaxStages);
                EXPECT_EQ(share.rows * share.ways, 64 * share.warpgroups);
                EXPECT_LE(share.warpgroups, DequantGemm::kMaxWarpgroups);
                EXPECT_LE(share.tokens, plan->columns);
                EXPECT_GE(int64_t{share.token_tiles} * plan->columns, m);
                EXPECT_EQ(share.tiles, ceil_div(n, share.rows) * share.token_tiles);
                // Every block of a cluster has a chain, and each a tile; one block has all chains of its tiles.
                EXPECT_LE(plan->blocks, chains);
                EXPECT_EQ(plan->grid % static_cast<unsigned>(plan->blocks), 0u);
                if (plan->blocks > 1) {
                  EXPECT_EQ(plan->grid, static_cast<unsigned>(share.tiles * plan->blocks));
                  EXPECT_EQ(share.tma_store, 0);
                  EXPECT_EQ(share.slots, ceil_div(chains, plan->blocks));
                  EXPECT_EQ(share.ways, 1);
                } else if (share.ways > 1) {
                  EXPECT_EQ(share.ways, share.warpgroups);
                  EXPECT_LE(share.ways, chains);
                  EXPECT_EQ(share.slots, chains);
                  EXPECT_LE(plan->grid, static_cast<unsigned>(sms));
                  EXPECT_EQ(share.tma_store, 0);
                } else {
                  EXPECT_EQ(share.slots, chains > 1 ? 1 : 0);
                  EXPECT_LE(plan->grid, static_cast<unsigned>(sms));
                  EXPECT_EQ(share.tma_store, tma_store ? 1 : 0);
                }
                const int slots = std::max(share.slots, share.tma_store != 0 ? 0 : 1);
                EXPECT_GE(share.kept_bytes, slots * DequantGemm::slot_bytes(plan->columns));
                EXPECT_EQ(share.kept_bytes % 1024, 0);  // where boxes leave from
              }
}

}  // namespace
}  // namespace gpukit::cuda
