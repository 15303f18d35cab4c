#include "gpukit/ops/matmul/vendor/cublaslt.h"

#include <algorithm>
#include <array>
#include <limits>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/matmul/vendor/cublaslt_state.h"
#include "gpukit/ops/matmul/vendor/cublaslt_table.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit::cuda {
namespace {

using driver::LtCompute;
using driver::LtMatrix;
using driver::LtScales;

/// One side of a product: `lane` is the axis that is not k.
struct Side {
  int64_t lanes, lane_stride, k_stride, batch_stride;
};

/// The side as a matrix by columns, and whether those run along k. nullopt: neither axis is dense.
std::optional<std::pair<LtMatrix, bool>> matrix_of(const Side& s, int64_t k, DType dtype) {
  const int64_t lane_stride = s.lanes == 1 ? k : s.lane_stride, k_stride = k == 1 ? s.lanes : s.k_stride;
  if ((s.k_stride == 1 || k == 1) && lane_stride >= k)
    return std::pair(LtMatrix{dtype, k, s.lanes, lane_stride, s.batch_stride}, true);
  if ((s.lane_stride == 1 || s.lanes == 1) && k_stride >= s.lanes)
    return std::pair(LtMatrix{dtype, s.lanes, k, k_stride, s.batch_stride}, false);
  return std::nullopt;
}

std::optional<LtCompute> compute_of(const VendorFacts& f) {
  switch (f.input) {
    case DType::float16:
    case DType::bfloat16:
      return f.out == f.input || f.out == DType::float32 ? std::optional(LtCompute::float32) : std::nullopt;
    case DType::float32:
      if (f.out != f.input) return std::nullopt;
      return f.tf32 ? LtCompute::tf32 : LtCompute::float32;
    case DType::float64: return f.out == f.input ? std::optional(LtCompute::float64) : std::nullopt;
    case DType::int8: return f.out == DType::int32 ? std::optional(LtCompute::int32) : std::nullopt;
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return f.out == DType::float16 || f.out == DType::bfloat16 || f.out == DType::float32
                 ? std::optional(LtCompute::float32)
                 : std::nullopt;
    default: return std::nullopt;
  }
}

/// The library knows matrices by columns: a result by rows is its transpose, b^T a^T.
std::optional<driver::LtProblem> lt_problem_of(const MatmulProblem& s, const VendorFacts& f, std::string* reason) {
  const auto no = [&](const char* text) {
    *reason = text;
    return std::nullopt;
  };
  const std::optional<LtCompute> compute = compute_of(f);
  if (!compute) return no("it has no product of these dtypes");
  if (!f.aligned) return no("an array does not start at a multiple of 16 bytes");
  if (s.k == 0 || s.batches > std::numeric_limits<int32_t>::max()) return no("it has no product of these sizes");
  const auto a_batch = one_batch_stride(s, s.batch_a), b_batch = one_batch_stride(s, s.batch_b),
             out_batch = one_batch_stride(s, s.batch_out);
  if (!a_batch || !b_batch || !out_batch) return no("the batches of an array are not at one distance");
  const auto left = matrix_of({s.n, s.b_n, s.b_k, *b_batch}, s.k, f.input);
  const auto right = matrix_of({s.m, s.a_m, s.a_k, *a_batch}, s.k, f.input);
  if (!left || !right) return no("an operand is dense in neither direction");
  const int64_t out_stride = s.m == 1 ? s.n : s.out_m;
  if ((s.out_n != 1 && s.n != 1) || out_stride < s.n) return no("the result has no dense rows");
  driver::LtProblem p;
  p.a = left->first;
  p.b = right->first;
  p.out = {f.out, s.n, s.m, out_stride, *out_batch};
  p.turn_a = left->second;
  p.turn_b = !right->second;
  p.batches = static_cast<int>(s.batches);
  p.compute = *compute;
  p.scales_a = f.scales_b;
  p.scales_b = f.scales_a;
  p.alignment = 16;
  p.workspace_bytes = VendorState::kWorkspaceBytes;
  return p;
}

/// `uses`: out, the operands in the library's order, their scales; the workspace comes last.
void submit(const char* op, const VendorPlan& plan, std::array<memory::Use, 6> uses, Device device, float alpha) {
  Temporaries temporaries(op);
  Array workspace;
  if (const size_t bytes = plan.product->workspace_bytes(); bytes != 0)
    workspace = temporaries.empty({static_cast<int64_t>(bytes)}, DType::uint8, device);
  uses[5] = write_if(workspace);
  const std::shared_ptr<driver::Stream>& stream = runtime::borrow_stream(device);
  runtime::settle(uses, *stream);
  const memory::Hold hold(uses);
  runtime::Submission submission(stream, "cublasLtMatmul");
  const auto address = [&](size_t i) { return jit::detail::address_of(uses[i]); };
  const driver::LtProduct::Addresses at{address(1), address(2), address(0), address(3), address(4), address(5)};
  driver::cublasStatus_t status = 0;
  if (submission.capturing()) {
    // The library loads a kernel at its first use, which a capture forbids otherwise.
    const int mode = submission.api().relax_capture();
    status = plan.product->submit(at, alpha, stream->handle());
    submission.api().restore_capture(mode);
  } else {
    status = plan.product->submit(at, alpha, stream->handle());
  }
  if (status != 0) throw driver::CublasLtError(plan.product->table(), "cublasLtMatmul", status);
  if (submission.capturing()) {
    constexpr int kUnknown = 999;  // CUDA_ERROR_UNKNOWN
    submission.keep([product = plan.product, at, alpha](const driver::Stream& again) {
      return product->submit(at, alpha, again.handle()) == 0 ? 0 : kUnknown;
    });
  }
  submission.done(0, uses);
}

/// float8 as a plain product of [m, k] by [k, n].
MatmulProblem plain_problem(const ScaledProblem& s) {
  MatmulProblem plain = {};
  plain.m = s.m;
  plain.n = s.n;
  plain.k = s.k;
  plain.a_m = s.a.row;
  plain.a_k = s.a.k;
  plain.b_n = s.b.row;
  plain.b_k = s.b.k;
  plain.out_m = s.out_m;
  plain.out_n = s.out_n;
  plain.batches = 1;
  return plain;
}

/// nullopt: they vary along k.
std::optional<LtScales> scales_of(const ScaledOperand& o) {
  if (o.has_scale == 0) return LtScales::none;
  if (o.scale.row == 0 && o.scale.column == 0) return LtScales::tensor;
  if (o.scale.column == 0 && o.scale.row == 1 && o.scale.row_shift == 0) return LtScales::rows;
  return std::nullopt;
}

}  // namespace

VendorChip vendor_chip(const driver::Context& context) {
  const driver::DeviceProperties& p = context.properties();
  return {p.sm_major, p.sm_minor, runtime::current_sm_count(context.device()), p.sm_count};
}

std::optional<VendorFormat> vendor_format(DType input, DType out, bool tf32) {
  if (input == DType::int8) return out == DType::int32 ? std::optional(VendorFormat::int8) : std::nullopt;
  if (input != out) return std::nullopt;
  switch (input) {
    case DType::bfloat16: return VendorFormat::bfloat16;
    case DType::float16: return VendorFormat::float16;
    case DType::float32: return tf32 ? VendorFormat::tf32 : VendorFormat::float32;
    default: return std::nullopt;
  }
}

bool vendor_preferred() { return env::prefer_cublaslt() || runtime::determinism() == env::Determinism::not_guaranteed; }

bool vendor_wins(const MatmulProblem& s, VendorFormat format, const VendorChip& chip) {
  if (chip.sm_major != 9 || chip.sm_minor != 0 || chip.sm_count != chip.all_sms) return false;
  if (s.batches != 1 || s.a_k != 1 || s.out_n != 1) return false;
  const Major b = s.b_k == 1 ? Major::k : s.b_n == 1 ? Major::mn : Major::any;
  return std::any_of(kVendorTable.begin(), kVendorTable.end(), [&](const VendorRow& row) {
    return row.k == s.k && row.n == s.n && row.m_first <= s.m && s.m <= row.m_last && row.format == format &&
           row.b == b;
  });
}

std::optional<VendorPlan> plan_vendor(const MatmulProblem& problem, const VendorFacts& facts, driver::Context& context,
                                      std::string* reason) {
  const bool by_columns = problem.out_n != 1 && problem.out_m == 1 && problem.n > 1;
  VendorFacts given = facts;
  if (by_columns) std::swap(given.scales_a, given.scales_b);
  std::optional<driver::LtProblem> lt_problem =
      lt_problem_of(by_columns ? transposed(problem) : problem, given, reason);
  if (!lt_problem) return std::nullopt;
  const Device device = context.device();
  const int sm_count = runtime::current_sm_count(device);
  if (sm_count != context.properties().sm_count) lt_problem->sm_count = sm_count;
  VendorState* state = VendorState::of(context, reason);
  if (state == nullptr) {
    if (env::prefer_cublaslt())
      throw UnsupportedError("matrix product: PYGPUKIT_PREFER_CUBLASLT is set, but " + *reason);
    return std::nullopt;
  }
  VendorPlan plan{state->product(*lt_problem), by_columns, sm_count};
  if (plan.product == nullptr) {
    *reason = "cuBLASLt " + driver::cublaslt().version + " has no algorithm for it";
    return std::nullopt;
  }
  return plan;
}

std::string VendorPlan::str() const {
  return "cuBLASLt " + driver::cublaslt().version + ", its first algorithm for " + std::to_string(sm_count) +
         " multiprocessors, " + std::to_string(product->workspace_bytes() >> 10) + " KiB of workspace";
}

void launch_vendor(const VendorPlan& plan, const Array& out, const Array& a, const Array& b) {
  submit("matmul", plan, {write(out), read(plan.swapped ? a : b), read(plan.swapped ? b : a)}, out.device(), 1.0f);
}

bool scaled_vendor_wins(const ScaledProduct& p) {
  const ScaledProblem& s = p.problem;
  if (s.a.code != Code::float8_e4m3 || s.b.code != Code::float8_e4m3 || s.out != Code::bfloat16) return false;
  if (s.experts != 0 || p.bias.defined()) return false;
  const std::optional<LtScales> a = scales_of(s.a), b = scales_of(s.b);
  if (!a || a != b || *a == LtScales::none) return false;
  const VendorFormat format = *a == LtScales::rows ? VendorFormat::float8_row : VendorFormat::float8_tensor;
  return vendor_wins(plain_problem(s), format, vendor_chip(p.out.context())) && vendor_preferred();
}

std::optional<VendorPlan> plan_scaled_vendor(const ScaledProduct& p, std::string* reason) {
  const ScaledProblem& s = p.problem;
  const auto no = [&](const char* text) {
    *reason = text;
    return std::nullopt;
  };
  const auto is_float8 = [](Code c) { return c == Code::float8_e4m3 || c == Code::float8_e5m2; };
  if (!is_float8(s.a.code) || s.a.code != s.b.code) return no("it has no product of these dtypes");
  if (s.experts != 0 || p.bias.defined() || p.out_scale.defined())
    return no("experts, a bias and a scale of the result are not for it");
  const std::optional<LtScales> a = scales_of(s.a), b = scales_of(s.b);
  if (!a || !b || (*a == LtScales::rows) != (*b == LtScales::rows))
    return no("scales must be for the tensor, or for rows of both operands");
  return plan_vendor(plain_problem(s),
                     {.input = p.a.data.dtype(),
                      .out = p.out.dtype(),
                      .scales_a = *a,
                      .scales_b = *b,
                      .aligned = is_aligned(p.a.data) && is_aligned(p.b.data) && is_aligned(p.out)},
                     p.out.context(), reason);
}

void launch_scaled_vendor(const VendorPlan& plan, const ScaledProduct& p) {
  const Quantized &left = plan.swapped ? p.a : p.b, &right = plan.swapped ? p.b : p.a;
  submit("scaled_matmul", plan,
         {write(p.out), read(left.data), read(right.data), read_if(left.scale), read_if(right.scale)}, p.out.device(),
         p.problem.alpha);
}

void reset_vendor() { VendorState::reset(); }

}  // namespace gpukit::cuda
