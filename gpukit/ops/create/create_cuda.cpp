#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/create/create.h"

namespace gpukit::cuda {
namespace {

const jit::KernelSet real_kernels("gpukit/ops/create/create.cuh", {"gpukit::sequence_real<{T}>"},
                                  {DType::float16, DType::bfloat16, DType::float32, DType::float64});
const jit::KernelSet whole_kernels("gpukit/ops/create/create.cuh",
                                   {"gpukit::sequence_real<{T}>", "gpukit::sequence_whole<{T}>"},
                                   {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::uint16,
                                    DType::uint32, DType::uint64});

constexpr unsigned kBlock = 256;

jit::LaunchConfig plan(int64_t size) {
  constexpr int64_t kMaxGrid = 1 << 20;  // further elements are reached by the kernel's stride
  return {.grid_x = static_cast<unsigned>(std::min((size + kBlock - 1) / kBlock, kMaxGrid)), .block_x = kBlock};
}

}  // namespace

void sequence(const Array& out, int64_t start, int64_t step) {
  jit::launch(whole_kernels.get(1, out.dtype()), out.device(), plan(out.size()), write(out), out.size(),
              static_cast<uint64_t>(start), static_cast<uint64_t>(step));
}

void sequence(const Array& out, double start, double step, const double* last) {
  const jit::Kernel& kernel =
      is_integer(out.dtype()) ? whole_kernels.get(0, out.dtype()) : real_kernels.get(0, out.dtype());
  jit::launch(kernel, out.device(), plan(out.size()), write(out), out.size(), start, step,
              last != nullptr ? *last : 0.0, last != nullptr);
}

}  // namespace gpukit::cuda
