#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/norm/group_norm_impl.h"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/norm/group_norm.cuh", {"gpukit::group_norm<{T}>"},
                             {float16, bfloat16, float32, float64});

template <typename Real>
void launch(const GroupNormCall& call, Real eps) {
  const GroupNormParams& p = call.params;
  const int64_t norms = p.outer * p.inner * p.groups;
  if (norms > 0x7fffffff) throw UnsupportedError(std::string(call.op) + ": more than 2^31 norms");
  const unsigned threads = p.length <= 128 ? 64 : p.length <= 2048 ? 256 : 512;
  jit::launch(kernels.get(0, call.x.dtype()), call.x.device(),
              {.grid_x = static_cast<unsigned>(norms), .block_x = threads}, write(call.out), read(call.x),
              read_if(call.gamma), read_if(call.beta), read_if(call.gate), read_if(call.residual), read_if(call.alpha),
              eps, p);
}

}  // namespace

void group_norm(const GroupNormCall& call) {
  if (call.x.dtype() == float64)
    launch(call, call.eps);
  else
    launch(call, static_cast<float>(call.eps));
}

}  // namespace gpukit::cuda
