// Matrix products by mma.sync, for every chip since SM 80: which kernel of gemm_sm80.cuh makes one, and its launch.
#pragma once

#include <string>

#include "gpukit/array/array.h"
#include "gpukit/ops/matmul/dense/gemm_sm80_tile.cuh"
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit::cuda {

enum class Gemm80Tile : uint8_t { t16x32, t64x64, t128x128, t128x256, any };

struct Gemm80Plan {
  Gemm80Tile tile;
  Major a, b;    // after the swap
  bool swapped;  // the transposed product is made: b^T a^T
  int64_t blocks;

  std::string str(DType dtype) const;  // e.g. "mma 128x128, a along k, b along n, 64 blocks"
};

/// There are kernels for these dtypes: float16 and bfloat16, stored as they are or as float32, float32 (rounded to
/// TF32) and int8, stored as itself or as int32.
bool gemm80_has(DType input, DType out);

/// `a_aligned`, `b_aligned`: the array starts at a multiple of 16 bytes. The choice is free: no tile and no layout
/// changes a bit of the result.
Gemm80Plan plan_gemm80(const MatmulProblem& problem, DType dtype, bool a_aligned, bool b_aligned, int sm_count);

/// out = a @ b. m, n and batches are at least 1; k may be 0. Throws UnsupportedError for a plan with 2^31 blocks or
/// more.
void gemm80(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem, const Gemm80Plan& plan);

}  // namespace gpukit::cuda
