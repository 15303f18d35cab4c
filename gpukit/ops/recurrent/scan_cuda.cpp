#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/recurrent/scan_impl.h"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/recurrent/scan.cuh",
                             {"gpukit::causal_conv1d<{T}>", "gpukit::causal_conv1d_state<{T}>"},
                             {float16, bfloat16, float32, float64});
const jit::KernelSet narrow_scans("gpukit/ops/recurrent/selective_scan.cuh",
                                  {"gpukit::selective_scan<{T}, 2>", "gpukit::selective_scan<{T}, 4>",
                                   "gpukit::selective_scan<{T}, 8>"},
                                  {float16, bfloat16, float32});
const jit::KernelSet wide_scans("gpukit/ops/recurrent/selective_scan.cuh", {"gpukit::selective_scan_wide<{T}>"},
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
  constexpr int kLanes = 8;  // of a channel, of kernels with 2, 4 and 8 states a lane
  constexpr const char* kOp = "selective_scan";
  const SelectiveScanParams& p = call.params;
  const DType dtype = call.x.dtype();
  const auto launch = [&](const jit::Kernel& kernel, const jit::LaunchConfig& chosen) {
    jit::launch(kernel, call.x.device(), chosen, write(call.out), write_if(call.state), read(call.x), read(call.delta),
                read(call.a), read(call.b), read(call.c), read_if(call.d), read_if(call.z), read_if(call.delta_bias),
                p);
  };
  if (!narrow_scans.has(dtype) || p.states > 8 * kLanes)
    return launch(wide_scans.get(0, dtype), config(kOp, p.batch * p.channels, kScanWarps, 32 * kScanWarps));
  const int form = p.states <= 2 * kLanes ? 0 : p.states <= 4 * kLanes ? 1 : 2;
  const unsigned threads = 64u << form;
  launch(narrow_scans.get(form, dtype), config(kOp, p.batch * ceil_div(p.channels, threads / kLanes), 1, threads));
}

}  // namespace gpukit::cuda
