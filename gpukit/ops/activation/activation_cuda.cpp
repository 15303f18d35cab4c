#include "gpukit/jit/kernel.h"
#include "gpukit/ops/activation/activation_impl.h"
#include "gpukit/ops/common/map.h"

namespace gpukit::cuda {

namespace {

constexpr const char* kSource = "gpukit/ops/activation/activation.cuh";

std::vector<std::string> names(const char* map, std::initializer_list<const char*> functions) {
  std::vector<std::string> all;
  for (const char* f : functions) {
    all.push_back(std::string("gpukit::") + map + "<gpukit::" + f + "<{T}>>");
    all.push_back(std::string("gpukit::") + map + "_strided<gpukit::" + f + "<{T}>>");
  }
  return all;
}

using enum DType;
const jit::KernelSet ones(kSource, names("map1", {"GeluErf", "LeakyRelu"}), {float16, bfloat16, float32, float64});
const jit::KernelSet twos(kSource, names("map2", {"Swiglu", "Geglu", "Snake"}), {float16, bfloat16, float32, float64});
const jit::KernelSet threes(kSource, names("map3", {"Modulate", "GatedResidual"}),
                            {float16, bfloat16, float32, float64});

MapKernels kernels(const jit::KernelSet& set, int function, DType dtype, int cost) {
  return {set.get(2 * function, dtype), set.get(2 * function + 1, dtype), cost};
}

}  // namespace

void activation(ActivationOp op, const Array& out, const Array& a, const Array* b, const Array* c, double slope) {
  const DType dtype = out.dtype();
  MapArgs args = {};
  // The costs are those of activation.cuh.
  switch (op) {
    case ActivationOp::gelu_erf:
      return launch_map(kernels(ones, 0, dtype, itemsize(dtype) == 2 ? 3 : 2), out, &a, args);
    case ActivationOp::leaky_relu: {
      const float narrow = static_cast<float>(slope);
      if (dtype == float64)
        std::memcpy(args.scalars[1].bytes, &slope, sizeof slope);
      else
        std::memcpy(args.scalars[1].bytes, &narrow, sizeof narrow);
      return launch_map(kernels(ones, 1, dtype, 0), out, &a, args);
    }
    case ActivationOp::swiglu: return launch_map(kernels(twos, 0, dtype, 1), out, &a, b, args);
    case ActivationOp::geglu: return launch_map(kernels(twos, 1, dtype, 1), out, &a, b, args);
    case ActivationOp::snake: return launch_map(kernels(twos, 2, dtype, 2), out, &a, b, args);
    case ActivationOp::modulate: return launch_map(kernels(threes, 0, dtype, 0), out, &a, b, c, args);
    case ActivationOp::gated_residual: return launch_map(kernels(threes, 1, dtype, 0), out, &a, b, c, args);
  }
}

}  // namespace gpukit::cuda
