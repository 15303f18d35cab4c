#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/recurrent/scan_impl.h"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/recurrent/scan.cuh",
                             {"gpukit::causal_conv1d<{T}>", "gpukit::causal_conv1d_state<{T}>",
                              "gpukit::selective_scan<{T}>"},
                             {float16, bfloat16, float32, float64});

jit::LaunchConfig config(const char* op, int64_t items, unsigned per_block, unsigned threads) {
  const int64_t blocks = (items + per_block - 1) / per_block;
  if (blocks > 0x7fffffff) throw UnsupportedError(std::string(op) + ": a result of more than 2^31 blocks");
  return {.grid_x = static_cast<unsigned>(blocks), .block_x = threads};
}

}  // namespace

void causal_conv1d(const CausalConvCall& call) {
  const CausalConvParams& p = call.params;
  const DType dtype = call.x.dtype();
  jit::launch(kernels.get(0, dtype), call.x.device(),
              config("causal_conv1d", p.batch * p.channels * p.length, 256, 256), write(call.out), read(call.x),
              read(call.weight), read_if(call.bias), read_if(call.state), p);
  if (call.state.defined())
    jit::launch(kernels.get(1, dtype), call.x.device(), config("causal_conv1d", p.batch * p.channels, 256, 256),
                write(call.state), read(call.x), p);
}

void selective_scan(const SelectiveScanCall& call) {
  const SelectiveScanParams& p = call.params;
  jit::launch(kernels.get(2, call.x.dtype()), call.x.device(),
              config("selective_scan", p.batch * p.channels, kScanWarps, 32 * kScanWarps), write(call.out),
              write_if(call.state), read(call.x), read(call.delta), read(call.a), read(call.b), read(call.c),
              read_if(call.d), read_if(call.z), read_if(call.delta_bias), p);
}

}  // namespace gpukit::cuda
