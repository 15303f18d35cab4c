#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/quantize/quantize_impl.h"

namespace gpukit::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int64_t kWarpsWork = 512;  // elements of a block that one warp takes alone

enum QuantizeKernel { largest_magnitude, quantize_wide, quantize_narrow, dequantize_kernel };
const jit::KernelSet kernels("gpukit/ops/quantize/quantize.cuh",
                             {"gpukit::largest_magnitude<{T}>", "gpukit::quantize<{T}, true>",
                              "gpukit::quantize<{T}, false>", "gpukit::dequantize<{T}>"},
                             {DType::float16, DType::bfloat16, DType::float32});
const jit::KernelSet scale_kernels("gpukit/ops/quantize/quantize.cuh", {"gpukit::finish_scale"});

jit::LaunchConfig blocks(int64_t count) {
  return {.grid_x = static_cast<unsigned>(std::clamp<int64_t>(count, 1, 0x7fffffff)), .block_x = kThreads};
}

}  // namespace

void tensor_scale(const Array& scale, const Array& x, const QuantizeSpace& space) {
  // Each block ends with one atomic operation on one word.
  constexpr int64_t kMost = 2048;
  jit::launch(kernels.get(largest_magnitude, x.dtype()), x.device(), blocks(std::min(space.blocks, kMost)),
              write(scale), read(x), space);
  jit::launch(scale_kernels.get(0), x.device(), {.grid_x = 1, .block_x = 32}, write(scale), space.code);
}

void quantize(const Quantized& q, const Array& x, const Array& whole, const QuantizeSpace& space) {
  const bool wide = space.block_rows * space.block_columns > kWarpsWork;
  const int64_t groups = wide ? space.blocks : ceil_div(space.blocks, kThreads / 32);
  jit::launch(kernels.get(wide ? quantize_wide : quantize_narrow, x.dtype()), x.device(), blocks(groups), write(q.data),
              write(q.scale), write_if(q.zero), read(x), read_if(whole), space);
}

void dequantize(const Array& out, const Quantized& q, const DequantizeSpace& space) {
  jit::launch(kernels.get(dequantize_kernel, out.dtype()), out.device(), blocks(ceil_div(space.size, kThreads)),
              write(out), read(q.data), read(q.scale), read_if(q.zero), read_if(q.tensor_scale), space);
}

}  // namespace gpukit::cuda
