// Products of float32 and float64 on CUDA cores: which kernel of gemm_simt.cuh makes one, and its launch.
#pragma once

#include <optional>
#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit::cuda {

enum class GemmSimtTile : uint8_t { f32_128x128, f32_128x64, f32_64x64, f64_128x64, f64_64x64 };

struct GemmSimtPlan {
  GemmSimtTile tile;
  Major a, b;    // after the swap
  bool swapped;  // the transposed product is made: b^T a^T
  int64_t blocks;

  std::string str() const;  // e.g. "tiles of 128x128, a along k, b along n, 1024 blocks"
};

/// Nothing for other dtypes, and where k or the number of tiles is beyond 31 bits. `a_aligned`, `b_aligned`: the array
/// starts at a multiple of 16 bytes. The choice is free: no tile and no layout changes a bit of the result.
std::optional<GemmSimtPlan> plan_gemm_simt(const MatmulProblem& problem, DType dtype, bool a_aligned, bool b_aligned,
                                           int sm_count);

/// out = a @ b. m, n and batches are at least 1; k may be 0.
void gemm_simt(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem,
               const GemmSimtPlan& plan);

}  // namespace gpukit::cuda
