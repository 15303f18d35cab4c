#include <algorithm>
#include <optional>

#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/matmul/gemm90.h"
#include "gpukit/ops/matmul/matmul_impl.h"

namespace gpukit::cuda {
namespace {

constexpr const char* kSource = "gpukit/ops/matmul/matmul.cuh";

const jit::KernelSet kernels(kSource, {"gpukit::matmul<{T}, {T}>"},
                             {DType::boolean, DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                              DType::uint16, DType::uint32, DType::uint64, DType::float16, DType::bfloat16,
                              DType::float32, DType::float64, DType::complex64, DType::complex128});
const jit::KernelSet wide_float_kernels(kSource, {"gpukit::matmul<{T}, float>"}, {DType::float16, DType::bfloat16});
const jit::KernelSet wide_integer_kernels(kSource, {"gpukit::matmul<{T}, int>"}, {DType::int8});

jit::LaunchConfig plan_simt(const MatmulSpace& s) {
  constexpr int64_t kTile = 64, kMaxGrid = 0x7fffffff;
  const int64_t tiles = ((s.m + kTile - 1) / kTile) * ((s.n + kTile - 1) / kTile) * s.batches;
  return {.grid_x = static_cast<unsigned>(std::min(tiles, kMaxGrid)), .block_x = 256};
}

const jit::Kernel& simt_kernel(DType input, DType out) {
  if (input == out) return kernels.get(0, input);
  return input == DType::int8 ? wide_integer_kernels.get(0, input) : wide_float_kernels.get(0, input);
}

/// The wgmma plan, where the chip and the operands allow one and `wanted` does.
std::optional<Gemm90Plan> plan_wgmma(const Array& a, const Array& b, DType out, bool out_aligned,
                                     const MatmulSpace& space, MatmulKernel wanted) {
  if (wanted == MatmulKernel::simt) return std::nullopt;
  std::optional<Gemm90Plan> plan;
  const bool has_kernels = a.dtype() == DType::float16 || a.dtype() == DType::bfloat16;
  if (has_kernels && a.context().properties().sm_major == 9)
    plan = plan_gemm90(space, {.input = a.dtype(),
                               .out = out,
                               .a_aligned = is_aligned(a),
                               .b_aligned = is_aligned(b),
                               .out_aligned = out_aligned,
                               .sm_count = runtime::current_sm_count(a.device())});
  if (!plan && wanted == MatmulKernel::wgmma)
    throw UnsupportedError(
        "matmul: kernel 'wgmma' needs float16 or bfloat16 operands on sm_90 whose rows start at multiples of 16 bytes, "
        "got " +
        std::string(name(a.dtype())) + " with strides " + a.strides().str() + " and " + b.strides().str());
  return plan;
}

}  // namespace

void matmul(const Array& out, const Array& a, const Array& b, const MatmulSpace& space, MatmulKernel kernel) {
  if (const auto plan = plan_wgmma(a, b, out.dtype(), is_aligned(out), space, kernel))
    return launch_gemm90(*plan, out, a, b);
  jit::launch(simt_kernel(a.dtype(), out.dtype()), out.device(), plan_simt(space), write(out), read(a), read(b), space);
}

std::string explain_matmul(const Array& a, const Array& b, DType out, const MatmulSpace& space, MatmulKernel kernel) {
  if (const auto plan = plan_wgmma(a, b, out, true, space, kernel))
    return plan->str() + "; one accumulator, k ascending in steps of 16";
  return "CUDA cores, tiles of 64x64, " + std::to_string(plan_simt(space).grid_x) +
         " blocks; one fused multiply-add for each k in ascending order";
}

}  // namespace gpukit::cuda
