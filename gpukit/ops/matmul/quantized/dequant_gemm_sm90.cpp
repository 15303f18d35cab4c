#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/hopper/tensor_map.h"
#include "gpukit/ops/matmul/plan/dequant_forms.h"
#include "gpukit/ops/matmul/plan/h200.h"

namespace gpukit::cuda {
namespace {

const char* type_of(Code weights) {
  switch (weights) {
    case Code::float8_e4m3: return "gpukit::float8_e4m3";
    case Code::int8: return "signed char";
    case Code::int4: return "gpukit::packed_int4";
    default: return "gpukit::packed_e2m1";
  }
}

/// Columns, and blocks of a cluster, which share the chains of k. 160 columns leave no registers for zero points, 192
/// only for one set of sums.
struct Instance {
  int columns, blocks;
  constexpr bool serves(const DequantForm& f) const {
    return (blocks == 1 || f.group != 0) && (columns <= 128 || !f.zero) &&
           (columns <= 160 || f.weights == Code::float4_e2m1);
  }
};
constexpr Instance kInstances[] = {{16, 1}, {32, 1}, {64, 1}, {96, 1},  {128, 1}, {160, 1}, {192, 1},
                                   {16, 2}, {32, 2}, {64, 2}, {128, 2}, {16, 4},  {32, 4},  {64, 4}};

/// By form and the instances that serve it: each kernel is a module of its own, so that a first call compiles one.
const std::vector<std::vector<jit::KernelSet>> sets = [] {
  std::vector<std::vector<jit::KernelSet>> made(std::size(kDequantForms));
  for (size_t i = 0; i < std::size(kDequantForms); ++i) {
    const DequantForm& f = kDequantForms[i];
    for (const Instance& instance : kInstances) {
      if (!instance.serves(f)) continue;
      made[i].emplace_back("gpukit/ops/matmul/quantized/dequant_gemm_sm90.cuh",
                           std::vector{std::string("gpukit::dequant_gemm_sm90<") + type_of(f.weights) + ", {T}, " +
                                       std::to_string(instance.columns) + ", " + std::to_string(f.group) +
                                       (f.zero ? ", true, " : ", false, ") + std::to_string(instance.blocks) + ">"},
                           std::vector{DType::float16, DType::bfloat16}, std::vector<std::string>{"90a"});
    }
  }
  return made;
}();

const DequantForm& find_form(Code weights, int group, bool zero) {
  return *std::find_if(std::begin(kDequantForms), std::end(kDequantForms), [&](const DequantForm& f) {
    return f.weights == weights && f.group == group && f.zero == zero;
  });
}

const jit::KernelSet& set_of(const DequantForm& form, const DequantGemmPlan& plan) {
  size_t at = 0;
  for (const Instance& instance : kInstances) {
    if (instance.columns == plan.columns && instance.blocks == plan.blocks) break;
    at += instance.serves(form) ? 1 : 0;
  }
  return sets[static_cast<size_t>(&form - kDequantForms)][at];
}

int group_of(const ScaledProblem& s) {
  return s.b.code == Code::float4_e2m1 || scaled_along_k(s.b) ? 1 << s.b.scale.column_shift : 0;
}

/// The rings take what shared memory is left, as far ahead along k the one as the other.
bool fill_rings(DequantGemm* share, int columns, bool packed, int shared_per_block) {
  constexpr int kLeast = 2, kMost = 16;
  const int weight_k = DequantGemm::weight_k(packed);
  share->weight_stages = share->token_stages = kLeast;
  if (share->shared_bytes(columns) > shared_per_block) return false;
  for (;;) {
    DequantGemm more = *share;
    const bool for_weights = more.weight_stages * weight_k <= more.token_stages * DequantGemm::kTokenK;
    ++(for_weights ? more.weight_stages : more.token_stages);
    if (more.shared_bytes(columns) > shared_per_block) {
      more = *share;
      ++(for_weights ? more.token_stages : more.weight_stages);
    }
    if (more.shared_bytes(columns) > shared_per_block || more.weight_stages > kMost ||
        more.token_stages > DequantGemm::kMaxStages)
      return true;
    *share = more;
  }
}

/// The time of a product by a model of an H200. What counts is in how many rounds of tiles a multiprocessor is done,
/// and how much of k the first block of a cluster, or the first way, walks in each.
double time_of(const ScaledProblem& s, const DequantGemmFacts& facts, const Instance& instance,
               const DequantGemm& share) {
  const bool chained = facts.group != 0;
  const int64_t clusters = std::max(1, h200::filled(instance.blocks, facts.sm_count) / instance.blocks);
  const int64_t loop_k = DequantGemm::loop_k(facts.group), chain = chained ? DequantGemm::kChain : s.k;
  int64_t loops = 0;
  for (int64_t k = 0; k < s.k; k += chain * instance.blocks * share.ways)
    loops += ceil_div(std::min(chain, s.k - k), loop_k);
  const auto step = std::find_if(std::begin(h200::kStepTimes), std::end(h200::kStepTimes),
                                 [&](const h200::StepTime& t) { return t.columns == instance.columns; });
  const double of_step = (share.warpgroups == 2 ? step->of_two : step->of_one) *
                         h200::beside_int4(facts.weights, facts.group) * static_cast<double>(loop_k) / 128.0;
  const double work = static_cast<double>(ceil_div(share.tiles, clusters) * loops) * of_step;
  const double bytes = static_cast<double>(s.n) * static_cast<double>(s.k) / (is_packed(facts.weights) ? 2.0 : 1.0);
  return std::max(work, bytes / h200::kMemory) + (instance.blocks > 1 ? h200::kStartOfCluster : h200::kStart) +
         (share.ways > 1 ? h200::kEndOfWays : 0.0);
}

/// With `warpgroups` warpgroups; nullopt where that does not fit, or leaves rings so short that loads are waited for.
std::optional<DequantGemmPlan> plan_instance(const ScaledProblem& s, const DequantGemmFacts& facts,
                                             const Instance& instance, int warpgroups, int ways) {
  constexpr int64_t kMostTiles = int64_t{1} << 28, kAheadBytes = 512;
  constexpr int kLeastTokenStages = 4;
  const int columns = instance.columns, blocks = instance.blocks;
  const bool packed = is_packed(facts.weights);
  const int64_t chains = facts.group != 0 ? ceil_div(s.k, DequantGemm::kChain) : 1;
  if (ways > 1 && (blocks > 1 || columns > DequantGemm::kMostColumnsOfWays)) return std::nullopt;
  if (std::max(blocks, ways) > chains || !instance.serves(find_form(facts.weights, facts.group, facts.zero)))
    return std::nullopt;
  DequantGemm share = {};
  share.rows = warpgroups / ways * 64;
  share.warpgroups = warpgroups;
  share.ways = ways;
  share.tokens = static_cast<int>(std::min<int64_t>(s.m, columns));
  share.token_tiles = static_cast<int>(ceil_div(s.m, columns));
  const int64_t tiles = ceil_div(s.n, share.rows) * share.token_tiles;
  const int64_t slots = chains == 1 ? 0 : blocks == 1 && ways == 1 ? 1 : ceil_div(chains, blocks);
  if (tiles > kMostTiles || slots * DequantGemm::slot_bytes(columns) > facts.shared_per_block) return std::nullopt;
  share.tiles = static_cast<int>(tiles);
  share.slots = static_cast<int>(slots);
  share.tma_store = facts.tma_store && blocks == 1 && ways == 1 ? 1 : 0;
  share.kept_bytes = std::max(share.slots, 1) * DequantGemm::slot_bytes(columns);
  if (share.tma_store != 0 && share.slots == 0)
    share.kept_bytes = s.out == Code::float32 ? 64 * 4 * std::min(columns, 64) : 64 * 2 * columns;
  if (!fill_rings(&share, columns, packed, facts.shared_per_block)) return std::nullopt;
  if (share.token_stages < kLeastTokenStages) return std::nullopt;
  share.ahead = static_cast<int>(std::min<int64_t>(packed ? s.k / 2 : s.k, kAheadBytes));
  return DequantGemmPlan{
      .columns = columns,
      .blocks = blocks,
      .share = share,
      .grid = static_cast<unsigned>(blocks == 1 ? std::min<int64_t>(tiles, facts.sm_count) : tiles * blocks),
      .overlaps = blocks == 1 && should_overlap(tiles, facts.sm_count),
      .time_us = time_of(s, facts, instance, share)};
}

}  // namespace

std::optional<DequantGemmPlan> plan_dequant_gemm(const ScaledProblem& s, const DequantGemmFacts& facts) {
  std::optional<DequantGemmPlan> best;
  constexpr std::pair<int, int> kShares[] = {{1, 1}, {2, 1}, {2, 2}};  // warpgroups, ways
  for (const Instance& instance : kInstances)
    for (const auto& [warpgroups, ways] : kShares) {
      const auto plan = plan_instance(s, facts, instance, warpgroups, ways);
      if (plan && (!best || plan->time_us < best->time_us)) best = plan;
    }
  return best;
}

bool can_store_by_tma(const ScaledProduct& p) {
  const ScaledProblem& s = p.problem;
  if (!p.out.defined()) return false;
  const DType dtype = p.out.dtype();
  const bool known = dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32;
  // The TMA writes whole pieces of 16 bytes: a row that ends within one would take its neighbours along.
  return known && s.out_n == 1 && is_aligned(p.out) && s.n * itemsize(dtype) % 16 == 0 &&
         (s.m == 1 || (s.out_m > 0 && s.out_m * itemsize(dtype) % 16 == 0));
}

KernelCall call_of(const ScaledProduct& p, const DequantGemmPlan& plan) {
  const DequantForm& form = find_form(p.problem.b.code, group_of(p.problem), p.b.zero.defined());
  return {&set_of(form, plan).get(0, p.a.data.dtype()),
          {.grid_x = plan.grid,
           .block_x = static_cast<unsigned>(plan.share.threads()),
           .shared_bytes = static_cast<unsigned>(plan.share.shared_bytes(plan.columns)),
           .overlaps = plan.overlaps}};
}

void launch_dequant_gemm(const ScaledProduct& p, const DequantGemmPlan& plan) {
  const ScaledProblem& s = p.problem;
  const DType dtype = p.a.data.dtype();
  const int64_t row_bytes = is_packed(s.b.code) ? s.k / 2 : s.k;
  const jit::Boxes values = {read(p.b.data), row_boxes(DType::uint8, row_bytes, s.n, s.b.row, 128, plan.share.rows)};
  const jit::Boxes tokens = {read(p.a.data), row_boxes(dtype, s.k, s.m, s.a.row, 64, plan.share.tokens)};
  // Where the result does not leave in boxes its map is not used: any will do.
  const int out_bytes = static_cast<int>(itemsize(p.out.dtype()));
  const int height = out_bytes == 4 ? std::min(plan.columns, 32) : plan.columns;
  const jit::Boxes results =
      plan.share.tma_store != 0
          ? jit::Boxes{write(p.out), row_boxes(p.out.dtype(), s.n, s.m, s.out_m, 128 / out_bytes, height)}
          : tokens;
  const auto [kernel, config] = call_of(p, plan);
  jit::launch(*kernel, p.out.device(), config, values, tokens, results, write(p.out), read_if(p.b.scale),
              read_if(p.b.zero), read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), s, plan.share);
}

}  // namespace gpukit::cuda
