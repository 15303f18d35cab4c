#include <algorithm>
#include <optional>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/matmul/dense/grouped_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/dequant_plan.h"
#include "gpukit/ops/matmul/quantized/fp8_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90.h"
#include "gpukit/ops/matmul/vendor/cublaslt.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/session.h"

namespace gpukit::cuda {
namespace {

enum Kernel { of_floats, of_integers };
const jit::KernelSet kernels("gpukit/ops/matmul/quantized/any_format.cuh",
                             {"gpukit::scaled_matmul<float>", "gpukit::scaled_matmul<int>"});

/// Every format and layout on CUDA cores.
void any_format(const ScaledProduct& p) {
  constexpr int64_t kTile = 64, kMaxGrid = 0x7fffffff;
  const int64_t tiles = ceil_div(p.problem.m, kTile) * ceil_div(p.problem.n, kTile);
  jit::launch(kernels.get(p.of_integers() ? of_integers : of_floats), p.out.device(),
              {.grid_x = static_cast<unsigned>(std::min(tiles, kMaxGrid)), .block_x = 256}, write(p.out),
              read(p.a.data), read_if(p.a.scale), read_if(p.a.tensor_scale), read(p.b.data), read_if(p.b.scale),
              read_if(p.b.zero), read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), read_if(p.ids),
              runtime::fault_address(p.out.device()), p.problem);
}

/// cuBLASLt where it is asked for, or was measured to be faster and can serve.
std::optional<VendorPlan> plan_by_vendor(const ScaledProduct& p, bool one_order) {
  const bool wanted = p.kernel == MatmulKernel::cublaslt;
  std::string reason = "its order of sums may depend on the number of rows, which batch_invariant rules out";
  if (!one_order && p.kernel != MatmulKernel::wgmma && (wanted || scaled_vendor_wins(p)))
    if (auto plan = plan_scaled_vendor(p, &reason)) return plan;
  if (wanted) throw UnsupportedError("scaled_matmul: kernel 'cublaslt' cannot serve: " + reason);
  return std::nullopt;
}

/// bfloat16 by float8 on the unit for float8, where it is asked for or the default.
bool splits_rows(const ScaledProduct& p, bool one_order) {
  if (p.kernel != MatmulKernel::automatic) return p.kernel == MatmulKernel::wgmma;
  return is_fp8x2_by_default(p.problem) && (one_order || p.problem.m > 1);
}

bool invariant() { return runtime::determinism() == env::Determinism::batch_invariant; }

void check_not_insisted(const ScaledProduct& product) {
  if (product.kernel == MatmulKernel::wgmma)
    throw UnsupportedError(
        "scaled_matmul: kernel 'wgmma' needs sm_90, k dense and rows at multiples of 16 bytes, and either float8 "
        "operands of one dtype with scales for the tensor, rows or blocks of 128, or bfloat16 by float8_e4m3 with "
        "scales for the tensor or rows, a k that is a multiple of 128 and at least 512, and a result of 16 bits");
}

}  // namespace

/// The one place where a product meets its kernel; explain_scaled_matmul asks in the same order.
void scaled_matmul(const ScaledProduct& product) {
  const bool one_order = invariant();
  if (splits_rows(product, one_order) && launch_fp8x2(product)) return;
  if (product.kernel == MatmulKernel::automatic && launch_dequant_kernel(product, one_order)) return;
  if (const auto plan = plan_by_vendor(product, one_order)) return launch_scaled_vendor(*plan, product);
  if (launch_grouped90(product)) return;
  if (const auto plan = plan_scaled_gemm90(product)) return launch_scaled_gemm90(product, *plan);
  check_not_insisted(product);
  any_format(product);
}

std::string explain_scaled_matmul(const ScaledProduct& product) {
  const bool one_order = invariant();
  if (splits_rows(product, one_order) && has_fp8x2_plan(product))
    return "bfloat16 as two float8 numbers, wgmma by float8 weights (w8a16_fp8x2_sm90.cuh)";
  if (product.kernel == MatmulKernel::automatic)
    if (const auto text = explain_dequant_kernel(product, one_order)) return *text;
  if (const auto plan = plan_by_vendor(product, one_order)) return plan->str();
  if (const auto plan = plan_scaled_gemm90(product)) {
    const std::string scales = plan->blocked ? ", scales of blocks" : "";
    return std::string("wgmma, sums of 128 of k added in ascending order") + scales +
           (plan->swap_ab ? ", weights as its rows (gemm_sm90_swap_ab.cuh)" : " (gemm_sm90.cuh)");
  }
  check_not_insisted(product);
  return "CUDA cores, tiles of 64x64 (any_format.cuh)";
}

std::string explain_grouped_matmul(const ScaledProduct& product, DType out) {
  const auto plan = plan_grouped90(product, out);
  if (!plan) return "CUDA cores, tiles of 64x64 expert by expert; fused multiply-adds, k ascending";
  return plan->str() + (plan->finish == Grouped90Finish::none ? "; one accumulator, k ascending in steps of 16"
                                                              : "; sums of 128 of k, added in ascending order");
}

}  // namespace gpukit::cuda
