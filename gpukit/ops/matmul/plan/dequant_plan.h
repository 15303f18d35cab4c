// Vectors by weights of 8 or 4 bits: which kernel of dequant_gemv.cuh, nvfp4_gemv.cuh, group_scaled_split_k_sm90.cuh,
// w8a16_sm90.cuh and dequant_gemm_sm80.cuh makes a product. Pure.
#pragma once

#include <optional>

#include "gpukit/ops/matmul/plan/matmul_chip.h"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/group_scaled_split_k_sm90_shape.cuh"
#include "gpukit/ops/matmul/quantized/w8a16_sm90_shape.cuh"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

struct DequantPlan {
  int form;                            // of kDequantForms
  int tokens;                          // that a block takes at most: 1, 8, 16, 32, 64 or 128
  int rounds, batch;                   // where that is 1: of a block along a row, and as in DequantGemvRows
  unsigned grid, block, shared_bytes;  // shared: asked for at the launch
  bool overlaps = false;               // as in LaunchConfig
  bool ordered = false;                // one row with the sums of several
  int blocks = 0;                      // of a cluster of group_scaled_split_k_sm90; 0: another kernel
  SplitKShare share = {};              // group_scaled_split_k_sm90
  int instance = -1;                   // of w8a16_sm90; -1: another kernel
  W8A16Tiling tiling = {};             // w8a16_sm90
  double time_us = 0.0;                // w8a16_sm90 by 32 rows and more: by a model of an H200
};

/// nullopt where `product` is not one of these: a is float16 or bfloat16, b is float8_e4m3 with scales of the tensor,
/// rows or 128x128 blocks, int8 with scales of the tensor or rows, int4 in groups of 32, 64 or 128, or float4_e2m1; or
/// a has one row and both are float8_e4m3. Rows are dense and lie at multiples of 16 bytes. One row has a kernel of its
/// own, unless it is longer than a block has room for. It has another order of sums, but where `one_order` is wanted
/// for every number of rows: then it serves 16-bit a and 8 bits with scales of the tensor or rows, in theirs, unless
/// the weights are so many that the kernel of several rows (sm_90) is as fast.
std::optional<DequantPlan> plan_dequant_kernel(const ScaledProduct& product, const MatmulChip& chip, bool one_order);

/// dequant_gemm_sm90 in place of `plan`, where that is faster: instead of dequant_gemm_sm80, but for up to 16 rows by
/// so many weights that it fills the chip twice, and of w8a16_sm90 by their models. It has the same bits.
std::optional<DequantGemmPlan> plan_dequant_gemm_instead(const ScaledProduct& product, const DequantPlan& plan,
                                                         const MatmulChip& chip);

}  // namespace gpukit::cuda
