#include "gpukit/ops/matmul/dense/gemv.h"

#include <vector>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/hopper/pdl.h"
#include "gpukit/ops/matmul/dense/gemv_problem.cuh"

namespace gpukit::cuda {
namespace {

constexpr const char* kSource = "gpukit/ops/matmul/dense/gemv.cuh";
const std::vector<DType> kDTypes = {DType::float16, DType::bfloat16};

const jit::KernelSet rows(kSource, {"gpukit::gemv<{T}, {T}>"}, kDTypes);
const jit::KernelSet wide_rows(kSource, {"gpukit::gemv<{T}, float>"}, kDTypes);

const jit::KernelSet layers(kSource, {"gpukit::gemv_linear<{T}>"}, kDTypes);
const jit::KernelSet swiglus(kSource, {"gpukit::gemv_swiglu<{T}>"}, kDTypes);

/// Lanes with 8 outputs each, blocks that share k.
struct Columns {
  int lanes, blocks;
  const char* name;
};
constexpr int kColumnsThreads = 512;
constexpr Columns kColumns[] = {{8, 8, "gpukit::gemv_columns<{T}, {T}, 8, 512, 8, 8>"},
                                {16, 8, "gpukit::gemv_columns<{T}, {T}, 16, 512, 8, 8>"},
                                {32, 8, "gpukit::gemv_columns<{T}, {T}, 32, 512, 8, 4>"},
                                {32, 4, "gpukit::gemv_columns<{T}, {T}, 32, 512, 4, 4>"}};
const std::vector<jit::KernelSet> columns = [] {
  std::vector<jit::KernelSet> sets;
  for (const Columns& c : kColumns) sets.emplace_back(kSource, std::vector<std::string>{c.name}, kDTypes);
  return sets;
}();

int columns_for(int64_t n, int64_t k) {
  if (n < 2048) return 0;
  if (n < 6144) return 1;
  return n > 12288 && k < 6144 ? 3 : 2;
}

}  // namespace

GemvProduct gemv_product(const MatmulProblem& problem, const Array& a, const Array& b, DType out) {
  return {problem.m,     problem.n,     problem.k,     problem.a_m,   problem.a_k, problem.b_k, problem.b_n,
          problem.out_m, problem.out_n, is_aligned(a), is_aligned(b), a.dtype(),   out};
}

std::optional<GemvPlan> plan_gemv(const GemvProduct& s) {
  constexpr int64_t kVector = 8;  // elements in 16 bytes
  if ((s.input != DType::float16 && s.input != DType::bfloat16) || (s.out != s.input && s.out != DType::float32))
    return std::nullopt;
  if ((s.m != 1 && s.n != 1) || s.k < kVector || !s.a_aligned || !s.b_aligned) return std::nullopt;
  GemvPlan plan = {};
  plan.w_is_a = s.m != 1;
  const int64_t x_stride = plan.w_is_a ? s.b_k : s.a_k;
  const int64_t w_n = plan.w_is_a ? s.a_m : s.b_n, w_k = plan.w_is_a ? s.a_k : s.b_k;
  plan.n = plan.w_is_a ? s.m : s.n;
  plan.k = s.k;
  plan.out_stride = plan.w_is_a ? s.out_m : s.out_n;
  if (x_stride != 1) return std::nullopt;
  const auto dense = [&](int64_t inner, int64_t outer) { return inner == 1 && outer > 0 && outer % kVector == 0; };
  if (dense(w_k, w_n) && s.k % kVector == 0 && plan.n <= 0x7fffffff) {
    plan.w_stride = w_n;
    plan.grid = static_cast<unsigned>(plan.n);
    plan.block = kGemvThreads;
    return plan;
  }
  if (s.out != s.input || !dense(w_n, w_k) || plan.n % kVector != 0) return std::nullopt;
  plan.columns = true;
  plan.instance = columns_for(plan.n, plan.k);
  plan.w_stride = w_k;
  const Columns& c = kColumns[plan.instance];
  plan.grid = static_cast<unsigned>(c.blocks * ceil_div(plan.n, kVector * c.lanes));
  plan.block = kColumnsThreads;
  return plan;
}

std::string GemvPlan::str() const {
  return std::string("gemv, w along ") + (columns ? "its outputs" : "k") + ", " + std::to_string(grid) +
         " blocks; k split among threads by the sizes alone, one fused multiply-add for each, added in fixed trees";
}

namespace {

/// Of a plan whose weights lie along k: one block an output, which may start early.
struct RowsLaunch {
  jit::LaunchConfig config;
  GemvProblem problem;

  RowsLaunch(const GemvPlan& plan, const Array& out)
      : config{.grid_x = plan.grid, .block_x = plan.block, .overlaps = may_start_early(out)},
        problem{.n = plan.n,
                .k = plan.k,
                .w_stride = plan.w_stride,
                .out_stride = plan.out_stride,
                .early_blocks = blocks_at_once(out, kGemvThreads)} {}
};

}  // namespace

void launch_gemv(const GemvPlan& plan, const Array& out, const Array& a, const Array& b) {
  const Array &w = plan.w_is_a ? a : b, &x = plan.w_is_a ? b : a;
  if (plan.columns) {
    const GemvProblem problem{
        .n = plan.n, .k = plan.k, .w_stride = plan.w_stride, .out_stride = plan.out_stride, .early_blocks = 0};
    jit::launch(columns[static_cast<size_t>(plan.instance)].get(0, a.dtype()), out.device(),
                {.grid_x = plan.grid, .block_x = plan.block}, write(out), read(w), read(x), problem);
    return;
  }
  const RowsLaunch launch(plan, out);
  const jit::KernelSet& set = out.dtype() == a.dtype() ? rows : wide_rows;
  jit::launch(set.get(0, a.dtype()), out.device(), launch.config, write(out), read(w), read(x), launch.problem);
}

void launch_gemv_linear(const GemvPlan& plan, const Array& out, const Array& input, const Array& weight,
                        const LinearSteps& steps, const Array& bias, const Array& residual) {
  const RowsLaunch launch(plan, out);
  jit::launch(layers.get(0, input.dtype()), out.device(), launch.config, write(out), read(weight), read(input),
              launch.problem, read_if(bias), read_if(residual), steps);
}

void launch_gemv_swiglu(const GemvPlan& plan, const Array& out, const Array& input, const Array& gate,
                        const Array& up) {
  const RowsLaunch launch(plan, out);
  jit::launch(swiglus.get(0, input.dtype()), out.device(), launch.config, write(out), read(gate), read(up), read(input),
              launch.problem);
}

}  // namespace gpukit::cuda
