#include "gpukit/ops/matmul/plan/scaled_matmul_plan.h"

#include <algorithm>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/matmul/quantized/dequant_launch.h"

namespace gpukit::cuda {
namespace {

enum Kernel { of_floats, of_integers };
const jit::KernelSet any_format_kernels("gpukit/ops/matmul/quantized/any_format.cuh",
                                        {"gpukit::scaled_matmul<float>", "gpukit::scaled_matmul<int>"});

/// bfloat16 by float8 on the unit for float8, where it is asked for or the default.
bool wants_fp8x2(const ScaledProduct& p, bool one_order) {
  if (p.kernel != MatmulKernel::automatic) return p.kernel == MatmulKernel::wgmma;
  return is_fp8x2_by_default(p.problem) && (one_order || p.problem.m > 1);
}

AnyFormatPlan plan_any_format(const ScaledProblem& s) {
  constexpr int64_t kTile = 64, kMaxGrid = 0x7fffffff;
  return {static_cast<unsigned>(std::min(ceil_div(s.m, kTile) * ceil_div(s.n, kTile), kMaxGrid))};
}

struct Text {
  const ScaledProduct& p;

  std::string operator()(const Fp8x2Plan& plan) const {
    const std::string sums = "bfloat16 as two float8 numbers: " + call_of(p, plan).str();
    if (plan.form.whole) return sums;
    const int64_t steps = ceil_div(p.problem.m, plan.step);
    return sums + ", after " + split_call_of(p, plan).str() +
           (steps > 1 ? "; " + std::to_string(steps) + " times, for " + std::to_string(plan.step) + " rows each" : "");
  }
  std::string operator()(const DequantPlan& plan) const {
    const char* what = plan.blocks != 0     ? "k split over a cluster: "
                       : plan.instance >= 0 ? "weights as the rows of wgmma: "
                       : plan.tokens != 1   ? "weights dequantised in registers before mma: "
                                            : "one row on CUDA cores: ";
    return what + call_of(p, plan).str();
  }
  std::string operator()(const DequantGemmPlan& plan) const {
    const char* split = plan.share.ways > 1 ? ", k split over two warpgroups"
                        : plan.blocks > 1   ? ", k split over a cluster"
                                            : "";
    return std::string("weights dequantised in registers before wgmma") + split + ": " + call_of(p, plan).str();
  }
  std::string operator()(const VendorPlan& plan) const { return plan.str(); }
  std::string operator()(const Grouped90Plan& plan) const { return plan.str(); }
  std::string operator()(const ScaledGemm90Plan& plan) const {
    return std::string("wgmma, sums of 128 of k added in ascending order") +
           (plan.blocked ? ", scales of blocks" : "") + (plan.swap_ab ? ", weights as its rows: " : ": ") +
           call_of(p, plan).str();
  }
  std::string operator()(const AnyFormatPlan& plan) const {
    return "CUDA cores, tiles of 64x64: " + call_of(p, plan).str();
  }
};

}  // namespace

ScaledMatmulPlan plan_scaled_matmul(const ScaledProduct& p, const MatmulChip& chip, bool one_order,
                                    VendorQuestion vendor) {
  if (wants_fp8x2(p, one_order))
    if (const auto plan = plan_fp8x2(p, chip, true)) return *plan;
  if (p.kernel == MatmulKernel::automatic)
    if (const auto plan = plan_dequant_kernel(p, chip, one_order)) {
      if (const auto faster = plan_dequant_gemm_instead(p, *plan, chip)) return *faster;
      return *plan;
    }
  if (vendor != nullptr)
    if (auto plan = vendor(p, one_order)) return *std::move(plan);
  if (const auto plan = plan_grouped90(p, p.out.dtype(), chip)) return *plan;
  if (const auto plan = plan_scaled_gemm90(p, chip)) return *plan;
  if (p.kernel == MatmulKernel::wgmma)
    throw UnsupportedError(
        "scaled_matmul: kernel 'wgmma' needs sm_90, k dense and rows at multiples of 16 bytes, and either float8 "
        "operands of one dtype with scales for the tensor, rows or blocks of 128, or bfloat16 by float8_e4m3 with "
        "scales for the tensor or rows, a k that is a multiple of 128 and at least 1024, and a result of 16 bits");
  return plan_any_format(p.problem);
}

KernelCall call_of(const ScaledProduct& p, const AnyFormatPlan& plan) {
  return {&any_format_kernels.get(p.of_integers() ? of_integers : of_floats), {.grid_x = plan.grid, .block_x = 256}};
}

std::string str(const ScaledProduct& product, const ScaledMatmulPlan& plan) { return std::visit(Text{product}, plan); }

}  // namespace gpukit::cuda
