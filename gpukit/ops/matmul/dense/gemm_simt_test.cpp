#include "gpukit/ops/matmul/dense/gemm_simt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/create/create.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/dense/gemm_simt_tile.cuh"
#include "gpukit/ops/matmul/plan/matmul_problem_test.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::gemm_simt;
using cuda::GemmSimtPlan;
using cuda::GemmSimtTile;
using cuda::plan_gemm_simt;
using testing::kCuda;
using testing::matmul_problem;

GemmSimtPlan plan(const MatmulProblem& s, DType dtype = DType::float32, bool a_aligned = true, bool b_aligned = true) {
  return plan_gemm_simt(s, dtype, a_aligned, b_aligned, 132).value();
}

TEST(GemmSimt, ServesFloatsOf32And64Bits) {
  const MatmulProblem s = matmul_problem(64, 64, 64);
  for (const DType dtype : {DType::float32, DType::float64})
    EXPECT_TRUE(plan_gemm_simt(s, dtype, true, true, 132)) << name(dtype);
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::int32, DType::complex64})
    EXPECT_FALSE(plan_gemm_simt(s, dtype, true, true, 132)) << name(dtype);
  // What 31 bits cannot count.
  EXPECT_TRUE(plan_gemm_simt(matmul_problem(1, 1, 2'000'000'000), DType::float32, true, true, 132));
  EXPECT_FALSE(plan_gemm_simt(matmul_problem(1, 1, int64_t{1} << 31), DType::float32, true, true, 132));
  MatmulProblem batched = matmul_problem(1, 1, 1);
  batched.batches = int64_t{1} << 31, batched.batch_rank = 1, batched.batch_shape[0] = batched.batches;
  EXPECT_FALSE(plan_gemm_simt(batched, DType::float32, true, true, 132));
}

TEST(GemmSimt, TwoBlocksFitAChipWith100Kilobytes) {
  // Each block costs 1 KB more than it asks for.
  for (int bytes : {SimtTile64x64::shared_bytes(4), SimtTile128x64::shared_bytes(4), SimtTile128x128::shared_bytes(4),
                    SimtTile64x64Double::shared_bytes(8), SimtTile128x64Double::shared_bytes(8)})
    EXPECT_LE(2 * (bytes + 1024), 100 * 1024) << bytes;
}

TEST(GemmSimt, PlanSeesLayouts) {
  GemmSimtPlan p = plan(matmul_problem(512, 512, 512));
  EXPECT_EQ(p.a, Major::k);
  EXPECT_EQ(p.b, Major::mn);
  EXPECT_FALSE(p.swapped);
  MatmulProblem s = matmul_problem(512, 512, 512);  // a[k][m], b[n][k]
  s.a_m = 1, s.a_k = 512, s.b_k = 1, s.b_n = 512;
  p = plan(s);
  EXPECT_EQ(p.a, Major::mn);
  EXPECT_EQ(p.b, Major::k);
  // Elements along k are copied one by one: nothing has to be aligned.
  s.b_n = 513;
  EXPECT_EQ(plan(s, DType::float32, true, false).b, Major::k);
  // Across k it is 16 bytes at a time.
  EXPECT_EQ(plan(s, DType::float32, false, true).a, Major::any);
  EXPECT_EQ(plan(s, DType::float32, false, true).b, Major::any);
  EXPECT_EQ(plan(matmul_problem(512, 510, 512)).b, Major::any);
  EXPECT_EQ(plan(matmul_problem(512, 510, 512), DType::float64).b, Major::mn);
  s = matmul_problem(512, 510, 512);  // rows of 512, of which 510 are used
  s.b_k = 512;
  EXPECT_EQ(plan(s).b, Major::any);
  s = matmul_problem(64, 64, 64);
  s.batches = 2, s.batch_rank = 1, s.batch_shape[0] = 2, s.batch_b[0] = 64 * 64;
  EXPECT_EQ(plan(s).b, Major::mn);
  s.batch_b[0] = 64 * 64 + 1;
  EXPECT_EQ(plan(s).b, Major::any);
  s.batches = 1, s.batch_shape[0] = 1;  // the stride of an axis of one does not count
  EXPECT_EQ(plan(s).b, Major::mn);
  s = matmul_problem(512, 512, 512);
  s.out_m = 1, s.out_n = 512;
  p = plan(s);
  EXPECT_TRUE(p.swapped);
  EXPECT_EQ(p.a, Major::mn);  // b was, and is the left one now
  EXPECT_EQ(p.b, Major::k);
}

TEST(GemmSimt, PlanPicksTiles) {
  EXPECT_EQ(plan(matmul_problem(4096, 4096, 4096)).str(), "tiles of 128x128, a along k, b along n, 1024 blocks");
  EXPECT_EQ(plan(matmul_problem(1024, 1024, 1024)).tile, GemmSimtTile::f32_128x64);
  EXPECT_EQ(plan(matmul_problem(1, 4096, 4096)).tile, GemmSimtTile::f32_64x64);
  EXPECT_EQ(plan(matmul_problem(33, 71, 5)).str(), "tiles of 64x64, a along any axis, b along any axis, 2 blocks");
  EXPECT_EQ(plan(matmul_problem(4096, 4096, 4096), DType::float64).tile, GemmSimtTile::f64_128x64);
  EXPECT_EQ(plan(matmul_problem(100, 100, 100), DType::float64).tile, GemmSimtTile::f64_64x64);
}

/// `rows` x `columns` from element `start` of longer rows on, or the transpose of such.
Array operand(int64_t rows, int64_t columns, bool transposed, int64_t start, double size, DType dtype, uint64_t seed) {
  const int64_t height = transposed ? columns : rows, width = transposed ? rows : columns;
  const int64_t pitch = (width + start + 3) / 4 * 4 + (start != 0);
  const Array whole = testing::make_array(
      testing::random_values(static_cast<size_t>(height * pitch), seed, -size, size), {height, pitch}, dtype, kCuda);
  const Array part = whole.narrow(1, start, width);
  return transposed ? part.transpose() : part;
}

/// The product in the order of sums that is promised, from row 1 and column `start` of rows of `pitch` on; else 99.
template <typename T>
std::vector<double> expected(const Array& a, const Array& b, int64_t start, int64_t pitch) {
  const std::vector<double> x = testing::to_doubles(a), y = testing::to_doubles(b);
  const int64_t m = a.shape(0), n = b.shape(1), k = a.shape(1);
  std::vector<double> result(static_cast<size_t>((m + 2) * pitch), 99);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t e = 0; e < k; ++e) sum = std::fma(static_cast<T>(x[i * k + e]), static_cast<T>(y[e * n + j]), sum);
      result[static_cast<size_t>((i + 1) * pitch + start + j)] = sum;
    }
  return result;
}

TEST(GemmSimt, EveryTileAndLayoutHasTheBitsOfTheOrder) {
  GPUKIT_NEEDS_GPU();
  struct Case {
    int64_t m, n, k;
  };
  struct Tile {
    GemmSimtTile number;
    DType dtype;
    int64_t rows, columns;
  };
  for (const Tile& tile : {Tile{GemmSimtTile::f32_128x128, DType::float32, 128, 128},
                           {GemmSimtTile::f32_128x64, DType::float32, 128, 64},
                           {GemmSimtTile::f32_64x64, DType::float32, 64, 64},
                           {GemmSimtTile::f64_128x64, DType::float64, 128, 64},
                           {GemmSimtTile::f64_64x64, DType::float64, 64, 64}})
    for (const Case& c : {Case{1, 1, 1},
                          {1, 200, 300},
                          {64, 64, 16},
                          {128, 128, 8},
                          {31, 68, 129},
                          {132, 260, 77},
                          {300, 17, 40},
                          {257, 300, 0}})
      for (int layout = 0; layout < 16; ++layout) {
        const int64_t start = layout / 4 % 2;  // 1: nothing is aligned
        // Small factors: every product vanishes, and leaves a sum of -0 or +0.
        const double size = layout < 8 ? 1 : tile.dtype == DType::float32 ? 1e-30 : 1e-200;
        const Array a = operand(c.m, c.k, layout & 1, start, size, tile.dtype, 1),
                    b = operand(c.k, c.n, layout & 2, start, size, tile.dtype, 2);
        const int64_t out_start = 4 - start, pitch = (c.n + out_start + 4) / 4 * 4;
        const Array whole = full({c.m + 2, pitch}, 99, tile.dtype, kCuda);
        const Array out = whole.narrow(0, 1, c.m).narrow(1, out_start, c.n);
        MatmulProblem s = matmul_problem(c.m, c.n, c.k);
        s.a_m = a.strides()[0], s.a_k = a.strides()[1];
        s.b_k = b.strides()[0], s.b_n = b.strides()[1];
        s.out_m = out.strides()[0], s.out_n = out.strides()[1];
        GemmSimtPlan p = plan(s, tile.dtype, is_aligned(a), is_aligned(b));
        p.tile = tile.number;
        p.blocks = (c.m + tile.rows - 1) / tile.rows * ((c.n + tile.columns - 1) / tile.columns);
        gemm_simt(out, a, b, s, p);
        const std::vector<double> got = testing::to_doubles(whole);
        const std::vector<double> wanted = tile.dtype == DType::float32 ? expected<float>(a, b, out_start, pitch)
                                                                        : expected<double>(a, b, out_start, pitch);
        ASSERT_EQ(got.size(), wanted.size());
        EXPECT_EQ(std::memcmp(got.data(), wanted.data(), got.size() * sizeof(double)), 0)
            << name(tile.dtype) << " " << c.m << "x" << c.n << "x" << c.k << " layout " << layout << ": " << p.str();
      }
}

}  // namespace
}  // namespace gpukit
