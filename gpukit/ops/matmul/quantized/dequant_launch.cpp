#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/hopper/tensor_map.h"
#include "gpukit/ops/matmul/plan/dequant_forms.h"
#include "gpukit/ops/matmul/plan/dequant_plan.h"
#include "gpukit/ops/matmul/quantized/dequant_gemv_shape.cuh"
#include "gpukit/ops/matmul/quantized/dequant_launch.h"
#include "gpukit/ops/matmul/quantized/nvfp4_gemv_shape.cuh"

namespace gpukit::cuda {
namespace {

const std::vector<DType> kHalves = {DType::float16, DType::bfloat16};

std::vector<DType> tokens_of(const DequantForm& f) {
  return f.float8_row ? std::vector{DType::float16, DType::bfloat16, DType::float8_e4m3} : kHalves;
}

const char* type_of(Code weights) {
  switch (weights) {
    case Code::float8_e4m3: return "gpukit::float8_e4m3";
    case Code::int8: return "signed char";
    case Code::int4: return "gpukit::packed_int4";
    default: return "gpukit::packed_e2m1";
  }
}

std::string arguments(std::initializer_list<int> numbers) {
  std::string text;
  for (int number : numbers) text += ", " + std::to_string(number);
  return text;
}

/// Of a form, by rounds less 1 where these have kernels of their own. `ordered`: with the sums of several rows, and as
/// many rounds as a chain takes.
std::vector<jit::KernelSet> make_vector_sets(const DequantForm& f, bool ordered) {
  std::vector<jit::KernelSet> sets;
  if (ordered && !has_order(f.group, 2)) return sets;
  if (f.pairs == 0) {
    sets.emplace_back("gpukit/ops/matmul/quantized/nvfp4_gemv.cuh",
                      std::vector{"gpukit::nvfp4_gemv<{T}" + arguments({f.group}) + ">"}, tokens_of(f));
    return sets;
  }
  static_assert(kDequantGemvOrderedRounds == dequant_gemv_max_rounds(false));
  const int least = ordered ? kDequantGemvOrderedRounds : 1;
  for (int rounds = least; rounds <= dequant_gemv_max_rounds(is_packed(f.weights)); ++rounds)
    sets.emplace_back("gpukit/ops/matmul/quantized/dequant_gemv.cuh",
                      std::vector{std::string("gpukit::dequant_gemv<") + type_of(f.weights) + ", {T}" +
                                  arguments({ordered ? kOrderedPairs : f.pairs, f.group}) +
                                  (f.zero ? ", true" : ", false") + arguments({rounds}) + (ordered ? ", true>" : ">")},
                      ordered ? kHalves : tokens_of(f));
  return sets;
}

/// By form: each kernel is a module of its own, so that a first call compiles one. `tokens`: 16 or 64.
std::vector<jit::KernelSet> make_sets(int tokens) {
  std::vector<jit::KernelSet> sets;
  for (const DequantForm& f : kDequantForms) {
    const std::string types = std::string("<") + type_of(f.weights) + ", {T}", zero = f.zero ? ", true" : ", false";
    const DequantRingShape ring = ring_of(f, tokens);
    sets.emplace_back("gpukit/ops/matmul/quantized/dequant_gemm_sm80.cuh",
                      std::vector{"gpukit::dequant_gemm_sm80" + types + arguments({tokens, ring.wide, f.group}) + zero +
                                  arguments({ring.stages}) + ">"},
                      kHalves);
  }
  return sets;
}
std::vector<std::vector<jit::KernelSet>> make_vector_sets(bool ordered) {
  std::vector<std::vector<jit::KernelSet>> sets;
  for (const DequantForm& f : kDequantForms) sets.push_back(make_vector_sets(f, ordered));
  return sets;
}
const std::vector<std::vector<jit::KernelSet>> vector_sets = make_vector_sets(false),
                                               ordered_vector_sets = make_vector_sets(true);
const std::vector<jit::KernelSet> sets_of_16 = make_sets(16), sets_of_64 = make_sets(64);

/// By form, kSplitKTokens up to the form's most, and kSplitKClusters.
const std::vector<std::vector<jit::KernelSet>> split_k_sets = [] {
  std::vector<std::vector<jit::KernelSet>> sets(std::size(kDequantForms));
  for (size_t i = 0; i < std::size(kDequantForms); ++i) {
    const DequantForm& f = kDequantForms[i];
    for (int tokens : kSplitKTokens) {
      if (tokens > f.split_k_tokens) break;
      for (const int blocks : kSplitKClusters)
        sets[i].emplace_back(
            "gpukit/ops/matmul/quantized/group_scaled_split_k_sm90.cuh",
            std::vector{std::string("gpukit::group_scaled_split_k_sm90<") + type_of(f.weights) + ", {T}" +
                        arguments({tokens, f.group}) + (f.zero ? ", true" : ", false") + arguments({blocks}) + ">"},
            kHalves, std::vector<std::string>{"90a"});
    }
  }
  return sets;
}();
const jit::KernelSet& split_k_set(const DequantPlan& plan) {
  const int64_t tokens = std::find(kSplitKTokens, std::end(kSplitKTokens), plan.tokens) - kSplitKTokens;
  const int64_t cluster = std::find(kSplitKClusters, std::end(kSplitKClusters), plan.blocks) - kSplitKClusters;
  return split_k_sets[static_cast<size_t>(plan.form)]
                     [static_cast<size_t>(tokens * std::ssize(kSplitKClusters) + cluster)];
}

/// By form, where its scales do not change along k, and kW8A16Instances.
const std::vector<std::vector<jit::KernelSet>> w8a16_sets = [] {
  std::vector<std::vector<jit::KernelSet>> sets(std::size(kDequantForms));
  for (size_t i = 0; i < std::size(kDequantForms); ++i) {
    if (kDequantForms[i].group != 0) continue;
    for (const W8A16Instance& instance : kW8A16Instances)
      sets[i].emplace_back(
          "gpukit/ops/matmul/quantized/w8a16_sm90.cuh",
          std::vector{
              std::string("gpukit::w8a16_sm90<") + type_of(kDequantForms[i].weights) + ", {T}" +
              arguments({instance.columns, instance.chains, instance.taken, instance.warpgroups, instance.landings}) +
              ">"},
          kHalves, std::vector<std::string>{"90a"});
  }
  return sets;
}();

/// The kernels of a form; `rounds` and `ordered` count where tokens is 1.
const jit::KernelSet& set_for(int form, int tokens, int rounds, bool ordered = false) {
  const size_t i = static_cast<size_t>(form);
  if (tokens == 1)
    return ordered ? ordered_vector_sets[i][0]
                   : vector_sets[i][kDequantForms[i].pairs == 0 ? 0 : static_cast<size_t>(rounds - 1)];
  return tokens == 16 ? sets_of_16[i] : sets_of_64[i];
}

/// Weights of `row_bytes` bytes, `rows` of them at a time; and tokens.
jit::Boxes weight_map(const ScaledProduct& p, int64_t row_bytes, int rows) {
  return {read(p.b.data), row_boxes(DType::uint8, row_bytes, p.problem.n, p.problem.b.row, 128, rows)};
}
jit::Boxes token_map(const ScaledProduct& p, int tokens) {
  return {read(p.a.data), row_boxes(p.a.data.dtype(), p.problem.k, p.problem.m, p.problem.a.row, 64, tokens)};
}

const jit::KernelSet& set_of(const DequantPlan& plan) {
  if (plan.blocks != 0) return split_k_set(plan);
  if (plan.instance >= 0) return w8a16_sets[static_cast<size_t>(plan.form)][static_cast<size_t>(plan.instance)];
  return set_for(plan.form, plan.tokens, plan.rounds, plan.ordered);
}

}  // namespace

KernelCall call_of(const ScaledProduct& p, const DequantPlan& plan) {
  return {&set_of(plan).get(0, p.a.data.dtype()),
          {.grid_x = plan.grid, .block_x = plan.block, .shared_bytes = plan.shared_bytes, .overlaps = plan.overlaps}};
}

void launch_dequant_kernel(const ScaledProduct& p, const DequantPlan& plan) {
  const auto [kernel, config] = call_of(p, plan);
  const ScaledProblem& s = p.problem;
  const Device device = p.out.device();
  if (plan.blocks != 0)
    return jit::launch(*kernel, device, config, weight_map(p, is_packed(s.b.code) ? s.k / 2 : s.k, plan.share.rows),
                       token_map(p, plan.tokens), write(p.out), read_if(p.a.scale), read_if(p.b.scale),
                       read_if(p.b.zero), read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale), s,
                       plan.share);
  if (plan.instance >= 0)
    return jit::launch(*kernel, device, config, weight_map(p, s.k, plan.tiling.rows), token_map(p, plan.tiling.tokens),
                       write(p.out), read_if(p.a.scale), read_if(p.b.scale), read_if(p.bias), read_if(p.out_scale), s,
                       plan.tiling);
  const auto launch = [&, kernel = kernel, config = config](const auto&... more) {
    jit::launch(*kernel, device, config, write(p.out), read(p.a.data), read_if(p.a.scale), read(p.b.data),
                read_if(p.b.scale), read_if(p.b.zero), read_if(p.b.tensor_scale), read_if(p.bias), read_if(p.out_scale),
                s, more...);
  };
  if (plan.tokens != 1) return launch();
  const int n = static_cast<int>(s.n), grid = static_cast<int>(plan.grid);
  if (kDequantForms[plan.form].pairs == 0)
    launch(Nvfp4GemvShare{.share = n / grid, .extra = n % grid, .rounds = plan.rounds});
  else
    launch(DequantGemvRows{.share = n / grid, .extra = n % grid, .batch = plan.batch});
}

}  // namespace gpukit::cuda
