#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/hopper/pdl.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::Fp8x2Plan;
using cuda::MatmulChip;
using cuda::plan_fp8x2;
using testing::kCpu;

constexpr MatmulChip kHopper = {132, 232448, 9};

/// m rows by w [n, k] with a scale for each of its rows.
ScaledProduct product(int64_t m, int64_t n, int64_t k, DType x = DType::bfloat16, DType w = DType::float8_e4m3) {
  ScaledProduct p;
  p.a.data = Array::empty({1, 1024}, x, kCpu);  // its memory is not looked at
  p.b.data = Array::empty({1, 1024}, w, kCpu);
  p.problem = {};
  p.problem.m = m, p.problem.n = n, p.problem.k = k;
  p.problem.a.row = p.problem.b.row = k;
  p.problem.a.k = p.problem.b.k = 1;
  p.problem.b.code = w == DType::float8_e4m3 ? Code::float8_e4m3 : Code::int8;
  p.problem.out = Code::bfloat16;
  return p;
}

TEST(Fp8x2, TakesBfloat16ByFloat8) {
  // Every number of rows is judged alike.
  for (int64_t m : {1, 2, 33, 4096})
    for (bool room : {false, true}) {
      const auto planned = [&](const ScaledProduct& p, const MatmulChip& chip = kHopper) {
        return plan_fp8x2(p, chip, room).has_value();
      };
      EXPECT_TRUE(planned(product(m, 300, 1152)));
      EXPECT_FALSE(planned(product(m, 300, 896)));
      EXPECT_FALSE(planned(product(m, 300, 1088)));
      EXPECT_FALSE(planned(product(m, 300, 1152, DType::float16)));
      EXPECT_FALSE(planned(product(m, 300, 1152, DType::bfloat16, DType::int8)));
      for (int major : {8, 10, 12}) EXPECT_FALSE(planned(product(m, 300, 1152), {132, 232448, major}));
      ScaledProduct p = product(m, 300, 1152);
      p.problem.out = Code::float32;
      EXPECT_FALSE(planned(p));
      p.problem.out = Code::float16;
      EXPECT_TRUE(planned(p));
      p.problem.a.row = 1156;
      EXPECT_FALSE(planned(p));
      p.problem.a.row = 1160;
      EXPECT_TRUE(planned(p));
      p.problem.experts = 2;
      EXPECT_FALSE(planned(p));
    }
}

/// The same for every number of rows, as the product has bits of its own.
TEST(Fp8x2, IsTheDefaultOfLargeLayers) {
  for (int64_t m : {1, 8, 4096}) {
    const auto is_default = [&](int64_t n, int64_t k) { return cuda::is_fp8x2_by_default(product(m, n, k).problem); };
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{4096, 14336},
                               {18944, 3584},
                               {8192, 5860},
                               {19000, 2527},
                               {26400, 4096},
                               {29568, 8192}})
      EXPECT_TRUE(is_default(n, k)) << n << " " << k;
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{4608, 3584},
                               {8192, 5859},
                               {19000, 2526},
                               {19001, 4096},
                               {26399, 4096},
                               {29569, 8192},
                               {0, 4096}})
      EXPECT_FALSE(is_default(n, k)) << n << " " << k;
  }
}

TEST(Fp8x2, SharesLayers) {
  struct Case {
    int64_t m, n, k;
    int columns, blocks, rows, tiles;
  };
  for (const Case& c : {Case{8, 14336, 4096, 112, 1, 110, 131}, Case{32, 29568, 8192, 224, 1, 224, 132},
                        Case{32, 16384, 4096, 128, 1, 126, 131}, Case{16, 18944, 3584, 144, 1, 144, 132},
                        Case{32, 37888, 3584, 144, 1, 144, 264},
                        // Few weights a multiprocessor: blocks of a cluster share k.
                        Case{8, 8192, 8192, 128, 2, 126, 66}, Case{32, 8192, 29568, 128, 2, 126, 66},
                        Case{32, 3584, 18944, 120, 4, 120, 30}, Case{32, 3712, 14336, 128, 4, 124, 30},
                        Case{1, 4096, 14336, 144, 4, 138, 30},
                        // More than 32 rows.
                        Case{64, 14336, 4096, 128, 1, 110, 131}, Case{33, 18944, 3584, 144, 1, 144, 132},
                        Case{64, 8192, 8192, 128, 2, 126, 66}, Case{64, 3584, 18944, 128, 4, 120, 30},
                        Case{64, 4096, 14336, 144, 4, 138, 30}, Case{1024, 14336, 4096, 128, 1, 126, 1824}}) {
    const Fp8x2Plan plan = *plan_fp8x2(product(c.m, c.n, c.k), kHopper, true);
    EXPECT_EQ(plan.form.columns, c.columns) << c.m << " " << c.n;
    EXPECT_EQ(plan.form.blocks, c.blocks) << c.m << " " << c.n;
    EXPECT_EQ(plan.tiling.rows, c.rows) << c.m << " " << c.n;
    EXPECT_EQ(plan.tiling.tiles, c.tiles) << c.m << " " << c.n;
  }
}

/// What the kernel can do, for every shape.
TEST(Fp8x2, FitsTheKernel) {
  for (const int sms : {1, 16, 32, 100, 132})
    for (int64_t n : {1, 7, 300, 3584, 4096, 14336, 29568, 128256})
      for (int64_t k : {1024, 1152, 3584, 29568, 102400})
        for (int64_t m : {1, 2, 8, 9, 31, 32, 33, 64, 65, 100, 4096, 40000})
          for (bool room : {false, true}) {
            const Fp8x2Plan plan = *plan_fp8x2(product(m, n, k), {sms, 232448, 9}, room);
            const Fp8x2Form& form = plan.form;
            const Fp8x2Tiling& p = plan.tiling;
            EXPECT_EQ(form.whole, m <= 32 || !room);
            EXPECT_TRUE(form.blocks == 1 || sms >= 8);
            EXPECT_LE(p.rows, form.columns);
            EXPECT_EQ(p.rows % 2, 0);  // stored in pairs
            EXPECT_LE(p.groups * Fp8x2Tiling::kGroup, form.tokens());
            EXPECT_GE(p.groups * Fp8x2Tiling::kGroup, std::min<int64_t>(m, form.tokens()));
            EXPECT_EQ(p.chains * Fp8x2Tiling::kChain, k);
            EXPECT_GE(p.chains, Fp8x2Tiling::kPieces);
            EXPECT_GE(p.stages, 2);
            EXPECT_LE(form.ways() * p.stages, Fp8x2Tiling::kMaxStages);
            // The sums of all groups lie in the ring of a way before they are sent.
            EXPECT_GE(p.stages * p.stage_bytes(), p.groups * Fp8x2Tiling::group_bytes(form));
            EXPECT_EQ(plan.shared_bytes, static_cast<unsigned>(p.shared_bytes(form)));
            EXPECT_LE(plan.shared_bytes, 232448u);
            EXPECT_EQ(p.first, 0);
            EXPECT_EQ(p.last, plan.step);
            EXPECT_LE(plan.step, m);
            EXPECT_EQ(p.token_tiles, ceil_div(plan.step, form.tokens()));
            EXPECT_EQ(p.tiles, ceil_div(n, p.rows) * p.token_tiles);
            EXPECT_EQ(p.padded, p.token_tiles * form.tokens());
            for (int piece = 0; piece < Fp8x2Tiling::kPieces; ++piece)  // it asks for chains of its own
              EXPECT_LE(ceil_div(p.ahead, form.ways()), p.first_chain(piece + 1) - p.first_chain(piece));
            // A cluster has one tile; a block alone may have several.
            EXPECT_EQ(plan.grid % static_cast<unsigned>(form.blocks), 0u);
            if (form.blocks > 1)
              EXPECT_EQ(plan.grid, static_cast<unsigned>(p.tiles * form.blocks));
            else
              EXPECT_EQ(plan.grid, static_cast<unsigned>(std::min(sms, p.tiles)));
            EXPECT_EQ(plan.overlaps, cuda::should_overlap(plan.grid, sms));
            if (form.whole) {
              EXPECT_EQ(plan.step, m);
              continue;
            }
            const int64_t values = ceil_div(plan.step, 8) * 16 * k, factors = int64_t{4} * p.chains * p.padded;
            EXPECT_LE(values + factors, cuda::kMaxRoomBytes);
            EXPECT_TRUE(plan.step == m || plan.step % form.tokens() == 0);
          }
}

}  // namespace
}  // namespace gpukit
