// FP8 products with scales on the tensor cores of sm_90a (gemm_sm90.cuh, gemm_sm90_swap_ab.cuh).
#pragma once

#include <optional>

#include "gpukit/ops/matmul/dense/gemm_sm90.h"
#include "gpukit/ops/matmul/plan/kernel_call.h"
#include "gpukit/ops/matmul/plan/matmul_chip.h"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

/// How the scales of an operand vary. blocks: 128 of k by 2^`block_row_shift` rows.
enum class Scales { none, tensor, rows, blocks, other };
Scales scales_of(const ScaledOperand& operand, int block_row_shift);

struct ScaledGemm90Plan {
  int out;             // float32, float16, bfloat16
  bool blocked, bias;  // scales of blocks
  bool swap_ab;        // few rows: the weights are the rows of the kernel
  bool scale_m, scale_n;
  int columns = 0;           // of a tile
  Gemm90Tile tile = {};      // unless swap_ab
  Gemm90SwapAB tiling = {};  // where swap_ab
  jit::LaunchConfig config = {};
};

/// nullopt where it is not one of these: both operands of one float8 type with k dense and rows at multiples of 16
/// bytes; scales for the tensor or rows, or 1x128 and 128x128 blocks; the result float32, float16 or bfloat16 with
/// dense rows at multiples of 16 bytes, plus a bias of its dtype.
std::optional<ScaledGemm90Plan> plan_scaled_gemm90(const ScaledProduct& product, const MatmulChip& chip);
KernelCall call_of(const ScaledProduct& product, const ScaledGemm90Plan& plan);
void launch_scaled_gemm90(const ScaledProduct& product, const ScaledGemm90Plan& plan);

}  // namespace gpukit::cuda
