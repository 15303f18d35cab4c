#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/random/random_impl.h"

namespace gpukit::cuda {
namespace {

const jit::KernelSet real_kernels("gpukit/ops/random/random.cuh",
                                  {"gpukit::random_uniform<{T}>", "gpukit::random_normal<{T}>"},
                                  {DType::float16, DType::bfloat16, DType::float32, DType::float64});
const jit::KernelSet integer_kernels("gpukit/ops/random/random.cuh", {"gpukit::random_integer<{T}>"},
                                     {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8,
                                      DType::uint16, DType::uint32, DType::uint64});

constexpr unsigned kBlock = 256;

/// One thread per Philox block of 2 or 4 elements.
jit::LaunchConfig plan(int64_t size, int64_t per_block) {
  constexpr int64_t kMaxGrid = 1 << 20;  // further blocks are reached by the kernel's stride
  const int64_t blocks = (size + per_block - 1) / per_block;
  return {.grid_x = static_cast<unsigned>(std::min((blocks + kBlock - 1) / kBlock, kMaxGrid)), .block_x = kBlock};
}

template <typename Range>
void uniform(const Array& out, random::State state, const Range& range) {
  jit::launch(real_kernels.get(0, out.dtype()), out.device(), plan(out.size(), itemsize(out.dtype()) == 8 ? 2 : 4),
              write(out), out.size(), state.seed, state.offset, range);
}

template <typename Parameters>
void normal(const Array& out, random::State state, const Parameters& p) {
  jit::launch(real_kernels.get(1, out.dtype()), out.device(), plan(out.size(), itemsize(out.dtype()) == 8 ? 2 : 4),
              write(out), out.size(), state.seed, state.offset, p.mean, p.std);
}

}  // namespace

void random_uniform(const Array& out, random::State state, const random::UniformRange<float>& range) {
  uniform(out, state, range);
}
void random_uniform(const Array& out, random::State state, const random::UniformRange<double>& range) {
  uniform(out, state, range);
}
void random_normal(const Array& out, random::State state, const NormalParameters<float>& parameters) {
  normal(out, state, parameters);
}
void random_normal(const Array& out, random::State state, const NormalParameters<double>& parameters) {
  normal(out, state, parameters);
}

void random_integer(const Array& out, random::State state, const random::IntegerRange& range) {
  jit::launch(integer_kernels.get(0, out.dtype()), out.device(), plan(out.size(), 2), write(out), out.size(),
              state.seed, state.offset, range);
}

}  // namespace gpukit::cuda
