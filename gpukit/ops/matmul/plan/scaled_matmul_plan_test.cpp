#include "gpukit/ops/matmul/plan/scaled_matmul_plan.h"

#include <gtest/gtest.h>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/scales.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using cuda::MatmulChip;
using testing::kCpu;

constexpr MatmulChip kHopper = {132, 232448, 9}, kAmpere = {108, 166912, 8}, kAda = {128, 101376, 8},
                     kBlackwell = {148, 232448, 10};

/// Rows and columns of a block of scales; group 0: one scale a row, rows 0: one for the tensor.
struct Format {
  DType weights;
  int64_t group, rows = 1;
};
constexpr Format kInt4 = {DType::int4, 128}, kNvfp4 = {DType::float4_e2m1, 16}, kInt8Row = {DType::int8, 0},
                 kFloat8Row = {DType::float8_e4m3, 0}, kFloat8Blocks = {DType::float8_e4m3, 128, 128};

/// x [m, k] by weights [n, k] into bfloat16 (float32 for float32): nothing is read, so plain memory will do.
ScaledProduct product(DType x, const Format& f, int64_t m, int64_t n, int64_t k) {
  const auto operand = [](const Quantized& q, const CodeShape& shape) {
    ScaledOperand o = {};
    o.code = code_of("test", "weights", q.data.dtype());
    o.row = q.data.strides()[0], o.k = q.data.strides()[1];
    o.has_scale = q.scale.defined() ? 1 : 0;
    if (q.scale.defined()) o.scale = scale_layout("test", "scale", q.scale, shape, false);
    return o;
  };
  const DType out = x == DType::float32 ? x : DType::bfloat16;
  ScaledProduct p;
  p.a.data = Array::empty({m, k}, x, kCpu);
  p.b.data = Array::empty({n, is_packed(f.weights) ? k / 2 : k}, f.weights, kCpu);
  p.b.scale = Array::empty({ceil_div(n, f.rows), f.group == 0 ? 1 : ceil_div(k, f.group)},
                           f.weights == DType::float4_e2m1 ? DType::float8_e4m3 : DType::float32, kCpu);
  p.out = Array::empty({m, n}, out, kCpu);
  p.problem = {};
  p.problem.m = m, p.problem.n = n, p.problem.k = k;
  p.problem.a = operand(p.a, {1, m, k});
  p.problem.b = operand(p.b, {1, n, k});
  p.problem.alpha = 1.0f;
  p.problem.out = code_of("test", "out", out);
  p.problem.out_m = n, p.problem.out_n = 1;
  return p;
}

/// The file of the kernel that the plan prints last.
std::string file_of(const ScaledProduct& p, const MatmulChip& chip, bool one_order = false) {
  const std::string text = str(p, plan_scaled_matmul(p, chip, one_order));
  const size_t first = text.find('(', text.find("gpukit::")), last = text.find(".cuh)", first);
  return first == std::string::npos || last == std::string::npos ? text : text.substr(first + 1, last - first - 1);
}

TEST(ScaledMatmulPlan, FileByChipAndRows) {
  struct Case {
    DType x;
    Format format;
    int64_t m;
    const char *hopper, *ada;
  };
  constexpr DType kHalf = DType::bfloat16, kFloat8 = DType::float8_e4m3;
  for (const Case& c : {
           Case{kHalf, kInt4, 1, "dequant_gemv", "dequant_gemv"},
           Case{kHalf, kInt4, 4, "group_scaled_split_k_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kInt4, 16, "dequant_gemm_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kInt4, 700, "dequant_gemm_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kNvfp4, 1, "nvfp4_gemv", "nvfp4_gemv"},
           Case{kHalf, kNvfp4, 16, "group_scaled_split_k_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kInt8Row, 1, "dequant_gemv", "dequant_gemv"},
           Case{kHalf, kInt8Row, 16, "w8a16_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kFloat8Blocks, 16, "group_scaled_split_k_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kFloat8Row, 1, "dequant_gemv", "dequant_gemv"},
           Case{kHalf, kFloat8Row, 16, "w8a16_fp8x2_sm90", "dequant_gemm_sm80"},
           Case{kHalf, kFloat8Row, 300, "w8a16_fp8x2_sm90", "dequant_gemm_sm80"},
           Case{kFloat8, kFloat8Row, 1, "dequant_gemv", "dequant_gemv"},
           Case{kFloat8, kFloat8Row, 16, "gemm_sm90_swap_ab", "any_format"},
           Case{kFloat8, kFloat8Row, 300, "gemm_sm90", "any_format"},
           Case{DType::float32, kInt8Row, 1, "any_format", "any_format"},
           Case{DType::int8, kInt8Row, 16, "any_format", "any_format"},
       }) {
    const ScaledProduct p = product(c.x, c.format, c.m, 12288, 4096);
    EXPECT_EQ(file_of(p, kHopper), c.hopper) << name(c.x) << " by " << name(c.format.weights) << ", " << c.m;
    for (const MatmulChip& chip : {kAda, kAmpere, kBlackwell})
      EXPECT_EQ(file_of(p, chip), c.ada) << name(c.x) << " by " << name(c.format.weights) << ", " << c.m;
  }
}

/// Small layers of float8 do not pay for taking rows apart; a row alone does not either, unless it must have the bits
/// of several.
TEST(ScaledMatmulPlan, OneOrderForEveryNumberOfRows) {
  const auto file = [](int64_t m, int64_t n, bool one_order) {
    return file_of(product(DType::bfloat16, kFloat8Row, m, n, 4096), kHopper, one_order);
  };
  EXPECT_EQ(file(16, 4096, false), "w8a16_sm90");
  EXPECT_EQ(file(1, 12288, true), "w8a16_fp8x2_sm90");
  EXPECT_EQ(file(1, 12288, false), "dequant_gemv");
  EXPECT_EQ(file(1, 4096, true), "dequant_gemv");
}

TEST(ScaledMatmulPlan, PrintsWhatIsLaunched) {
  const ScaledProduct p = product(DType::bfloat16, kInt4, 1, 14336, 4096);
  const auto plan = plan_scaled_matmul(p, kHopper, false);
  EXPECT_EQ(str(p, plan),
            "one row on CUDA cores: gpukit::dequant_gemv<gpukit::packed_int4, gpukit::bfloat16, 2, 128, "
            "false, 1> (dequant_gemv.cuh), 528 blocks of 128 threads, " +
                std::to_string(std::get<cuda::DequantPlan>(plan).shared_bytes) + " bytes of shared memory");
  // Rows that are taken apart beforehand are two kernels.
  const ScaledProduct rows = product(DType::bfloat16, kFloat8Row, 300, 12288, 4096);
  EXPECT_NE(str(rows, plan_scaled_matmul(rows, kHopper, false)).find("after gpukit::split_rows"), std::string::npos);
}

TEST(ScaledMatmulPlan, RefusesWhatIsInsistedOn) {
  ScaledProduct p = product(DType::float8_e4m3, kFloat8Row, 16, 4096, 4096);
  p.kernel = MatmulKernel::wgmma;
  EXPECT_EQ(file_of(p, kHopper), "gemm_sm90_swap_ab");
  EXPECT_THROW(plan_scaled_matmul(p, kAda, false), UnsupportedError);
}

}  // namespace
}  // namespace gpukit
