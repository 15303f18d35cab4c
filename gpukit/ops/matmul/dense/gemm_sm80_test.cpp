#include "gpukit/ops/matmul/dense/gemm_sm80.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/plan/matmul_problem_test.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::gemm80;
using cuda::gemm80_has;
using cuda::Gemm80Plan;
using cuda::Gemm80Tile;
using cuda::plan_gemm80;
using testing::kCuda;
using testing::matmul_problem;

/// b[n][k].
MatmulProblem linear_problem(int64_t m, int64_t n, int64_t k) { return matmul_problem(m, n, k, true); }
Gemm80Plan plan(const MatmulProblem& s, int sm_count = 132, DType dtype = DType::bfloat16) {
  return plan_gemm80(s, dtype, true, true, sm_count);
}

TEST(Gemm80, HasTheTypesOfTheTensorCores) {
  EXPECT_TRUE(gemm80_has(DType::float16, DType::float16));
  EXPECT_TRUE(gemm80_has(DType::bfloat16, DType::float32));
  EXPECT_TRUE(gemm80_has(DType::float32, DType::float32));
  EXPECT_TRUE(gemm80_has(DType::int8, DType::int32));
  EXPECT_FALSE(gemm80_has(DType::float16, DType::bfloat16));
  EXPECT_TRUE(gemm80_has(DType::int8, DType::int8));
  EXPECT_FALSE(gemm80_has(DType::int8, DType::int64));
  EXPECT_FALSE(gemm80_has(DType::float64, DType::float64));
  EXPECT_FALSE(gemm80_has(DType::int32, DType::int32));
}

TEST(Gemm80, TilesFitAChipWith100Kilobytes) {
  // A block may have 99 KB, and each costs 1 KB more than it asks for.
  for (int bytes : {GemmTile16x32::kSharedBytes, GemmTile64x64::kSharedBytes, GemmTileAny::kSharedBytes,
                    GemmTile128x128::kSharedBytes})
    EXPECT_LE(2 * (bytes + 1024), 100 * 1024) << bytes;
  for (int bytes : {GemmTile128x128Deep::kSharedBytes, GemmTile128x256::kSharedBytes}) EXPECT_LE(bytes, 99 * 1024);
}

TEST(Gemm80, PlanSeesLayouts) {
  Gemm80Plan p = plan(matmul_problem(512, 512, 512));
  EXPECT_EQ(p.a, Major::k);
  EXPECT_EQ(p.b, Major::mn);
  p = plan(linear_problem(512, 512, 512));
  EXPECT_EQ(p.b, Major::k);
  // The strides of an axis of one do not count.
  MatmulProblem s = linear_problem(1, 4096, 4096);
  s.a_m = 3;
  EXPECT_EQ(plan(s).a, Major::k);
  // What no 16-byte copy can read.
  EXPECT_EQ(plan(matmul_problem(512, 511, 512)).tile, Gemm80Tile::any);
  EXPECT_EQ(plan_gemm80(matmul_problem(512, 512, 512), DType::bfloat16, false, true, 132).tile, Gemm80Tile::any);
  s = matmul_problem(512, 512, 512);
  s.a_k = 2;
  EXPECT_EQ(plan(s).a, Major::any);
  EXPECT_EQ(plan(s).b, Major::any);
  s = matmul_problem(64, 64, 64);
  s.batches = 2, s.batch_rank = 1, s.batch_shape[0] = 2, s.batch_b[0] = 64 * 64;
  EXPECT_EQ(plan(s).tile, Gemm80Tile::t64x64);
  s.batch_b[0] = 64 * 64 + 4;
  EXPECT_EQ(plan(s).tile, Gemm80Tile::any);
}

TEST(Gemm80, PlanPicksTiles) {
  EXPECT_EQ(plan(linear_problem(4096, 4096, 4096)).tile, Gemm80Tile::t128x256);
  EXPECT_EQ(plan(linear_problem(4096, 4096, 4096)).blocks, 32 * 16);
  EXPECT_EQ(plan(linear_problem(1, 14336, 4096)).tile, Gemm80Tile::t16x32);
  EXPECT_EQ(plan(linear_problem(16, 4096, 14336)).tile, Gemm80Tile::t16x32);
  EXPECT_EQ(plan(linear_problem(17, 4096, 4096)).tile, Gemm80Tile::t64x64);
  EXPECT_EQ(plan(linear_problem(512, 512, 512)).str(DType::bfloat16), "mma 64x64, a along k, b along k, 64 blocks");
  EXPECT_EQ(plan(linear_problem(64, 4096, 4096)).tile, Gemm80Tile::t64x64);
  EXPECT_EQ(plan(linear_problem(33, 70, 5)).tile, Gemm80Tile::any);
  EXPECT_EQ(plan(linear_problem(33, 70, 5)).blocks, 2);
}

TEST(Gemm80, PlanSwapsColumnsForRows) {
  MatmulProblem s = linear_problem(512, 512, 512);
  EXPECT_FALSE(plan(s).swapped);
  s.out_m = 1, s.out_n = 512;
  EXPECT_TRUE(plan(s).swapped);
  const Gemm80Plan p = plan(matmul_problem(4096, 16, 4096));
  EXPECT_TRUE(p.swapped);
  EXPECT_EQ(p.a, Major::mn);  // b was, and is the left one now
  EXPECT_EQ(p.b, Major::k);
  EXPECT_EQ(plan(linear_problem(4096, 16, 4096)).tile, Gemm80Tile::t16x32);
  EXPECT_FALSE(plan(matmul_problem(16, 16, 64)).swapped);
}

MatmulProblem problem_of(const Array& out, const Array& a, const Array& b) {
  MatmulProblem s = matmul_problem(a.shape(0), b.shape(1), a.shape(1));
  s.a_m = a.strides()[0], s.a_k = a.strides()[1];
  s.b_k = b.strides()[0], s.b_n = b.strides()[1];
  s.out_m = out.strides()[0], s.out_n = out.strides()[1];
  return s;
}

/// Rows of `width` elements from element `start` on, or the transpose of such.
Array operand(int64_t rows, int64_t columns, bool transposed, int64_t start, DType dtype, uint64_t seed) {
  const int64_t height = transposed ? columns : rows, width = transposed ? rows : columns;
  const int64_t pitch = (width + start + 15) / 16 * 16 + (start != 0);
  const double span = is_integer(dtype) ? 100 : 1;
  const Array whole = testing::make_array(
      testing::random_values(static_cast<size_t>(height * pitch), seed, -span, span), {height, pitch}, dtype, kCuda);
  const Array part = whole.narrow(1, start, width);
  return transposed ? part.transpose() : part;
}

TEST(Gemm80, MatchesFloat64) {
  GPUKIT_NEEDS_GPU();
  struct Case {
    int64_t m, n, k;
  };
  for (const Case& c : {Case{1, 1, 1},
                        {1, 200, 300},
                        {16, 64, 64},
                        {31, 65, 129},
                        {70, 33, 1000},
                        {128, 256, 32},
                        {130, 520, 77},
                        {300, 17, 40},
                        {257, 300, 0}})
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::int8})
      for (int layout = 0; layout < 8; ++layout) {
        const int64_t start = layout / 4;  // 1: nothing is aligned
        const Array a = operand(c.m, c.k, layout & 1, start, dtype, 1),
                    b = operand(c.k, c.n, layout & 2, start, dtype, 2);
        for (const DType out_dtype : {dtype, dtype == DType::int8 ? DType::int32 : DType::float32}) {
          if (!gemm80_has(dtype, out_dtype)) continue;
          const Array whole = full({c.m + 2, c.n + 3}, 99, out_dtype, kCuda);
          const Array out = whole.narrow(0, 1, c.m).narrow(1, 2, c.n);
          const MatmulProblem s = problem_of(out, a, b);
          gemm80(out, a, b, s, plan_gemm80(s, dtype, is_aligned(a), is_aligned(b), 132));
          const std::vector<double> x = testing::to_doubles(a), y = testing::to_doubles(b);
          std::vector<double> expected(static_cast<size_t>((c.m + 2) * (c.n + 3)), 99);
          for (int64_t i = 0; i < c.m; ++i)
            for (int64_t j = 0; j < c.n; ++j) {
              double sum = 0;
              for (int64_t k = 0; k < c.k; ++k) sum += x[i * c.k + k] * y[k * c.n + j];
              const bool wraps = out_dtype == DType::int8;
              expected[(i + 1) * (c.n + 3) + j + 2] = wraps ? static_cast<int8_t>(static_cast<int64_t>(sum)) : sum;
            }
          // TF32 keeps 11 bits of each factor. Products of 16 bits are exact, but a step of 16 cuts what it adds.
          const double steps = 1 + static_cast<double>(c.k) / 16;
          const double bound = dtype == DType::float32 ? 0x1p-10 * (1 + std::sqrt(static_cast<double>(c.k)))
                               : dtype == DType::int8  ? 0
                                                       : 0x1p-20 * steps;
          EXPECT_TRUE(testing::all_close(whole, expected, testing::epsilon(out_dtype), bound))
              << name(dtype) << " " << c.m << " " << c.n << " " << c.k << " layout " << layout;
        }
      }
}

}  // namespace
}  // namespace gpukit
