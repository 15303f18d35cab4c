// The tensor-core products of sm_90a (gemm_sm90.cuh, gemm_sm90_swap_ab.cuh): which instance serves a shape, and its
// launch.
#pragma once

#include <optional>
#include <string>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/matmul/dense/gemm_sm90_problem.cuh"
#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit::cuda {

/// An instance, how the operands go into it and the grid. `swapped`: a and b have changed sides, out is transposed.
struct Gemm90Plan {
  int instance;  // of gemm90, unless swap_ab.rows > 0
  bool swapped;
  Gemm90Tile tile;
  Gemm90SwapAB swap_ab;
  bool transpose_a, transpose_b;
  unsigned grid;
  int blocks;     // of a cluster, which load b for each other
  bool overlaps;  // as in LaunchConfig
  Gemm90Problem problem;
  driver::BoxLayout a, b, out;

  std::string str() const;  // e.g. "wgmma 128x256, 4 stages, a along k, b along n, 132 blocks"
};

/// Whether gemm90, where it takes nearly all multiprocessors, should start while the kernel before it ends. As measured
/// on an H200: low tiles, of which several read the same weights, lose if k is long (256 x 4096 by 4096: 9 %).
bool gemm90_overlaps(const Gemm90Tile& tile, int64_t k);
/// The same with an epilogue: many tiles, which take long and all the power there is, lose 1 %.
bool fused_gemm90_overlaps(const Gemm90Tile& tile, int64_t k, int64_t tiles, int sm_count);

/// How gemm_sm90_swap_ab.cuh takes few rows: as so many columns, and how it cuts up the weights.
struct Gemm90SwapABPlan {
  int columns;  // of kGemm90SwapABColumns
  Gemm90SwapAB swap_ab;
};
inline constexpr int kGemm90SwapABColumns[] = {16, 32, 64};

/// Matrices of weights along K, in elements: `line` from one weight to the next, `batch` from one matrix.
struct Gemm90Weights {
  int64_t count, line, batch, batches;
  int element_bytes;
};

/// For up to 64 rows. As many tiles as if they had no fewer than `least` weights.
Gemm90SwapABPlan plan_gemm90_swap_ab(int64_t rows, const Gemm90Weights& weights, int64_t k, int sm_count,
                                     int least = 0);

/// What the plan depends on beside sizes and strides.
struct Gemm90Facts {
  DType input, out;
  bool a_aligned, b_aligned, out_aligned;  // element 0 lies at a multiple of 16 bytes
  int sm_count;
  bool operator==(const Gemm90Facts&) const = default;
};

/// nullopt where there is no kernel for the dtypes, the copy engine cannot read the operands as they lie, or K is 0.
/// float32 is for TF32.
/// For measuring what tiles cost: while `rows` is not 0, products of more than 64 rows are planned with this tile
/// alone.
void force_gemm90_tile(int rows, int columns, bool swapped, int blocks);

std::optional<Gemm90Plan> plan_gemm90(const MatmulProblem& problem, const Gemm90Facts& facts);
/// The same, kept by each thread for the products it planned last.
const std::optional<Gemm90Plan>& cached_plan_gemm90(const MatmulProblem& problem, const Gemm90Facts& facts);
void launch_gemm90(const Gemm90Plan& plan, const Array& out, const Array& a, const Array& b);
/// A layer of few rows, by a plan for input @ weight.T with swap_ab.rows > 0. Elements of bias are dense, as are rows
/// of residual.
void launch_gemm90_swap_ab_linear(const Gemm90Plan& plan, const Array& out, const Array& input, const Array& weight,
                                  const LinearSteps& steps, const Array& bias, const Array& residual);

}  // namespace gpukit::cuda
