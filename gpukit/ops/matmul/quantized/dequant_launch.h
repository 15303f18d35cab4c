// The launch of the kernels for 16-bit tokens by weights of 8 or 4 bits that plan/dequant_plan.h chooses.
#pragma once

#include "gpukit/ops/matmul/plan/dequant_plan.h"
#include "gpukit/ops/matmul/plan/kernel_call.h"

namespace gpukit::cuda {

KernelCall call_of(const ScaledProduct& product, const DequantPlan& plan);
void launch_dequant_kernel(const ScaledProduct& product, const DequantPlan& plan);

}  // namespace gpukit::cuda
