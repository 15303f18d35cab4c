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

namespace gpukit::cuda {
namespace {

constexpr int64_t kGranuleBytes = 16;  // of a row, for one thread

/// Weights, the columns that share a scale (0: all), and what is fastest for them.
struct Form {
  Code weights;
  int group;
  bool zero;
  int pairs, stages, resident;
  std::vector<DType> tokens;

  int shared_bytes(int threads) const { return gemv_codes_shared_bytes(threads, pairs, group != 0, zero, stages); }
};
const std::vector<DType> kHalves = {DType::float16, DType::bfloat16};
const Form kForms[] = {
    {Code::float8_e4m3, 0, false, 2, 3, 4, {DType::bfloat16, DType::float8_e4m3}},
    {Code::float8_e4m3, 0, false, 2, 4, 3, {DType::float16}},
    {Code::float8_e4m3, 128, false, 2, 3, 3, {DType::float16, DType::bfloat16, DType::float8_e4m3}},
    {Code::int8, 0, false, 2, 3, 4, {DType::bfloat16}},
    {Code::int8, 0, false, 2, 4, 3, {DType::float16}},
    {Code::int4, 32, false, 1, 5, 3, kHalves},
    {Code::int4, 32, true, 1, 4, 3, kHalves},
    {Code::int4, 64, false, 1, 5, 3, kHalves},
    {Code::int4, 64, true, 1, 4, 3, kHalves},
    {Code::int4, 128, false, 2, 3, 3, kHalves},
    {Code::int4, 128, true, 1, 4, 4, kHalves},
    {Code::float4_e2m1, 16, false, 2, 3, 3, kHalves},
    {Code::float4_e2m1, 32, false, 1, 5, 4, kHalves},
};

const char* type_of(Code weights) {
  switch (weights) {
    case Code::float8_e4m3: return "gpukit::float8_e4m3";
    case Code::int8: return "signed char";
    case Code::int4: return "gpukit::packed_int4";
    default: return "gpukit::packed_e2m1";
  }
}

/// By form: each kernel is a module of its own, so that a first call compiles one.
std::vector<jit::KernelSet> make_sets() {
  std::vector<jit::KernelSet> sets;
  for (const Form& f : kForms) {
    std::string name = std::string("gpukit::gemv_codes<") + type_of(f.weights) + ", {T}";
    for (int number : {f.pairs, f.group}) name += ", " + std::to_string(number);
    name += f.zero ? ", true" : ", false";
    for (int number : {f.stages, f.resident}) name += ", " + std::to_string(number);
    sets.emplace_back("gpukit/ops/gemv/gemv_codes.cuh", std::vector<std::string>{name + ">"}, f.tokens);
  }
  return sets;
}
const std::vector<jit::KernelSet> sets = make_sets();

/// The number of the form that takes these codes and groups, or -1.
int find_form(Code weights, int group, bool zero, DType tokens) {
  for (size_t i = 0; i < std::size(kForms); ++i) {
    const Form& f = kForms[i];
    if (f.weights == weights && f.group == group && f.zero == zero && sets[i].has(tokens)) return static_cast<int>(i);
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

/// Of one multiprocessor, at least: kernels may have fewer registers than `resident` blocks of the largest size allow.
int resident_blocks(const Form& f, int threads, const GemvCodesChip& chip) {
  constexpr int kReserved = 1024;  // shared memory that every block costs
  const int by_shared = chip.shared_per_sm / (f.shared_bytes(threads) + kReserved);
  return std::max(1,
                  std::min({f.resident * kGemvCodesThreads / threads, by_shared, chip.max_threads_per_sm / threads}));
}

}  // namespace

std::optional<GemvCodesPlan> plan_gemv_codes(const ScaledProduct& p, const GemvCodesChip& chip) {
  constexpr int64_t kMax = int64_t{1} << 30;
  const ScaledSpace& s = p.space;
  if (s.m != 1 || s.experts != 0 || s.k == 0 || s.n > kMax || s.k > kMax) return std::nullopt;
  const int64_t row_bytes = is_packed(s.b.code) ? s.k / 2 : s.k;
  const bool rows_lie_well = is_aligned(p.b.data) && s.b.k == 1 && row_bytes % kGranuleBytes == 0 &&
                             (s.n == 1 || s.b.row % kGranuleBytes == 0);
  if (!rows_lie_well || !is_aligned(p.a.data) || s.a.k != 1) return std::nullopt;

  const bool grouped = s.b.code == Code::float4_e2m1 || scaled_along_k(s.b);
  const int group = grouped ? 1 << s.b.scale.column_shift : 0;
  if (grouped && !reads_groups(p, group)) return std::nullopt;
  // Scales of x that change along k go with those of 128x128 blocks.
  if (scaled_along_k(s.a) && (group != 128 || s.a.scale.column_shift != 7)) return std::nullopt;
  const int kernel = find_form(s.b.code, group, p.b.zero.defined(), p.a.data.dtype());
  if (kernel < 0) return std::nullopt;

  // Rounds of equal length over a row: the number of threads, and so the order of sums, follows from k and the format.
  const Form& form = kForms[kernel];
  const int64_t granules = row_bytes / kGranuleBytes, rounds = ceil_div(granules, kGemvCodesThreads);
  const int threads = static_cast<int>(ceil_div(ceil_div(granules, rounds), 32) * 32);
  const int64_t at_once = int64_t{chip.sm_count} * resident_blocks(form, threads, chip);
  return GemvCodesPlan{.kernel = kernel,
                       .grid = static_cast<unsigned>(std::min(ceil_div(s.n, 2 * form.pairs), at_once)),
                       .block = static_cast<unsigned>(threads),
                       .shared_bytes = static_cast<unsigned>(form.shared_bytes(threads))};
}

bool launch_gemv_codes(const ScaledProduct& p) {
  const driver::DeviceProperties& chip = p.out.context().properties();
  const auto plan = plan_gemv_codes(p, {.sm_count = runtime::current_sm_count(p.out.device()),
                                        .shared_per_sm = chip.shared_per_sm,
                                        .max_threads_per_sm = chip.max_threads_per_sm});
  if (!plan) return false;
  jit::launch(sets[static_cast<size_t>(plan->kernel)].get(0, p.a.data.dtype()), p.out.device(),
              {.grid_x = plan->grid, .block_x = plan->block, .shared_bytes = plan->shared_bytes}, write(p.out),
              read(p.a.data), read_if(p.a.scale), read(p.b.data), read_if(p.b.scale), read_if(p.b.zero),
              read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), p.space);
  return true;
}

}  // namespace gpukit::cuda
