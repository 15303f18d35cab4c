// Which kernel makes a product of quantised operands, and how it is launched. Pure: shapes, dtypes, scales, layouts and
// the chip in; no device is asked, so that the choice is tested without one. scaled_matmul launches what is planned
// here, and explain_scaled_matmul prints it.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "gpukit/ops/matmul/dense/grouped_gemm_sm90.h"
#include "gpukit/ops/matmul/plan/dequant_plan.h"
#include "gpukit/ops/matmul/plan/matmul_chip.h"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/fp8_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90.h"
#include "gpukit/ops/matmul/vendor/cublaslt.h"

namespace gpukit::cuda {

/// any_format.cuh: every format and layout on CUDA cores.
struct AnyFormatPlan {
  unsigned grid;
};

using ScaledMatmulPlan =
    std::variant<Fp8x2Plan, DequantPlan, DequantGemmPlan, VendorPlan, Grouped90Plan, ScaledGemm90Plan, AnyFormatPlan>;

/// Asks cuBLASLt, which is the one thing that depends on more than this header says: whether it is there and preferred.
/// Null: nobody.
using VendorQuestion = std::optional<VendorPlan> (*)(const ScaledProduct& product, bool one_order);

/// `one_order`: the order of sums must be the same for every number of rows (batch_invariant). Throws UnsupportedError
/// where product.kernel names a kernel that cannot serve.
ScaledMatmulPlan plan_scaled_matmul(const ScaledProduct& product, const MatmulChip& chip, bool one_order,
                                    VendorQuestion vendor = nullptr);

KernelCall call_of(const ScaledProduct& product, const AnyFormatPlan& plan);

/// What the plan launches: kernels with their files, grids, threads, shared memory; and the order of sums.
std::string str(const ScaledProduct& product, const ScaledMatmulPlan& plan);

}  // namespace gpukit::cuda
