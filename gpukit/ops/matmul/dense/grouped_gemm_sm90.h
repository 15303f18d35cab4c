// Products of rows by the matrices of their experts on the tensor cores of sm_90a (grouped_gemm_sm90.cuh).
#pragma once

#include <optional>
#include <string>

#include "gpukit/driver/api.h"
#include "gpukit/ops/matmul/dense/gemm_sm90_problem.cuh"
#include "gpukit/ops/matmul/plan/matmul_chip.h"
#include "gpukit/ops/matmul/scaled_matmul_impl.h"

namespace gpukit::cuda {

/// How sums are finished: as they are, times scales of rows and columns (plus a bias), or scaled block by block.
enum class Grouped90Finish { none, scales, scales_and_bias, blocks };

/// How rows go into a tile: as its rows; as its columns, where the weights are the rows; or as columns from where they
/// lie, not brought into the order of their experts.
enum class Grouped90Form { rows, columns, in_place };

struct Grouped90Plan {
  int instance;
  Grouped90Form form;
  Gemm90Tile tile;
  Grouped90Finish finish;
  unsigned grid;
  int64_t most_tiles;  // of rows
  Gemm90Problem problem;
  driver::BoxLayout rows, weights;

  bool transposed() const { return form != Grouped90Form::rows; }
  int tile_rows() const { return transposed() ? tile.columns : tile.rows; }
  std::string str() const;  // e.g. "wgmma 128x256x64 by experts, 4 stages, 132 blocks"
};

/// What the plan depends on beside sizes, strides and scales.
struct Grouped90Facts {
  DType input, weights, out;
  bool rows_aligned, weights_aligned;  // element 0 lies at a multiple of 16 bytes
  bool bias, bias_fits;                // of out's dtype, dense, from a multiple of 16 bytes on
  bool scales_aligned;                 // those of the weights
  bool out_scale;
  int sm_count;
};

/// nullopt where it is not one of these: operands both float16 or both bfloat16 and a result of their dtype, without
/// bias and alpha; or of one float8 type with scales as launch_scaled_gemm90 takes them, k a multiple of 16
/// and rows of the result one of 16 bytes. The weights lie along k, rows and experts at multiples of 16 bytes; the rows
/// and the result have any strides.
std::optional<Grouped90Plan> plan_grouped90(const ScaledProblem& problem, const Grouped90Facts& facts);

/// The plan of a product into a result of `out` elements.
std::optional<Grouped90Plan> plan_grouped90(const ScaledProduct& product, DType out, const MatmulChip& chip);
void launch_grouped90(const ScaledProduct& product, const Grouped90Plan& plan);

}  // namespace gpukit::cuda
