#include "gpukit/ops/gemv/gemv_codes.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/gemv/gemv_codes_shape.cuh"
#include "gpukit/ops/gemv/skinny_codes_shape.cuh"

namespace gpukit::cuda {
namespace {

constexpr int64_t kGranuleBytes = 16;  // of a row, for one thread

/// Weights, the columns that share a scale (0: all), and what is fastest for one row of a.
struct Form {
  Code weights;
  int group;
  bool zero;
  int pairs, resident;
  std::vector<DType> tokens;
};
const std::vector<DType> kHalves = {DType::float16, DType::bfloat16};
const std::vector<DType> kTokens = {DType::float16, DType::bfloat16, DType::float8_e4m3};
const Form kForms[] = {
    {Code::float8_e4m3, 0, false, 2, 8, kTokens},  {Code::float8_e4m3, 128, false, 2, 7, kTokens},
    {Code::int8, 0, false, 2, 8, kHalves},         {Code::int4, 32, false, 1, 5, kHalves},
    {Code::int4, 32, true, 1, 4, kHalves},         {Code::int4, 64, false, 2, 5, kHalves},
    {Code::int4, 64, true, 1, 6, kHalves},         {Code::int4, 128, false, 2, 6, kHalves},
    {Code::int4, 128, true, 2, 6, kHalves},        {Code::float4_e2m1, 16, false, 2, 6, kHalves},
    {Code::float4_e2m1, 32, false, 2, 6, kHalves},
};

const char* type_of(Code weights) {
  switch (weights) {
    case Code::float8_e4m3: return "gpukit::float8_e4m3";
    case Code::int8: return "signed char";
    case Code::int4: return "gpukit::packed_int4";
    default: return "gpukit::packed_e2m1";
  }
}

/// Stages of skinny_codes.
struct Ring {
  int wide, stages;
};
Ring ring_of(const Form& f, int tokens) {
  if (tokens == 64) return {1, 3};
  return f.group == 0 ? Ring{2, 3} : Ring{1, 4};
}
int skinny_shared_bytes(const Form& f, int tokens) {
  const Ring ring = ring_of(f, tokens);
  return skinny_codes_shared_bytes(tokens, ring.wide, is_packed(f.weights), f.group,
                                   f.weights == Code::float4_e2m1 ? 1 : 4, ring.stages);
}

std::string arguments(std::initializer_list<int> numbers) {
  std::string text;
  for (int number : numbers) text += ", " + std::to_string(number);
  return text;
}

/// By form: each kernel is a module of its own, so that a first call compiles one. `tokens`: as in GemvCodesPlan.
std::vector<jit::KernelSet> make_sets(int tokens) {
  std::vector<jit::KernelSet> sets;
  for (const Form& f : kForms) {
    const std::string types = std::string("<") + type_of(f.weights) + ", {T}", zero = f.zero ? ", true" : ", false";
    if (tokens == 1) {
      sets.emplace_back("gpukit/ops/gemv/gemv_codes.cuh",
                        std::vector{"gpukit::gemv_codes" + types + arguments({f.pairs, f.group}) + zero +
                                    arguments({f.resident}) + ">"},
                        f.tokens);
      continue;
    }
    std::vector<DType> halves = f.tokens;
    std::erase(halves, DType::float8_e4m3);
    const Ring ring = ring_of(f, tokens);
    sets.emplace_back("gpukit/ops/gemv/skinny_codes.cuh",
                      std::vector{"gpukit::skinny_codes" + types + arguments({tokens, ring.wide, f.group}) + zero +
                                  arguments({ring.stages}) + ">"},
                      halves);
  }
  return sets;
}
const std::vector<jit::KernelSet> vector_sets = make_sets(1), sets_of_16 = make_sets(16), sets_of_64 = make_sets(64);

const std::vector<jit::KernelSet>& sets_for(int tokens) {
  return tokens == 1 ? vector_sets : tokens == 16 ? sets_of_16 : sets_of_64;
}

/// The number of the form that takes these codes and groups, or -1.
int find_form(Code weights, int group, bool zero, DType dtype, int tokens) {
  for (size_t i = 0; i < std::size(kForms); ++i) {
    const Form& f = kForms[i];
    if (f.weights == weights && f.group == group && f.zero == zero && sets_for(tokens)[i].has(dtype))
      return static_cast<int>(i);
  }
  return -1;
}

/// Scales that change along k lie as the kernels read them.
bool reads_groups(const ScaledProduct& p, int group) {
  const ScaleLayout &scale = p.space.b.scale, &zero = p.space.b.zero;
  const int row_shift = is_packed(p.space.b.code) ? 0 : 7;
  if (scale.column != 1 || (scale.row != 0 && scale.row_shift != row_shift)) return false;
  if (p.b.zero.defined()) return is_aligned(p.b.zero) && zero.row == scale.row && zero.column == 1;
  if (p.space.b.code != Code::float4_e2m1) return true;
  return is_aligned(p.b.scale) && scale.row % 4 == 0 && p.space.k % (4 * group) == 0;  // read in words
}

/// Groups of rows for a block: several share its numbers of x where these stay in registers, but the blocks are still
/// enough to fill the chip twice, so that it has little left to do when the last ones run.
int64_t groups_of_block(const Form& f, int64_t groups, int64_t rounds, int threads, const GemvCodesChip& chip) {
  constexpr int64_t kMost = 4;
  if (rounds > 1) return 1;
  const int resident = std::min(f.resident * kGemvCodesThreads, chip.max_threads_per_sm) / threads;
  return std::clamp(groups / (2 * int64_t{chip.sm_count} * resident), int64_t{1}, kMost);
}

}  // namespace

std::optional<GemvCodesPlan> plan_gemv_codes(const ScaledProduct& p, const GemvCodesChip& chip, bool one_order) {
  constexpr int64_t kMax = int64_t{1} << 30;
  const ScaledSpace& s = p.space;
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
  int tokens = s.m == 1 && !one_order ? 1 : s.m <= 16 ? 16 : 64;
  const int number = find_form(s.b.code, group, p.b.zero.defined(), p.a.data.dtype(), tokens);
  if (number < 0) return std::nullopt;
  const Form& form = kForms[number];

  if (tokens > 1) {
    if (skinny_shared_bytes(form, tokens) > chip.shared_per_block) tokens = 16;
    const int64_t blocks = ceil_div(s.m, tokens) * ceil_div(s.n, kSkinnyCodesRows);
    if (blocks > kMax) return std::nullopt;
    return GemvCodesPlan{.form = number,
                         .tokens = tokens,
                         .grid = static_cast<unsigned>(blocks),
                         .block = kSkinnyCodesThreads,
                         .shared_bytes = static_cast<unsigned>(skinny_shared_bytes(form, tokens))};
  }
  // Rounds of equal length over a row: the number of threads, and so the order of sums, follows from k and the format.
  const int64_t granules = row_bytes / kGranuleBytes, rounds = ceil_div(granules, kGemvCodesThreads);
  const int threads = static_cast<int>(ceil_div(ceil_div(granules, rounds), 32) * 32);
  const int64_t groups = ceil_div(s.n, 2 * form.pairs);
  return GemvCodesPlan{
      .form = number,
      .tokens = 1,
      .grid = static_cast<unsigned>(ceil_div(groups, groups_of_block(form, groups, rounds, threads, chip))),
      .block = static_cast<unsigned>(threads),
      .shared_bytes = 0};
}

bool launch_gemv_codes(const ScaledProduct& p, bool one_order) {
  const driver::DeviceProperties& chip = p.out.context().properties();
  const auto plan = plan_gemv_codes(p,
                                    {.sm_count = runtime::current_sm_count(p.out.device()),
                                     .shared_per_block = chip.shared_per_block_optin,
                                     .max_threads_per_sm = chip.max_threads_per_sm},
                                    one_order);
  if (!plan) return false;
  jit::launch(sets_for(plan->tokens)[static_cast<size_t>(plan->form)].get(0, p.a.data.dtype()), p.out.device(),
              {.grid_x = plan->grid, .block_x = plan->block, .shared_bytes = plan->shared_bytes}, write(p.out),
              read(p.a.data), read_if(p.a.scale), read(p.b.data), read_if(p.b.scale), read_if(p.b.zero),
              read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), p.space);
  return true;
}

}  // namespace gpukit::cuda
