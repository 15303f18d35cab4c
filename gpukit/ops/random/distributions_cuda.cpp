#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/random/distributions_impl.h"

namespace gpukit::cuda {
namespace {

const jit::KernelSet kernels("gpukit/ops/random/distribution_fill.cuh", {"gpukit::random_distribution<{T}>"},
                             {DType::float32, DType::float64, DType::int64});

constexpr unsigned kBlock = 128;

jit::LaunchConfig plan(int64_t size) {
  constexpr int64_t kMaxGrid = 1 << 20;  // further elements are reached by the kernel's stride
  return {.grid_x = static_cast<unsigned>(std::min((size + kBlock - 1) / kBlock, kMaxGrid)), .block_x = kBlock};
}

}  // namespace

void random_distribution(const Array& out, random::State state, const random::Distribution& distribution) {
  jit::launch(kernels.get(0, out.dtype()), out.device(), plan(out.size()), write(out), out.size(), state.seed,
              state.offset, distribution);
}

}  // namespace gpukit::cuda
