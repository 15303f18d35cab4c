#include "gpukit/ops/matmul/quantized/fp8_gemm_sm90.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/hopper/tensor_map.h"

namespace gpukit::cuda {
namespace {

constexpr int kRows = 128;
enum Kernel { scales, scales_and_bias, blocks };
constexpr const char* kOutTypes[] = {"float", "gpukit::half", "gpukit::bfloat16"};

/// By type of the output and kernel, for tiles of 128 columns; of 192 columns for float8_e4m3 with scales alone.
std::vector<jit::KernelSet> make_sets(bool wide) {
  std::vector<jit::KernelSet> sets;
  for (const char* out : kOutTypes) {
    const std::string head = std::string("<{T}, ") + out + ", 128, " + (wide ? "192" : "128");
    std::vector<std::string> names = {"gpukit::gemm90_fused" + head + ", gpukit::kScales>"};
    std::vector<DType> dtypes = {DType::float8_e4m3};
    if (!wide) {
      names.push_back("gpukit::gemm90_fused" + head + ", gpukit::kScales + gpukit::kBias>");
      names.push_back("gpukit::gemm90_blocks" + head + ">");
      dtypes.push_back(DType::float8_e5m2);
    }
    for (const std::string& name : names)
      sets.emplace_back("gpukit/ops/matmul/dense/gemm_sm90.cuh", std::vector<std::string>{name}, dtypes,
                        std::vector<std::string>{"90a"});
  }
  return sets;
}
const std::vector<jit::KernelSet> narrow_sets = make_sets(false), wide_sets = make_sets(true);

/// Rows that stand as columns (gemm_sm90_swap_ab.cuh); the scales of more and of blocks have no room.
constexpr int64_t kSwapABRows = 64, kSwapABRowsOfBlocks = 32;
/// By columns and type of the output.
std::vector<jit::KernelSet> make_swap_ab_sets(bool blocked) {
  std::vector<jit::KernelSet> sets;
  for (const int columns : kGemm90SwapABColumns)
    for (const char* out : kOutTypes)
      if (!blocked || columns <= kSwapABRowsOfBlocks)
        sets.emplace_back(
            "gpukit/ops/matmul/dense/gemm_sm90_swap_ab.cuh",
            std::vector{std::string(blocked ? "gpukit::gemm90_swap_ab_blocks" : "gpukit::gemm90_swap_ab_scaled") +
                        "<{T}, " + out + ", " + std::to_string(columns) + ">"},
            std::vector{DType::float8_e4m3, DType::float8_e5m2}, std::vector<std::string>{"90a"});
  return sets;
}
const std::vector<jit::KernelSet> swap_ab_sets = make_swap_ab_sets(false), swap_ab_block_sets = make_swap_ab_sets(true);

std::optional<int> out_index(Code out) {
  switch (out) {
    case Code::float32: return 0;
    case Code::float16: return 1;
    case Code::bfloat16: return 2;
    default: return std::nullopt;
  }
}

/// Rows that start at multiples of 16 bytes, as scaled_matmul lays them whatever their number.
bool rows_fit(const Array& x, int64_t stride_bytes) {
  return is_aligned(x) && stride_bytes > 0 && stride_bytes % 16 == 0;
}

/// Sizes of `rows` by `columns` of the kernel.
Gemm90Problem problem_of(int64_t rows, int64_t columns, int64_t k, int64_t row_tiles, int64_t out_m, int64_t out_n) {
  return {.m = static_cast<int32_t>(rows),
          .n = static_cast<int32_t>(columns),
          .k = static_cast<int32_t>(k),
          .batches = 1,
          .a_step = 0,
          .b_step = 0,
          .group = static_cast<int32_t>(std::min<int64_t>(8, row_tiles)),
          .out_m = out_m,
          .out_n = out_n,
          .out_batch = 0};
}

/// The weights are the rows of the kernel.
void plan_swap_ab(ScaledGemm90Plan* plan, const ScaledProblem& s, int sm_count) {
  // The scales of blocks take as long for few weights as for those of a warpgroup.
  const Gemm90SwapABPlan cut = plan_gemm90_swap_ab(s.m, {s.n, s.b.row, 0, 1, 1}, s.k, sm_count, plan->blocked ? 64 : 0);
  plan->columns = cut.columns;
  plan->tiling = cut.swap_ab;
  plan->config = {.grid_x = static_cast<unsigned>(std::min(cut.swap_ab.tiles, sm_count)),
                  .block_x = static_cast<unsigned>(cut.swap_ab.threads()),
                  .shared_bytes = static_cast<unsigned>(cut.swap_ab.shared_bytes(cut.columns)),
                  .overlaps = should_overlap(cut.swap_ab.tiles, sm_count)};
}

/// Tiles of 128 rows. One of 192 columns takes 1.4 times as long as one of 128.
void plan_tiles(ScaledGemm90Plan* plan, const ScaledProblem& s, DType dtype, int out_bytes, int sm_count) {
  const auto tiles = [&](int columns) { return ceil_div(s.m, kRows) * ceil_div(s.n, columns); };
  const auto turns = [&](int columns) { return static_cast<double>(ceil_div(tiles(columns), sm_count)); };
  const bool wide = !plan->bias && !plan->blocked && dtype == DType::float8_e4m3 && turns(192) * 1.4 < turns(128);
  plan->columns = wide ? 192 : 128;
  plan->tile = {kRows, plan->columns, 1, out_bytes, Gemm90Store::tma};
  plan->config = {.grid_x = static_cast<unsigned>(std::min<int64_t>(tiles(plan->columns), sm_count)),
                  .block_x = static_cast<unsigned>(plan->tile.threads()),
                  .shared_bytes = static_cast<unsigned>(plan->tile.shared_bytes()),
                  .overlaps = fused_gemm90_overlaps(plan->tile, s.k, tiles(plan->columns), sm_count)};
}

const jit::KernelSet& set_of(const ScaledGemm90Plan& plan) {
  const auto out = static_cast<size_t>(plan.out);
  if (plan.swap_ab) {
    const auto columns = static_cast<size_t>(
        std::find(kGemm90SwapABColumns, std::end(kGemm90SwapABColumns), plan.columns) - kGemm90SwapABColumns);
    return (plan.blocked ? swap_ab_block_sets : swap_ab_sets)[columns * 3 + out];
  }
  if (plan.columns == 192) return wide_sets[out];
  return narrow_sets[out * 3 + static_cast<size_t>(plan.blocked ? blocks : plan.bias ? scales_and_bias : scales)];
}

void launch_swap_ab(const ScaledProduct& p, const ScaledGemm90Plan& plan, const Gemm90Epilogue& epilogue) {
  const ScaledProblem& s = p.problem;
  const DType dtype = p.a.data.dtype();
  const auto [kernel, config] = call_of(p, plan);
  const int slice = Gemm90SwapAB::slice(1);
  const jit::Boxes weights{read(p.b.data), row_boxes(dtype, s.k, s.n, s.b.row, slice, plan.tiling.rows)};
  const jit::Boxes rows{read(p.a.data), row_boxes(dtype, s.k, s.m, s.a.row, slice, static_cast<int>(s.m))};
  const Gemm90Problem problem = problem_of(s.n, s.m, s.k, plan.tiling.tiles, 1, s.out_m);
  const auto launch = [&, kernel = kernel, config = config](const auto&... more) {
    jit::launch(*kernel, p.out.device(), config, weights, rows, write(p.out), read(p.b.data), problem, plan.tiling,
                more...);
  };
  if (plan.blocked)
    launch(read(p.a.scale), read(p.b.scale), s.a.scale.row, s.b.scale.row);
  else
    launch(epilogue, read_if(p.bias), read_if(p.a.scale), read_if(p.b.scale));
}

void launch_tiles(const ScaledProduct& p, const ScaledGemm90Plan& plan, const Gemm90Epilogue& epilogue) {
  const ScaledProblem& s = p.problem;
  const DType dtype = p.a.data.dtype();
  const Gemm90Tile& tile = plan.tile;
  const auto [kernel, config] = call_of(p, plan);
  const jit::Boxes a{read(p.a.data), row_boxes(dtype, s.k, s.m, s.a.row, tile.slice(), kRows)};
  const jit::Boxes b{read(p.b.data), row_boxes(dtype, s.k, s.n, s.b.row, tile.slice(), tile.columns)};
  const jit::Boxes result{write(p.out),
                          row_boxes(p.out.dtype(), s.n, s.m, s.out_m, tile.box_bytes() / tile.out_bytes, 64)};
  const Gemm90Problem problem = problem_of(s.m, s.n, s.k, ceil_div(s.m, kRows), s.out_m, 1);
  const auto launch = [&, kernel = kernel, config = config](const auto&... more) {
    jit::launch(*kernel, p.out.device(), config, a, b, result, write(p.out), problem, more...);
  };
  if (plan.blocked)
    launch(read(p.a.scale), read(p.b.scale), s.a.scale.row, s.b.scale.row);
  else
    launch(epilogue, read_if(p.bias), read_if(p.a.scale), read_if(p.b.scale));
}

}  // namespace

Scales scales_of(const ScaledOperand& o, int block_row_shift) {
  const ScaleLayout& s = o.scale;
  if (o.has_scale == 0) return Scales::none;
  if (s.row == 0 && s.column == 0) return Scales::tensor;
  if (s.column == 0 && s.row == 1 && s.row_shift == 0) return Scales::rows;
  const bool blocked = s.column == 1 && s.column_shift == 7 && s.row_shift == block_row_shift;
  return blocked ? Scales::blocks : Scales::other;
}

std::optional<ScaledGemm90Plan> plan_scaled_gemm90(const ScaledProduct& p, const MatmulChip& chip) {
  const ScaledProblem& s = p.problem;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 2;
  if (chip.sm_major != 9 || s.experts != 0 || p.out_scale.defined()) return std::nullopt;
  if (s.a.code != s.b.code || (s.a.code != Code::float8_e4m3 && s.a.code != Code::float8_e5m2)) return std::nullopt;
  const std::optional<int> out = out_index(s.out);
  if (!out || s.k == 0 || std::max({s.m, s.n, s.k}) > kMax) return std::nullopt;
  if (s.a.k != 1 || !rows_fit(p.a.data, s.a.row)) return std::nullopt;
  if (s.b.k != 1 || !rows_fit(p.b.data, s.b.row)) return std::nullopt;
  const int64_t out_bytes = itemsize(p.out.dtype());
  // The copy engine writes whole pieces of 16 bytes.
  if (s.out_n != 1 || s.n * out_bytes % 16 != 0) return std::nullopt;
  if (!rows_fit(p.out, (s.m == 1 ? s.n : s.out_m) * out_bytes)) return std::nullopt;
  const bool bias = p.bias.defined();
  if (bias && (p.bias.dtype() != p.out.dtype() || s.bias_n != 1 || !is_aligned(p.bias))) return std::nullopt;

  const Scales of_a = scales_of(s.a, 0), of_b = scales_of(s.b, 7);
  const bool blocked = of_a == Scales::blocks && of_b == Scales::blocks;
  if (blocked ? bias || s.alpha != 1.0f : of_a >= Scales::blocks || of_b >= Scales::blocks) return std::nullopt;
  if (of_b == Scales::rows && !is_aligned(p.b.scale)) return std::nullopt;
  ScaledGemm90Plan plan = {.out = *out,
                           .blocked = blocked,
                           .bias = bias,
                           .swap_ab = s.m <= (blocked ? kSwapABRowsOfBlocks : kSwapABRows),
                           .scale_m = of_a == Scales::rows,
                           .scale_n = of_b == Scales::rows};
  if (plan.swap_ab)
    plan_swap_ab(&plan, s, chip.sm_count);
  else
    plan_tiles(&plan, s, p.a.data.dtype(), static_cast<int>(out_bytes), chip.sm_count);
  return plan;
}

KernelCall call_of(const ScaledProduct& p, const ScaledGemm90Plan& plan) {
  return {&set_of(plan).get(0, p.a.data.dtype()), plan.config};
}

void launch_scaled_gemm90(const ScaledProduct& p, const ScaledGemm90Plan& plan) {
  const Gemm90Epilogue epilogue{
      .alpha = p.problem.alpha, .activation = ActivationCode::none, .scale_m = plan.scale_m, .scale_n = plan.scale_n};
  if (plan.swap_ab)
    launch_swap_ab(p, plan, epilogue);
  else
    launch_tiles(p, plan, epilogue);
}

}  // namespace gpukit::cuda
