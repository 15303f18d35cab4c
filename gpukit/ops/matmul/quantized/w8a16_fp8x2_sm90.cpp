#include "gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/hopper/tensor_map.h"
#include "gpukit/ops/matmul/plan/h200.h"

namespace gpukit::cuda {
namespace {

/// Of several that are as good, the first is taken.
constexpr Fp8x2Form kInstances[] = {{112, 1, true},  {128, 1, true},  {144, 1, true}, {128, 2, true},  {120, 4, true},
                                    {128, 4, true},  {144, 4, true},  {224, 1, true}, {128, 1, false}, {144, 1, false},
                                    {128, 2, false}, {128, 4, false}, {144, 4, false}};

const std::vector<jit::KernelSet> sets = [] {
  std::vector<jit::KernelSet> made;
  for (const Fp8x2Form& f : kInstances) {
    std::string name = "gpukit::w8a16_fp8x2_sm90<";
    for (int number : {f.columns, f.blocks}) name += std::to_string(number) + ", ";
    made.emplace_back("gpukit/ops/matmul/quantized/w8a16_fp8x2_sm90.cuh",
                      std::vector{name + (f.whole ? "true>" : "false>")}, std::vector{DType::bfloat16},
                      std::vector<std::string>{"90a"});
  }
  return made;
}();
const jit::KernelSet split_set("gpukit/ops/matmul/quantized/fp8x2_split_rows.cuh",
                               std::vector<std::string>{"gpukit::split_rows<{T}>"}, std::vector{DType::bfloat16},
                               std::vector<std::string>{"90a"});

constexpr int64_t kWholeRows = 32;  // more are taken apart once for all blocks

/// Judged alike for every number of rows: the product has other bits than those of other kernels.
bool takes_fp8x2(const ScaledProduct& p, const MatmulChip& chip) {
  constexpr int64_t kMax = int64_t{1} << 30, kMaxK = int64_t{1} << 24, kGranuleBytes = 16;
  const ScaledProblem& s = p.problem;
  const bool short_out = s.out == Code::bfloat16 || s.out == Code::float16;
  if (chip.sm_major != 9 || !short_out || s.experts != 0 || std::max(s.m, s.n) > kMax) return false;
  if (p.a.data.dtype() != DType::bfloat16 || s.b.code != Code::float8_e4m3) return false;
  if (scaled_along_k(s.b)) return false;
  if (s.k % Fp8x2Tiling::kChain != 0 || s.k < Fp8x2Tiling::kPieces * Fp8x2Tiling::kChain || s.k > kMaxK) return false;
  // The copy engine walks forward alone.
  const auto rows_lie_well = [&](const Array& x, const ScaledOperand& o, int64_t rows) {
    return is_aligned(x) && o.k == 1 && o.row * itemsize(x.dtype()) % kGranuleBytes == 0 && (rows == 1 || o.row > 0);
  };
  return rows_lie_well(p.a.data, s.a, s.m) && rows_lie_well(p.b.data, s.b, s.n);
}

/// Where a call has what split_rows makes of some rows: quantised values of `value_rows` rows, then factors.
struct Fp8x2Workspace {
  int64_t value_rows, factors_at, bytes;
};
Fp8x2Workspace workspace_of(const Fp8x2Plan& plan, int64_t k) {
  const int64_t value_rows = ceil_div(plan.step, Fp8x2Tiling::kGroup) * 2 * Fp8x2Tiling::kGroup,
                factors_at = value_rows * k;
  return {value_rows, factors_at, factors_at + int64_t{plan.tiling.chains} * plan.tiling.padded * 4};
}

/// Tokens in so many groups: both halves of a chain of each.
jit::Boxes token_groups(const Array& x, const ScaledProblem& s, int groups) {
  constexpr int64_t kBytes = 2, kHalf = Fp8x2Tiling::kChain / 2;
  driver::BoxLayout l;
  l.dtype = x.dtype();
  l.shape[0] = kHalf;
  l.shape[1] = s.m;
  l.shape[2] = s.k / kHalf;
  l.strides[0] = (s.m == 1 ? s.k : s.a.row) * kBytes;
  l.strides[1] = kHalf * kBytes;
  l.box[0] = kHalf;
  l.box[1] = groups * Fp8x2Tiling::kGroup;
  l.box[2] = 2;
  l.swizzle = driver::BoxLayout::Swizzle::bytes128;
  return {read(x), l};
}

/// How an instance shares `m` rows, and a model of its time, in cycles of a multiprocessor: of an H200, and only as
/// good as it takes to choose between instances. Memory gives every multiprocessor its share; a chain takes some time
/// however small it is, as do its tokens, its weights and the tensor cores.
std::optional<Fp8x2Plan> plan_instance(int number, int64_t m, const ScaledProblem& s, const MatmulChip& chip,
                                       double* time) {
  constexpr int kGroupedMultiprocessors = 8;  // hold a cluster together; what a session has beside them may lie apart
  constexpr int64_t kMinRows = 8, kMostTiles = int64_t{1} << 28;
  constexpr int kAhead = 4;  // chains
  const Fp8x2Form& form = kInstances[number];
  if (form.blocks > 1 && chip.sm_count < kGroupedMultiprocessors) return std::nullopt;
  const int64_t clusters = std::max(1, h200::filled(form.blocks, chip.sm_count) / form.blocks);
  const int64_t token_tiles = ceil_div(m, form.tokens()), least_tiles = ceil_div(s.n, form.columns);
  const int64_t rounds = ceil_div(least_tiles * token_tiles, clusters);
  const int64_t row_tiles = std::max(least_tiles, rounds * clusters / token_tiles);

  Fp8x2Tiling tiling = {};
  tiling.last = static_cast<int>(m);
  tiling.rows = static_cast<int>(std::max(kMinRows, ceil_div(ceil_div(s.n, row_tiles), 2) * 2));  // stored in pairs
  tiling.groups = static_cast<int>(ceil_div(std::min<int64_t>(m, form.tokens()), Fp8x2Tiling::kGroup));
  const int64_t tiles = ceil_div(s.n, tiling.rows) * token_tiles;
  if (tiles > kMostTiles) return std::nullopt;
  tiling.token_tiles = static_cast<int>(token_tiles);
  tiling.tiles = static_cast<int>(tiles);
  tiling.padded = static_cast<int>(token_tiles * form.tokens());
  tiling.chains = static_cast<int>(s.k / Fp8x2Tiling::kChain);
  tiling.ahead = std::min(kAhead, tiling.chains / Fp8x2Tiling::kPieces * form.ways());
  const int room = (chip.shared_per_block - tiling.shared_bytes(form)) / tiling.stage_bytes();
  const int wanted = std::max(2, (h200::kFp8x2InFlight / tiling.weight_bytes() + form.ways() / 2) / form.ways());
  tiling.stages = std::min({wanted, room / form.ways(), Fp8x2Tiling::kMaxStages / form.ways()});
  if (tiling.stages < 2) return std::nullopt;

  const int64_t blocks = std::min(tiles, clusters) * form.blocks;
  const double memory = static_cast<double>(tiling.rows * Fp8x2Tiling::kChain * blocks) / h200::kFp8x2Memory;
  const double issue =
      form.whole ? h200::kFp8x2Group * tiling.groups + h200::kFp8x2Warpgroup : h200::kFp8x2Column * form.columns;
  const double chain = h200::kFp8x2Chain + std::max(memory / static_cast<double>(token_tiles), issue) +
                       (!form.whole && form.buffers() == 1 ? h200::kFp8x2Alone : 0.0);
  *time = static_cast<double>(rounds * ceil_div(tiling.chains, form.blocks)) * chain +
          (form.blocks > 1 ? h200::kFp8x2Cluster + h200::kFp8x2Round * static_cast<double>(rounds - 1) : 0.0);
  const int64_t grid = form.blocks == 1 ? blocks : tiles * form.blocks;
  return Fp8x2Plan{.instance = number,
                   .form = form,
                   .tiling = tiling,
                   .step = m,
                   .grid = static_cast<unsigned>(grid),
                   .shared_bytes = static_cast<unsigned>(tiling.shared_bytes(form)),
                   .overlaps = should_overlap(grid, chip.sm_count)};
}

}  // namespace

bool is_fp8x2_by_default(const ScaledProblem& s) { return h200::fp8x2_pays(s.n, s.k); }

std::optional<Fp8x2Plan> plan_fp8x2(const ScaledProduct& product, const MatmulChip& chip, bool room) {
  const ScaledProblem& s = product.problem;
  if (!takes_fp8x2(product, chip)) return std::nullopt;
  constexpr int64_t kStep = Fp8x2Tiling::kMaxTokens;
  const int64_t row_bytes = 2 * s.k + s.k / Fp8x2Tiling::kChain * 4;  // of quantised values and factors
  const int64_t fit = kMaxRoomBytes / row_bytes / kStep * kStep;
  const bool whole = s.m <= kWholeRows || !room || fit == 0;
  const int64_t m = whole ? s.m : std::min(s.m, fit);
  std::optional<Fp8x2Plan> best;
  double least = 0.0;
  for (int i = 0; i < static_cast<int>(std::size(kInstances)); ++i) {
    if (kInstances[i].whole != whole) continue;
    double time = 0.0;
    const auto plan = plan_instance(i, m, s, chip, &time);
    if (!plan || (best && time >= least)) continue;
    best = plan;
    least = time;
  }
  return best;
}

KernelCall call_of(const ScaledProduct& product, const Fp8x2Plan& plan) {
  return {&sets[static_cast<size_t>(plan.instance)].get(0, product.a.data.dtype()),
          {.grid_x = plan.grid,
           .block_x = static_cast<unsigned>(Fp8x2Form::kThreads),
           .shared_bytes = plan.shared_bytes,
           .overlaps = plan.overlaps}};
}

KernelCall split_call_of(const ScaledProduct& product, const Fp8x2Plan& plan) {
  constexpr int kWarps = 4;
  return {&split_set.get(0, product.a.data.dtype()),
          {.grid_x = static_cast<unsigned>(plan.tiling.padded / Fp8x2Tiling::kGroup),
           .grid_y = static_cast<unsigned>(ceil_div(plan.tiling.chains, kWarps)),
           .block_x = kWarps * 32}};
}

void launch_fp8x2(const ScaledProduct& product, Fp8x2Plan plan, const MatmulChip& chip) {
  const ScaledProblem& s = product.problem;
  const Device device = product.out.device();
  // Of this call: its two kernels are submitted one after the other, and another thread's may come between them.
  Temporaries temporaries("scaled_matmul");
  Array room;
  if (!plan.form.whole) {
    try {
      room = temporaries.empty({workspace_of(plan, s.k).bytes}, DType::uint8, device);
    } catch (const OutOfMemoryError&) {
      const auto without = plan_fp8x2(product, chip, false);
      if (!without) throw;
      plan = *without;
    }
  }
  const auto launch = [&](const jit::Boxes& tokens, const memory::Use& factors, const Fp8x2Tiling& tiling) {
    const jit::Boxes weights{read(product.b.data),
                             row_boxes(DType::uint8, s.k, s.n, s.b.row, Fp8x2Tiling::kChain, tiling.rows)};
    const KernelCall call = call_of(product, plan);
    jit::launch(*call.kernel, device, call.config, weights, tokens, write(product.out), factors,
                read_if(product.b.scale), read_if(product.bias), s, tiling);
  };
  Fp8x2Tiling tiling = plan.tiling;
  if (plan.form.whole) {
    launch(token_groups(product.a.data, s, tiling.groups), {}, tiling);
    return;
  }
  const KernelCall split = split_call_of(product, plan);
  const auto [value_rows, factors_at, bytes] = workspace_of(plan, s.k);
  const Array factors(room.storage(), DType::float32, {(bytes - factors_at) / 4}, {1},
                      room.offset_bytes() + factors_at);
  for (int64_t first = 0; first < s.m; first += plan.step) {
    tiling.first = static_cast<int>(first);
    tiling.last = static_cast<int>(std::min(s.m, first + plan.step));
    jit::launch(*split.kernel, device, split.config, write(room), write(factors), read(product.a.data), tiling.first,
                tiling.last, s.a.row, static_cast<int>(s.k), tiling.padded);
    const int height = 2 * Fp8x2Tiling::kGroup * tiling.groups;
    launch({read(room), row_boxes(DType::uint8, s.k, value_rows, s.k, Fp8x2Tiling::kChain, height)}, read(factors),
           tiling);
  }
}

}  // namespace gpukit::cuda
