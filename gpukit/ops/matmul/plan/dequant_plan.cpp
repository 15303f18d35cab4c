#include "gpukit/ops/matmul/plan/dequant_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/matmul/plan/dequant_forms.h"
#include "gpukit/ops/matmul/plan/h200.h"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm80_shape.cuh"
#include "gpukit/ops/matmul/quantized/dequant_gemm_sm90.h"
#include "gpukit/ops/matmul/quantized/dequant_gemv_shape.cuh"
#include "gpukit/ops/matmul/quantized/nvfp4_gemv_shape.cuh"

namespace gpukit::cuda {
namespace {

constexpr int64_t kGranuleBytes = 16;  // of a row, for one thread

int gemm_sm80_shared_bytes(const DequantForm& f, int tokens) {
  const DequantRingShape ring = ring_of(f, tokens);
  return dequant_gemm_sm80_shared_bytes(tokens, ring.wide, is_packed(f.weights), f.group,
                                        f.weights == Code::float4_e2m1 ? 1 : 4, ring.stages);
}

/// The number of the form that takes these quantised values and groups, or -1.
int find_form(Code weights, int group, bool zero, DType dtype, int tokens) {
  for (int i = 0; i < static_cast<int>(std::size(kDequantForms)); ++i) {
    const DequantForm& f = kDequantForms[i];
    if (f.weights == weights && f.group == group && f.zero == zero && f.takes(dtype, tokens)) return i;
  }
  return -1;
}

/// Scales that change along k lie as the kernels read them.
bool reads_groups(const ScaledProduct& p, int group) {
  const ScaleLayout &scale = p.problem.b.scale, &zero = p.problem.b.zero;
  const int row_shift = is_packed(p.problem.b.code) ? 0 : 7;
  if (scale.column != 1 || (scale.row != 0 && scale.row_shift != row_shift)) return false;
  if (p.b.zero.defined()) return is_aligned(p.b.zero) && zero.row == scale.row && scale.row >= 0 && zero.column == 1;
  if (p.problem.b.code != Code::float4_e2m1) return true;
  return is_aligned(p.b.scale) && scale.row % 4 == 0 && p.problem.k % (4 * group) == 0;  // read in words
}

/// How many blocks of one row of x run at once. As many on a multiprocessor as leave it the fewest groups of `rows`,
/// because the last group of a block costs as much as a whole one; but not much fewer than fit, which hide latencies.
int64_t blocks_at_once(int64_t n, int rows, int fit, int sm_count) {
  int64_t best = 0, fewest = 0;
  for (int64_t blocks = fit; 4 * blocks >= 3 * fit; --blocks) {
    const int64_t groups = blocks * ceil_div(ceil_div(n, blocks * sm_count), rows);
    if (fewest == 0 || groups < fewest) best = blocks, fewest = groups;
  }
  return best * sm_count;
}
constexpr int kReserved = 1024;  // shared memory of a block that is not its own

/// Where a block of one row has a multiprocessor for itself: its threads have 96 registers at least.
bool overlaps(int64_t grid, int threads, const MatmulChip& chip) {
  return chip.sm_major >= 9 && 2 * threads * 96 > 65536 && should_overlap(grid, chip.sm_count);
}

/// The shared memory of a block so that no more than `blocks` fit a multiprocessor: early ones then spread as all do.
int share_of_memory(int64_t blocks, const MatmulChip& chip) {
  constexpr int64_t kUnit = 128;
  return static_cast<int>(((chip.shared_per_block + kReserved) / blocks - kReserved) / kUnit * kUnit);
}

/// One row of x by e2m1. nullopt: x leaves too little of the chip's shared memory.
std::optional<DequantPlan> plan_e2m1(const ScaledProblem& s, int form, const MatmulChip& chip) {
  constexpr int kLeastWarps = 4;
  if (2 * s.k > chip.shared_per_block) return std::nullopt;
  const int chunks = static_cast<int>(ceil_div(s.k, kNvfp4GemvK / 2)), group = kDequantForms[form].group;
  int warps = std::min(kNvfp4GemvWarps, chunks);
  while (nvfp4_gemv_shared_bytes(warps, chunks, group) > chip.shared_per_block)
    if (--warps < std::min(chunks, kLeastWarps)) return std::nullopt;
  const int shared = nvfp4_gemv_shared_bytes(warps, chunks, group);
  const int fit = std::min(kNvfp4GemvWarps / warps, (chip.shared_per_block + kReserved) / (shared + kReserved));
  const int64_t grid = std::min(blocks_at_once(s.n, kNvfp4GemvRows, fit, chip.sm_count), s.n);
  return DequantPlan{.form = form,
                     .tokens = 1,
                     .rounds = nvfp4_gemv_rounds(warps, chunks),
                     .batch = 0,
                     .grid = static_cast<unsigned>(grid),
                     .block = static_cast<unsigned>(warps * 32),
                     .shared_bytes = static_cast<unsigned>(shared),
                     .overlaps = overlaps(grid, warps * 32, chip)};
}

/// One row of x. nullopt: it is too long for the registers of a block, or its block for the chip's shared memory. The
/// number of threads, and so the order of sums where none is asked for, follows from k, the format and the shared
/// memory of a block.
std::optional<DequantPlan> plan_vector(const ScaledProblem& s, int form, int token_bytes, bool ordered,
                                       const MatmulChip& chip) {
  const DequantForm& f = kDequantForms[form];
  if (f.pairs == 0) return plan_e2m1(s, form, chip);
  const bool packed = is_packed(f.weights);
  const int rows = 2 * (ordered ? kOrderedPairs : f.pairs);
  const int stage = dequant_gemv_stage_bytes(dequant_gemv_scale_words(packed, f.group, f.zero, rows), rows);
  const int64_t warp_columns = ceil_div(packed ? s.k / 2 : s.k, 32 * kGranuleBytes);
  const int most_rows = 48, least_rows = ordered ? 8 : 16;  // of a batch
  int rounds = ordered ? kDequantGemvOrderedRounds : 1, warps = 0, batch = 0, shared = 0;
  const auto fits = [&] {
    warps = static_cast<int>(ceil_div(warp_columns, rounds));
    if (warps * 32 > dequant_gemv_max_threads(rounds, ordered)) return false;
    for (batch = most_rows; batch >= least_rows; batch -= least_rows) {
      shared = dequant_gemv_shared_bytes(warps, rounds, rows, packed, ordered, token_bytes, stage, batch);
      if (shared <= chip.shared_per_block) return true;
    }
    return false;
  };
  while (!fits())
    if (++rounds > dequant_gemv_max_rounds(packed)) return std::nullopt;
  const int threads = warps * 32;
  const int fit = std::min(dequant_gemv_max_threads(rounds, ordered) / threads,
                           (chip.shared_per_block + kReserved) / (shared + kReserved));
  const int64_t at_once = blocks_at_once(s.n, rows, fit, chip.sm_count), grid = std::min(at_once, ceil_div(s.n, rows));
  const bool fills = ordered && chip.sm_major >= 9 && grid == at_once;
  if (fills) shared = std::max(shared, share_of_memory(at_once / chip.sm_count, chip));
  return DequantPlan{.form = form,
                     .tokens = 1,
                     .rounds = rounds,
                     .batch = batch,
                     .grid = static_cast<unsigned>(grid),
                     .block = static_cast<unsigned>(threads),
                     .shared_bytes = static_cast<unsigned>(shared),
                     .overlaps = fills || overlaps(grid, threads, chip),
                     .ordered = ordered};
}

/// How group_scaled_split_k_sm90 shares a product: the way that takes least time, by what was measured on an H200.
/// Memory gives every multiprocessor its share; a stage takes some time however small it is, as do each chain and each
/// warp in it.
std::optional<DequantPlan> plan_split_k(const ScaledProblem& s, int number, const MatmulChip& chip) {
  constexpr int kMinStages = 4, kMaxStages = 16;  // fewer are slow
  constexpr int kMaxChains = 4096;                // sums of more do not fit, however they are shared
  // Multiprocessors come in groups of 8 that hold a cluster together; what a session has beside them may lie apart.
  constexpr int kGroupedMultiprocessors = 8;
  static_assert(kMinStages >= kSplitKMinStages && kSplitKChain == kDequantGemm80Chain);
  const DequantForm& form = kDequantForms[number];
  const int* const tokens = std::find_if(kSplitKTokens, std::end(kSplitKTokens), [&](int t) { return s.m <= t; });
  if (chip.sm_major != 9 || tokens == std::end(kSplitKTokens) || *tokens > form.split_k_tokens) return std::nullopt;
  const bool packed = is_packed(form.weights);
  const double of_warp = h200::split_k_warp_ns(form.weights);
  const int chains = static_cast<int>(ceil_div(s.k, kSplitKChain)), warps = split_k_warps(*tokens, packed);
  if (chains > kMaxChains) return std::nullopt;
  const int64_t max_rows = std::min(256, warps * 16);
  std::optional<DequantPlan> best;
  double least = 0.0;
  for (const int blocks : kSplitKClusters) {
    if (blocks > 1 && chip.sm_count < kGroupedMultiprocessors) continue;
    const int64_t clusters = std::max(1, h200::filled(blocks, chip.sm_count) / blocks);
    const int64_t waves = ceil_div(s.n, clusters * max_rows);
    const int rows = static_cast<int>(ceil_div(ceil_div(s.n, clusters * waves), 16) * 16);
    const int64_t tiles = ceil_div(s.n, rows);
    const double share_of_memory =
        h200::kMemory / 1e3 / static_cast<double>(std::min<int64_t>(tiles * blocks, chip.sm_count));
    const int64_t most = std::min<int64_t>(warps / (rows / 16), ceil_div(chains, blocks));
    for (int split = 1; split <= most; ++split) {
      SplitKShare share{rows, split, 0};
      const int room = chip.shared_per_block - split_k_shared_bytes(share, *tokens, packed, chains, blocks);
      share.stages = std::min(kMaxStages, room / split_k_stage_bytes(share, *tokens, packed));
      if (room < 0 || share.stages < kMinStages) continue;
      const double bytes = split * (rows + *tokens * (packed ? 4.0 : 2.0)) * 128.0;
      const double stage =
          std::max({h200::kSplitKStageNs + h200::kSplitKChainNs * split,
                    h200::kSplitKStageNs + of_warp * split * rows / 16, h200::kSplitKLoadNs + bytes / share_of_memory});
      int64_t length = 0;  // of k, that the first block walks
      for (int64_t at = 0; at < s.k; at += int64_t{kSplitKChain} * blocks * split)
        length += std::min<int64_t>(s.k - at, kSplitKChain);
      const double time = static_cast<double>(waves * ceil_div(length, packed ? 256 : 128)) * stage +
                          (blocks > 1 ? h200::kSplitKClusterNs : 0.0);
      if (best && time >= least) continue;
      least = time;
      best = DequantPlan{
          .form = number,
          .tokens = *tokens,
          .rounds = 0,
          .batch = 0,
          .grid = static_cast<unsigned>(tiles * blocks),
          .block = static_cast<unsigned>(split_k_threads(*tokens, packed)),
          .shared_bytes = static_cast<unsigned>(split_k_shared_bytes(share, *tokens, packed, chains, blocks)),
          .blocks = blocks,
          .share = share};
    }
  }
  return best;
}

/// How w8a16_sm90 shares a product: in as few rounds of tiles as its warpgroups allow, each tile as small as
/// makes the work of all multiprocessors the same. What counts is how many rounds there are, then how many stages the
/// warpgroups of a tile multiply; between tiles of 32, 64 and 128 of many tokens, the time of these.
std::optional<DequantPlan> plan_w8a16(const ScaledProblem& s, int number, const MatmulChip& chip) {
  constexpr int64_t kMinRows = 8, kManyColumns = 32, kMostTiles = int64_t{1} << 30;
  constexpr int64_t kNarrowRows = 64, kAhead = 1024, kAheadOfMany = 512;  // bytes
  if (chip.sm_major != 9 || kDequantForms[number].group != 0) return std::nullopt;
  std::optional<DequantPlan> best;
  std::pair<int64_t, int64_t> least = {};
  int64_t least_time = 0;
  for (int i = 0; i < static_cast<int>(std::size(kW8A16Instances)); ++i) {
    const W8A16Instance& instance = kW8A16Instances[i];
    const int columns = instance.columns, chains = instance.chains,
              warpgroup_rows = W8A16Tiling::warpgroup_rows(chains);
    if (columns < std::min(s.m, kManyColumns) || (best && columns != best->tokens && s.m <= best->tokens)) continue;
    const int64_t token_tiles = ceil_div(s.m, columns),
                  least_tiles = ceil_div(s.n, int64_t{instance.warpgroups} * warpgroup_rows);
    const int64_t rounds = ceil_div(least_tiles * token_tiles, chip.sm_count);
    const int64_t row_tiles = std::max(least_tiles, rounds * chip.sm_count / token_tiles);
    const int64_t rows = std::max(kMinRows, ceil_div(s.n, row_tiles)), tiles = ceil_div(s.n, rows) * token_tiles;
    if (tiles > kMostTiles) continue;

    W8A16Tiling tiling = {};
    tiling.rows = static_cast<int>(rows);
    tiling.warpgroups = static_cast<int>(ceil_div(rows, warpgroup_rows));
    tiling.tokens = static_cast<int>(std::min<int64_t>(s.m, columns));
    tiling.token_tiles = static_cast<int>(token_tiles);
    tiling.tiles = static_cast<int>(tiles);
    tiling.fills = static_cast<int>(ceil_div(s.k, chains * kBytesChain));
    const std::pair<int64_t, int64_t> work = {rounds, int64_t{tiling.warpgroups} * tiling.fills};
    const int64_t time = work.first * work.second * instance.stage_time;
    if (best && (columns == best->tokens ? work >= least : time >= least_time)) continue;
    tiling.ahead = static_cast<int>(std::min(s.k, rows <= kNarrowRows ? kAhead : kAheadOfMany));
    for (tiling.ways = std::min({W8A16Tiling::kMaxWays, instance.warpgroups / tiling.warpgroups, tiling.fills});;
         --tiling.ways) {
      const int room = chip.shared_per_block - W8A16Tiling::kExtraBytes - tiling.handed_bytes(columns);
      tiling.stages = std::min(W8A16Tiling::kMaxStages, room / tiling.stage_bytes(columns, chains)) / tiling.ways;
      if (tiling.stages >= instance.stages || tiling.ways == 1) break;
    }
    if (tiling.stages < 2) continue;
    least = work;
    least_time = time;
    best = DequantPlan{.form = number,
                       .tokens = columns,
                       .rounds = 0,
                       .batch = 0,
                       .grid = static_cast<unsigned>(std::min<int64_t>(tiles, chip.sm_count)),
                       .block = static_cast<unsigned>(tiling.threads()),
                       .shared_bytes = static_cast<unsigned>(tiling.shared_bytes(columns, chains)),
                       .overlaps = should_overlap(tiles, chip.sm_count),
                       .instance = i,
                       .tiling = tiling,
                       .time_us = static_cast<double>(time) / 100.0 + h200::kStartOfW8A16};
  }
  return best;
}

}  // namespace

std::optional<DequantPlan> plan_dequant_kernel(const ScaledProduct& p, const MatmulChip& chip, bool one_order) {
  constexpr int64_t kMax = int64_t{1} << 30;
  constexpr int64_t kManyRows = 64;  // of weights on a multiprocessor: w8a16_sm90 is as fast for one row of a
  const ScaledProblem& s = p.problem;
  if (s.experts != 0 || s.k == 0 || std::max({s.m, s.n, s.k}) > kMax) return std::nullopt;
  // Where one order is wanted, a row is judged as the matrix it may be a slice of.
  const auto rows_lie_well = [&](const Array& x, const ScaledOperand& o, int64_t rows) {
    const bool alone = rows == 1 && !one_order;
    return is_aligned(x) && o.k == 1 && (alone || o.row * itemsize(x.dtype()) % kGranuleBytes == 0);
  };
  const int64_t row_bytes = is_packed(s.b.code) ? s.k / 2 : s.k;
  if (row_bytes % kGranuleBytes != 0 || !rows_lie_well(p.a.data, s.a, s.m) || !rows_lie_well(p.b.data, s.b, s.n))
    return std::nullopt;

  const bool grouped = s.b.code == Code::float4_e2m1 || scaled_along_k(s.b);
  const int group = grouped ? 1 << s.b.scale.column_shift : 0;
  if (grouped && !reads_groups(p, group)) return std::nullopt;
  // Scales of a that change along k go with those of 128x128 blocks.
  if (scaled_along_k(s.a) && (group != 128 || s.a.scale.column_shift != 7)) return std::nullopt;
  const int token_bytes = static_cast<int>(itemsize(p.a.data.dtype()));
  const bool alone = s.m == 1 && (!one_order || has_order(group, token_bytes));
  int tokens = alone ? 1 : s.m <= 16 ? 16 : 64;
  const int number = find_form(s.b.code, group, p.b.zero.defined(), p.a.data.dtype(), tokens);
  if (number < 0) return std::nullopt;
  const DequantForm& form = kDequantForms[number];

  // The copy engine walks forward alone.
  const bool forward = s.n == 1 || s.b.row > 0;
  if (tokens == 1) {
    if (one_order && forward && s.n > kManyRows * chip.sm_count)
      if (const auto plan = plan_w8a16(s, number, chip)) return plan;
    const auto plan = plan_vector(s, number, token_bytes, one_order, chip);
    if (plan || find_form(s.b.code, group, p.b.zero.defined(), p.a.data.dtype(), 16) < 0) return plan;
    tokens = 16;
  }
  if (forward && (s.m == 1 || s.a.row > 0)) {
    if (const auto plan = plan_split_k(s, number, chip)) return plan;
    if (const auto plan = plan_w8a16(s, number, chip)) return plan;
  }
  if (gemm_sm80_shared_bytes(form, tokens) > chip.shared_per_block) tokens = 16;
  const int64_t blocks = ceil_div(s.m, tokens) * ceil_div(s.n, kDequantGemm80Rows);
  if (blocks > kMax) return std::nullopt;
  return DequantPlan{.form = number,
                     .tokens = tokens,
                     .rounds = 0,
                     .batch = 0,
                     .grid = static_cast<unsigned>(blocks),
                     .block = kDequantGemm80Threads,
                     .shared_bytes = static_cast<unsigned>(gemm_sm80_shared_bytes(form, tokens))};
}

std::optional<DequantGemmPlan> plan_dequant_gemm_instead(const ScaledProduct& p, const DequantPlan& plan,
                                                         const MatmulChip& chip) {
  const ScaledProblem& s = p.problem;
  const DequantForm& form = kDequantForms[plan.form];
  const bool forward = (s.n == 1 || s.b.row > 0) && (s.m == 1 || s.a.row > 0);
  const bool halves = itemsize(p.a.data.dtype()) == 2;
  if (chip.sm_major != 9 || plan.tokens == 1 || plan.blocks != 0 || !forward || !halves) return std::nullopt;
  const bool w8a16 = plan.instance >= 0;
  if (w8a16 ? plan.tokens < 32 : s.m <= 16 && plan.grid >= 2u * static_cast<unsigned>(chip.sm_count))
    return std::nullopt;
  const auto dequant = plan_dequant_gemm(s, {.sm_count = chip.sm_count,
                                             .shared_per_block = chip.shared_per_block,
                                             .weights = form.weights,
                                             .group = form.group,
                                             .zero = form.zero,
                                             .tma_store = can_store_by_tma(p)});
  if (!dequant || (w8a16 && dequant->time_us >= plan.time_us)) return std::nullopt;
  return dequant;
}

}  // namespace gpukit::cuda
