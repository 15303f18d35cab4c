// Tokens of 16 bits by weights of 8 or 4 bits on sm_90a (dequant_gemm_sm90.cuh): how a product is cut up, and its
// launch.
#pragma once

#include <optional>

#include "gpukit/ops/matmul/plan/kernel_call.h"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90_shape.cuh"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

struct DequantGemmFacts {
  int sm_count, shared_per_block;
  Code weights;
  int group;       // columns that share a scale; 0: all
  bool zero;       // there are zero points
  bool tma_store;  // the copy engine can write the result
};

struct DequantGemmPlan {
  int columns, blocks;  // of an instance: tokens of a tile, blocks of a cluster
  DequantGemm share;
  unsigned grid;
  bool overlaps;
  double time_us;  // by a model of an H200
};

/// nullopt where no way to cut the product up fits. It changes no bit. Weights and tokens lie as the copy engine reads
/// them: k dense, rows at multiples of 16 bytes, ascending.
std::optional<DequantGemmPlan> plan_dequant_gemm(const ScaledProblem& problem, const DequantGemmFacts& facts);

/// Whether results can leave in boxes.
bool can_store_by_tma(const ScaledProduct& product);

KernelCall call_of(const ScaledProduct& product, const DequantGemmPlan& plan);
void launch_dequant_gemm(const ScaledProduct& product, const DequantGemmPlan& plan);

}  // namespace gpukit::cuda
