#include <algorithm>

#include "gpukit/jit/launch.h"
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

jit::LaunchConfig plan(const MatmulSpace& s) {
  constexpr int64_t kTile = 64, kMaxGrid = 0x7fffffff;
  const int64_t tiles = ((s.m + kTile - 1) / kTile) * ((s.n + kTile - 1) / kTile) * s.batches;
  return {.grid_x = static_cast<unsigned>(std::min(tiles, kMaxGrid)), .block_x = 256};
}

const jit::Kernel& choose(DType input, DType out) {
  if (input == out) return kernels.get(0, input);
  return input == DType::int8 ? wide_integer_kernels.get(0, input) : wide_float_kernels.get(0, input);
}

}  // namespace

void matmul(const Array& out, const Array& a, const Array& b, const MatmulSpace& space) {
  jit::launch(choose(a.dtype(), out.dtype()), out.device(), plan(space), write(out), read(a), read(b), space);
}

}  // namespace gpukit::cuda
