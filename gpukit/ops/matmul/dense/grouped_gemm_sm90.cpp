#include "gpukit/ops/matmul/dense/grouped_gemm_sm90.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/hopper/tensor_map.h"
#include "gpukit/ops/matmul/dense/grouped_problem.cuh"
#include "gpukit/ops/matmul/quantized/fp8_gemm_sm90.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {
namespace {

constexpr const char* kSource = "gpukit/ops/matmul/dense/grouped_gemm_sm90.cuh";

using Form = Grouped90Form;

/// `slice_ns`: see gemm_sm90.cpp.
struct Instance {
  int rows, columns;
  Form form;
  double slice_ns;

  bool transposed() const { return form != Form::rows; }
  int tile_rows() const { return transposed() ? columns : rows; }
  int weight_rows() const { return transposed() ? rows : columns; }
};
constexpr Instance kInstances[] = {
    {128, 256, Form::rows, 680},    {128, 128, Form::rows, 356},    {64, 128, Form::rows, 195},
    {64, 16, Form::columns, 115},   {128, 16, Form::columns, 145},  {128, 32, Form::columns, 165},
    {64, 16, Form::in_place, 115},  {128, 16, Form::in_place, 145}, {128, 32, Form::in_place, 165},
    {128, 64, Form::in_place, 215},
};
constexpr Instance kFloat8Instance = {128, 128, Form::rows, 356};

/// One module a kernel and dtype.
jit::KernelSet one_kernel(const std::string& name, const std::vector<DType>& dtypes) {
  return {kSource, std::vector<std::string>{name}, dtypes, std::vector<std::string>{"90a"}};
}

const std::vector<jit::KernelSet> plain_sets = [] {
  std::vector<jit::KernelSet> sets;
  for (const Instance& i : kInstances)
    sets.push_back(
        one_kernel((i.form == Form::in_place ? "gpukit::grouped90_in_place<{T}, " : "gpukit::grouped90<{T}, ") +
                       std::to_string(i.rows) + ", " + std::to_string(i.columns) +
                       (i.form == Form::in_place ? ">"
                        : i.transposed()         ? ", true>"
                                                 : ", false>"),
                   {DType::float16, DType::bfloat16}));
  return sets;
}();

/// By type of the output and Grouped90Finish.
constexpr DType kFloat8Outs[] = {DType::float32, DType::float16, DType::bfloat16};
const std::vector<jit::KernelSet> float8_sets = [] {
  std::vector<jit::KernelSet> sets;
  for (const char* out : {"float", "gpukit::half", "gpukit::bfloat16"}) {
    const std::string head = std::string("<{T}, ") + out + ", 128, 128";
    for (const std::string& name : {"gpukit::grouped90_scaled" + head + ", gpukit::kScales>",
                                    "gpukit::grouped90_scaled" + head + ", gpukit::kScales + gpukit::kBias>",
                                    "gpukit::grouped90_blocks" + head + ">"})
      sets.push_back(one_kernel(name, {DType::float8_e4m3, DType::float8_e5m2}));
  }
  return sets;
}();

enum RowKernel { order_rows, gather_two_bytes, gather_bytes };
const jit::KernelSet row_kernels("gpukit/ops/matmul/dense/grouped_rows.cuh",
                                 std::vector<std::string>{"gpukit::order_rows", "gpukit::gather_rows<unsigned short>",
                                                          "gpukit::gather_rows<unsigned char>"},
                                 {}, std::vector<std::string>{"90a"});

bool is_float8(DType d) { return d == DType::float8_e4m3 || d == DType::float8_e5m2; }

/// Which finish a product has, where there are kernels for it.
std::optional<Grouped90Finish> finish_of(const ScaledProblem& s, const Grouped90Facts& f) {
  using enum Grouped90Finish;
  if (f.input != f.weights || f.out_scale) return std::nullopt;
  if (f.input == DType::float16 || f.input == DType::bfloat16)
    return f.out == f.input && !f.bias && s.alpha == 1.0f ? std::optional(none) : std::nullopt;
  if (!is_float8(f.input) || std::ranges::find(kFloat8Outs, f.out) == std::end(kFloat8Outs)) return std::nullopt;
  // Sizes for which scaled_matmul has another order are left to the kernel that has it, too.
  if (s.k % 16 != 0 || s.n * itemsize(f.out) % 16 != 0) return std::nullopt;
  const Scales of_a = scales_of(s.a, 0), of_b = scales_of(s.b, 7);
  if (of_a == Scales::blocks && of_b == Scales::blocks)
    return f.bias || s.alpha != 1.0f ? std::nullopt : std::optional(blocks);
  if (of_a >= Scales::blocks || of_b >= Scales::blocks) return std::nullopt;
  if (of_b == Scales::rows && (!f.scales_aligned || s.b.scale.batch % 2 != 0)) return std::nullopt;  // read in pairs
  if (f.bias) return f.bias_fits ? std::optional(scales_and_bias) : std::nullopt;
  return scales;
}

bool fits_engine(int64_t count, int64_t stride, int64_t bytes) {
  return count == 1 || (stride > 0 && stride * bytes % 16 == 0 && stride * bytes < (int64_t{1} << 40));
}

/// Nanoseconds, for choosing among instances: as if the rows were spread over the experts at random, where each expert
/// leaves half a tile unfilled. The weights of the experts that are met come from memory once; of two that wait for
/// memory the one with less to do is better. The choice changes no bit.
double estimate(const Instance& i, int slice, const ScaledProblem& s, int sm_count) {
  constexpr double kTileNs = 400, kOrderNs = 6000, kBytesPerNs = 4300;
  const int64_t met = std::min(s.m, s.experts), slices = ceil_div(s.k, slice);
  const int64_t row_tiles = std::max(met, i.form == Form::in_place ? 0 : ceil_div(s.m, i.tile_rows()) + met / 2);
  const int64_t turns = ceil_div(row_tiles * ceil_div(s.n, i.weight_rows()), sm_count);
  const double work = static_cast<double>(turns) * (static_cast<double>(slices) * i.slice_ns + kTileNs);
  const double memory = static_cast<double>(met * s.n * slices) * Gemm90Tile::kSliceBytes / kBytesPerNs;
  return std::max(work, memory) + work / 16 + (i.form == Form::in_place ? 0 : kOrderNs);
}

driver::BoxLayout layout(DType dtype, int64_t k, int64_t rows, int64_t row, int64_t batches, int64_t batch, int slice,
                         int box_rows) {
  driver::BoxLayout l = row_boxes(dtype, k, rows, row, slice, box_rows);
  l.shape[2] = batches;
  if (batches > 1) l.strides[1] = batch * itemsize(dtype);
  return l;
}

/// Elements from one sorted row to the next.
int64_t sorted_pitch(int64_t k, int64_t bytes) { return ceil_div(k * bytes, 16) * 16 / bytes; }

/// The rows in the order of their experts, with their scales where they have some of their own.
struct SortedRows {
  Array rows, scales, order, list;
};

SortedRows sort_rows(const ScaledProduct& p, const Grouped90Plan& plan, Temporaries& into) {
  const ScaledProblem& s = p.problem;
  const Device device = p.out.device();
  const int64_t bytes = itemsize(p.a.data.dtype()), pitch = sorted_pitch(s.k, bytes);
  const Scales kind = scales_of(s.a, 0);
  const int64_t scales = kind == Scales::rows ? 1 : kind == Scales::blocks ? ceil_div(s.k, Gemm90Tile::kSliceBytes) : 0;
  SortedRows sorted{.rows = into.empty({s.m, pitch * bytes}, DType::uint8, device),
                    .scales = scales > 0 ? into.empty({s.m, scales}, DType::float32, device) : Array(),
                    .order = into.empty({s.m}, DType::int32, device),
                    .list = into.empty({1 + plan.most_tiles, 4}, DType::int32, device)};
  jit::launch(
      row_kernels.get(order_rows), device,
      {.block_x = kOrderThreads, .shared_bytes = static_cast<unsigned>(order_bytes(static_cast<int>(s.experts)))},
      write(sorted.order), write(sorted.list), read(p.ids), s.id_m, static_cast<int32_t>(s.m),
      static_cast<int32_t>(s.experts), static_cast<int32_t>(plan.tile_rows()), runtime::fault_address(device),
      s.fault_op);
  const GatherProblem problem{
      .k = static_cast<int32_t>(s.k),
      .n = static_cast<int32_t>(s.n),
      .a_m = s.a.row,
      .a_k = s.a.k,
      .pitch = pitch,
      .scales = static_cast<int32_t>(scales),
      .scale_m = s.a.scale.row,
      .scale_k = s.a.scale.column,
      .out_m = s.out_m,
      .out_n = s.out_n,
      .pieces = s.a.k == 1 && is_aligned(p.a.data) && s.a.row * bytes % 16 == 0 && s.k * bytes % 16 == 0,
      .out_bytes = static_cast<int32_t>(itemsize(p.out.dtype()))};
  jit::launch(row_kernels.get(bytes == 2 ? gather_two_bytes : gather_bytes), device,
              {.grid_x = static_cast<unsigned>(s.m), .block_x = 256}, write(sorted.rows), write_if(sorted.scales),
              write(p.out), read(p.a.data), scales > 0 ? read(p.a.scale) : memory::Use{}, read(sorted.order),
              read(sorted.list), problem);
  return sorted;
}

}  // namespace

std::optional<Grouped90Plan> plan_grouped90(const ScaledProblem& s, const Grouped90Facts& facts) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 2;
  const std::optional<Grouped90Finish> finish = finish_of(s, facts);
  if (!finish || s.experts < 1 || s.experts > kMaxExperts || s.k == 0 || std::max({s.m, s.n, s.k}) > kMax)
    return std::nullopt;
  const int64_t bytes = itemsize(facts.input);
  if (!facts.weights_aligned || (s.b.k != 1 && s.k > 1) || !fits_engine(s.n, s.b.row, bytes) ||
      !fits_engine(s.experts, s.b.batch, bytes))
    return std::nullopt;

  Grouped90Plan plan = {};
  const int slice = static_cast<int>(Gemm90Tile::kSliceBytes / bytes);
  Instance chosen = kFloat8Instance;
  if (*finish == Grouped90Finish::none) {
    const bool readable = facts.rows_aligned && (s.a.k == 1 || s.k == 1) && fits_engine(s.m, s.a.row, bytes);
    const auto time = [&](const Instance& i) {
      const bool serves = i.form != Form::in_place || (readable && s.m <= i.columns);
      return serves ? estimate(i, slice, s, facts.sm_count) : std::numeric_limits<double>::infinity();
    };
    const Instance* best = std::ranges::min_element(kInstances, {}, time);
    plan.instance = static_cast<int>(best - kInstances);
    chosen = *best;
  }
  plan.form = chosen.form;
  plan.finish = *finish;
  plan.tile = {chosen.rows, chosen.columns, static_cast<int>(bytes), static_cast<int>(itemsize(facts.out)),
               chosen.transposed() ? Gemm90Store::transposed_tma : Gemm90Store::tma};
  const bool in_place = chosen.form == Form::in_place;
  plan.most_tiles = in_place ? std::min(s.m, s.experts) : most_tiles(s.m, chosen.tile_rows(), s.experts);
  const int64_t tiles = plan.most_tiles * ceil_div(s.n, chosen.weight_rows());
  if (tiles > kMax) return std::nullopt;
  plan.grid = static_cast<unsigned>(std::min<int64_t>(tiles, facts.sm_count));
  const int64_t pitch = in_place ? s.a.row : sorted_pitch(s.k, bytes);
  plan.rows = layout(facts.input, s.k, s.m, pitch, 1, 0, slice, chosen.tile_rows());
  plan.weights = layout(facts.weights, s.k, s.n, s.b.row, s.experts, s.b.batch, slice, chosen.weight_rows());
  plan.problem = {.m = static_cast<int32_t>(chosen.transposed() ? s.n : s.m),
                  .n = static_cast<int32_t>(chosen.transposed() ? s.m : s.n),
                  .k = static_cast<int32_t>(s.k),
                  .batches = static_cast<int32_t>(s.experts),
                  .a_step = chosen.transposed(),
                  .b_step = !chosen.transposed(),
                  .group = 8,
                  .out_m = chosen.transposed() ? s.out_n : s.out_m,
                  .out_n = chosen.transposed() ? s.out_m : s.out_n,
                  .out_batch = 0};
  return plan;
}

std::string Grouped90Plan::str() const {
  return "wgmma " + std::to_string(tile.rows) + "x" + std::to_string(tile.columns) + "x" +
         std::to_string(tile.slice()) + " by experts" +
         (form == Form::rows      ? ""
          : form == Form::columns ? ", rows as columns"
                                  : ", rows as columns in place") +
         ", " + std::to_string(tile.stages()) + " stages, " + std::to_string(grid) + " blocks";
}

std::optional<Grouped90Plan> plan_grouped90(const ScaledProduct& p, DType out, const MatmulChip& chip) {
  if (p.problem.experts == 0 || chip.sm_major != 9) return std::nullopt;
  const bool bias = p.bias.defined();
  return plan_grouped90(p.problem,
                        {.input = p.a.data.dtype(),
                         .weights = p.b.data.dtype(),
                         .out = out,
                         .rows_aligned = is_aligned(p.a.data),
                         .weights_aligned = is_aligned(p.b.data),
                         .bias = bias,
                         .bias_fits = bias && p.bias.dtype() == out && p.problem.bias_n == 1 && is_aligned(p.bias),
                         .scales_aligned = p.b.scale.defined() && is_aligned(p.b.scale),
                         .out_scale = p.out_scale.defined(),
                         .sm_count = chip.sm_count});
}

void launch_grouped90(const ScaledProduct& p, const Grouped90Plan& plan) {
  const ScaledProblem& s = p.problem;
  const Device device = p.out.device();
  const jit::LaunchConfig config{.grid_x = plan.grid,
                                 .block_x = static_cast<unsigned>(plan.tile.threads()),
                                 .shared_bytes = static_cast<unsigned>(plan.tile.shared_bytes())};
  const int32_t pieces = s.out_n == 1 && is_aligned(p.out) && s.out_m * itemsize(p.out.dtype()) % 16 == 0;
  const jit::Boxes weights{read(p.b.data), plan.weights};
  if (plan.form == Form::in_place) {
    jit::LaunchConfig early = config;
    early.overlaps = should_overlap(plan.grid, runtime::current_sm_count(device));
    jit::launch(plain_sets[static_cast<size_t>(plan.instance)].get(0, p.a.data.dtype()), device, early, weights,
                jit::Boxes{read(p.a.data), plan.rows}, write(p.out), read(p.ids), s.id_m, plan.problem, pieces,
                runtime::fault_address(device), s.fault_op);
    return;
  }

  Temporaries temporaries("grouped_matmul");
  const SortedRows sorted = sort_rows(p, plan, temporaries);
  const jit::Boxes rows{read(sorted.rows), plan.rows};
  if (plan.finish == Grouped90Finish::none) {
    jit::launch(plain_sets[static_cast<size_t>(plan.instance)].get(0, p.a.data.dtype()), device, config,
                plan.transposed() ? weights : rows, plan.transposed() ? rows : weights, write(p.out), read(sorted.list),
                read(sorted.order), plan.problem, pieces);
    return;
  }
  const auto out = std::ranges::find(kFloat8Outs, p.out.dtype()) - std::begin(kFloat8Outs);
  const auto set = static_cast<size_t>(out * 3 + static_cast<int>(plan.finish) - 1);
  const jit::Kernel& kernel = float8_sets[set].get(0, p.a.data.dtype());
  if (plan.finish == Grouped90Finish::blocks) {
    jit::launch(kernel, device, config, rows, weights, write(p.out), read(sorted.list), read(sorted.order),
                plan.problem, pieces, read(sorted.scales), read(p.b.scale), sorted.scales.shape(1), s.b.scale.row,
                s.b.scale.batch);
    return;
  }
  const Gemm90Epilogue epilogue{.alpha = s.alpha,
                                .activation = ActivationCode::none,
                                .scale_m = scales_of(s.a, 0) == Scales::rows,
                                .scale_n = scales_of(s.b, 7) == Scales::rows};
  jit::launch(kernel, device, config, rows, weights, write(p.out), read(sorted.list), read(sorted.order), plan.problem,
              pieces, epilogue, read_if(p.bias), read_if(sorted.scales.defined() ? sorted.scales : p.a.scale),
              read_if(p.b.scale), s.b.scale.batch);
}

}  // namespace gpukit::cuda
