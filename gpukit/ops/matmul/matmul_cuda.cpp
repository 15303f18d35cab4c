#include <algorithm>
#include <optional>
#include <variant>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/matmul/dense/gemm_simt.h"
#include "gpukit/ops/matmul/dense/gemm_sm80.h"
#include "gpukit/ops/matmul/dense/gemm_sm90.h"
#include "gpukit/ops/matmul/dense/gemv.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "gpukit/ops/matmul/vendor/cublaslt.h"

namespace gpukit::cuda {
namespace {

constexpr const char* kSource = "gpukit/ops/matmul/dense/gemm_any_dtype.cuh";

const jit::KernelSet kernels(kSource, {"gpukit::matmul<{T}, {T}>"},
                             {DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                              DType::uint16, DType::uint32, DType::uint64, DType::float16, DType::bfloat16,
                              DType::float32, DType::float64, DType::complex64, DType::complex128});
const jit::KernelSet wide_float_kernels(kSource, {"gpukit::matmul<{T}, float>"}, {DType::float16, DType::bfloat16});
const jit::KernelSet wide_integer_kernels(kSource, {"gpukit::matmul<{T}, int>"}, {DType::int8});

/// CUDA cores: any dtype, any strides.
struct SimtPlan {
  jit::LaunchConfig config;
};

SimtPlan plan_simt(const MatmulProblem& s) {
  constexpr int64_t kTile = 64, kMaxGrid = 0x7fffffff;
  const int64_t tiles = ((s.m + kTile - 1) / kTile) * ((s.n + kTile - 1) / kTile) * s.batches;
  return {{.grid_x = static_cast<unsigned>(std::min(tiles, kMaxGrid)), .block_x = 256}};
}

const jit::Kernel& simt_kernel(DType input, DType out) {
  if (input == out) return kernels.get(0, input);
  return input == DType::int8 ? wide_integer_kernels.get(0, input) : wide_float_kernels.get(0, input);
}

using Plan = std::variant<GemvPlan, VendorPlan, Gemm90Plan, Gemm80Plan, GemmSimtPlan, SimtPlan>;

[[noreturn]] void refuse(const char* kernel, const char* needs, const Array& a, const Array& b) {
  throw UnsupportedError(std::string("matmul: kernel '") + kernel + "' needs " + needs + ", got " + name(a.dtype()) +
                         " with strides " + a.strides().str() + " and " + b.strides().str());
}

/// cuBLASLt where it is asked for, or preferred and measured to be faster.
std::optional<VendorPlan> try_vendor(const Array& a, const Array& b, DType out, bool out_aligned,
                                     const MatmulProblem& problem, bool tf32, bool wanted) {
  if (!wanted) {
    const std::optional<VendorFormat> format = vendor_format(a.dtype(), out, tf32);
    if (!format || !vendor_wins(problem, *format, vendor_chip(a.context())) || !vendor_preferred()) return std::nullopt;
  }
  std::string reason;
  auto plan = plan_vendor(
      problem, {.input = a.dtype(), .out = out, .tf32 = tf32, .aligned = is_aligned(a) && is_aligned(b) && out_aligned},
      a.context(), &reason);
  if (!plan && wanted)
    throw UnsupportedError("matmul: kernel 'cublaslt' cannot serve: " + reason + "; got " + name(a.dtype()) +
                           " with strides " + a.strides().str() + " and " + b.strides().str());
  return plan;
}

/// A vector of 16-bit floats has kernels of its own, whose order of sums is not that of other rows. Otherwise cuBLASLt
/// where it is preferred and was measured to be faster, unless rows of all batches must have the same bits; else
/// tensor cores for 16-bit floats, int8 and float32 that may be rounded to TF32: sm_90's own where they can read the
/// operands, else those every chip since sm_80 has. Both give the same bits. On CUDA cores float32 and float64 have
/// kernels of their own, with the bits of the one for everything.
Plan make_plan(const Array& a, const Array& b, DType out, bool out_aligned, const MatmulProblem& problem,
               const MatmulOptions& options) {
  const MatmulKernel wanted = options.kernel;
  const auto may = [&](MatmulKernel kernel) { return wanted == MatmulKernel::automatic || wanted == kernel; };
  const driver::DeviceProperties& chip = a.context().properties();
  const bool exact =
      a.dtype() == DType::float32 && (options.precision == MatmulPrecision::exact ||
                                      (options.precision == MatmulPrecision::automatic && !env::allow_tf32()));
  const bool any_order = runtime::determinism() != env::Determinism::batch_invariant;
  if (wanted == MatmulKernel::gemv || (wanted == MatmulKernel::automatic && any_order)) {
    if (problem.batches == 1)
      if (const auto plan = plan_gemv(gemv_product(problem, a, b, out))) return *plan;
    if (wanted == MatmulKernel::gemv)
      refuse("gemv", "a vector and a matrix of float16 or bfloat16 whose rows start at multiples of 16 bytes", a, b);
  }
  if (wanted == MatmulKernel::cublaslt && !any_order)
    throw UnsupportedError(
        "matmul: kernel 'cublaslt' cannot serve under batch_invariant: its order of sums may depend on the number of "
        "rows");
  if (may(MatmulKernel::cublaslt) && any_order)
    if (auto plan = try_vendor(a, b, out, out_aligned, problem, a.dtype() == DType::float32 && !exact,
                               wanted == MatmulKernel::cublaslt))
      return *std::move(plan);
  if (may(MatmulKernel::wgmma)) {
    if (chip.sm_major == 9 && !exact) {
      const auto& plan = cached_plan_gemm90(problem, {.input = a.dtype(),
                                                      .out = out,
                                                      .a_aligned = is_aligned(a),
                                                      .b_aligned = is_aligned(b),
                                                      .out_aligned = out_aligned,
                                                      .sm_count = runtime::current_sm_count(a.device())});
      if (plan) return *plan;
    }
    if (wanted == MatmulKernel::wgmma)
      refuse(
          "wgmma",
          "sm_90 and float16, bfloat16, tf32 or int8 (into int32) operands whose rows start at multiples of 16 bytes",
          a, b);
  }
  if (may(MatmulKernel::mma)) {
    if (chip.sm_major >= 8 && !exact && gemm80_has(a.dtype(), out))
      return plan_gemm80(problem, a.dtype(), is_aligned(a), is_aligned(b), runtime::current_sm_count(a.device()));
    if (wanted == MatmulKernel::mma) refuse("mma", "sm_80 or later and float16, bfloat16, int8 or tf32 operands", a, b);
  }
  if (const auto plan =
          plan_gemm_simt(problem, a.dtype(), is_aligned(a), is_aligned(b), runtime::current_sm_count(a.device())))
    return *plan;
  return plan_simt(problem);
}

}  // namespace

void matmul(const Array& out, const Array& a, const Array& b, const MatmulProblem& problem,
            const MatmulOptions& options) {
  const Plan plan = make_plan(a, b, out.dtype(), is_aligned(out), problem, options);
  if (const auto* gemv = std::get_if<GemvPlan>(&plan)) return launch_gemv(*gemv, out, a, b);
  if (const auto* vendor = std::get_if<VendorPlan>(&plan)) return launch_vendor(*vendor, out, a, b);
  if (const auto* wgmma = std::get_if<Gemm90Plan>(&plan)) return launch_gemm90(*wgmma, out, a, b);
  if (const auto* mma = std::get_if<Gemm80Plan>(&plan)) return gemm80(out, a, b, problem, *mma);
  if (const auto* simt = std::get_if<GemmSimtPlan>(&plan)) return gemm_simt(out, a, b, problem, *simt);
  jit::launch(simt_kernel(a.dtype(), out.dtype()), out.device(), std::get<SimtPlan>(plan).config, write(out), read(a),
              read(b), problem);
}

std::string explain_matmul(const Array& a, const Array& b, DType out, const MatmulProblem& problem,
                           const MatmulOptions& options) {
  const Plan plan = make_plan(a, b, out, true, problem, options);
  if (const auto* gemv = std::get_if<GemvPlan>(&plan)) return gemv->str();
  if (const auto* vendor = std::get_if<VendorPlan>(&plan))
    return vendor->str() + "; the order of sums is the library's";
  constexpr const char* kFused = "; one fused multiply-add for each k in ascending order";
  if (const auto* simt = std::get_if<GemmSimtPlan>(&plan)) return "CUDA cores, " + simt->str() + kFused;
  if (const auto* simt = std::get_if<SimtPlan>(&plan))
    return "CUDA cores, tiles of 64x64, " + std::to_string(simt->config.grid_x) + " blocks" + kFused;
  const auto* wgmma = std::get_if<Gemm90Plan>(&plan);
  const std::string text = wgmma != nullptr ? wgmma->str() : std::get<Gemm80Plan>(plan).str(a.dtype());
  if (a.dtype() == DType::int8) return text + (out == DType::int8 ? "; exact modulo 256" : "; exact");
  return text + "; one accumulator, k ascending in steps of " + (a.dtype() == DType::float32 ? "8" : "16");
}

}  // namespace gpukit::cuda
