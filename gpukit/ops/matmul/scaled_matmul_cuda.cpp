#include <optional>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/matmul/plan/scaled_matmul_plan.h"
#include "gpukit/ops/matmul/quantized/dequant_launch.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/session.h"

namespace gpukit::cuda {
namespace {

MatmulChip chip_of(const Array& x) {
  const driver::DeviceProperties& properties = x.context().properties();
  return {.sm_count = runtime::current_sm_count(x.device()),
          .shared_per_block = properties.shared_per_block_optin,
          .sm_major = properties.sm_major};
}

/// cuBLASLt where it is asked for, or was measured to be faster and can serve.
std::optional<VendorPlan> ask_vendor(const ScaledProduct& p, bool one_order) {
  const bool wanted = p.kernel == MatmulKernel::cublaslt;
  std::string reason = "its order of sums may depend on the number of rows, which batch_invariant rules out";
  if (!one_order && p.kernel != MatmulKernel::wgmma && (wanted || scaled_vendor_wins(p)))
    if (auto plan = plan_scaled_vendor(p, &reason)) return plan;
  if (wanted) throw UnsupportedError("scaled_matmul: kernel 'cublaslt' cannot serve: " + reason);
  return std::nullopt;
}

ScaledMatmulPlan plan_on(const ScaledProduct& p, const MatmulChip& chip) {
  return plan_scaled_matmul(p, chip, runtime::determinism() == env::Determinism::batch_invariant, ask_vendor);
}

struct Launch {
  const ScaledProduct& p;
  const MatmulChip& chip;

  void operator()(const Fp8x2Plan& plan) const { launch_fp8x2(p, plan, chip); }
  void operator()(const DequantPlan& plan) const { launch_dequant_kernel(p, plan); }
  void operator()(const DequantGemmPlan& plan) const { launch_dequant_gemm(p, plan); }
  void operator()(const VendorPlan& plan) const { launch_scaled_vendor(plan, p); }
  void operator()(const Grouped90Plan& plan) const { launch_grouped90(p, plan); }
  void operator()(const ScaledGemm90Plan& plan) const { launch_scaled_gemm90(p, plan); }
  void operator()(const AnyFormatPlan& plan) const {
    const auto [kernel, config] = call_of(p, plan);
    jit::launch(*kernel, p.out.device(), config, write(p.out), read(p.a.data), read_if(p.a.scale),
                read_if(p.a.tensor_scale), read(p.b.data), read_if(p.b.scale), read_if(p.b.zero),
                read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), read_if(p.ids),
                runtime::fault_address(p.out.device()), p.problem);
  }
};

}  // namespace

void scaled_matmul(const ScaledProduct& product) {
  const MatmulChip chip = chip_of(product.out);
  std::visit(Launch{product, chip}, plan_on(product, chip));
}

std::string explain_scaled_matmul(const ScaledProduct& product) {
  return str(product, plan_on(product, chip_of(product.out)));
}

std::string explain_grouped_matmul(const ScaledProduct& product, DType out) {
  const auto plan = plan_grouped90(product, out, chip_of(product.a.data));
  if (!plan) return "CUDA cores, tiles of 64x64 expert by expert; fused multiply-adds, k ascending";
  return plan->str() + (plan->finish == Grouped90Finish::none ? "; one accumulator, k ascending in steps of 16"
                                                              : "; sums of 128 of k, added in ascending order");
}

}  // namespace gpukit::cuda
