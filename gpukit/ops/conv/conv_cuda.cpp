#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/common/workspace.h"
#include "gpukit/ops/conv/conv_impl.h"
#include "gpukit/ops/conv/conv_plan.h"
#include "gpukit/ops/conv/conv_tile.cuh"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/conv/conv.cuh", {"gpukit::conv<{T}>"}, {float16, bfloat16, float32, float64});

const jit::KernelSet depthwise("gpukit/ops/conv/conv_depthwise.cuh", {"gpukit::conv_depthwise<{T}>"},
                               {float16, bfloat16, float32, float64});

jit::KernelSet mma_kernel(const char* name) {
  return {"gpukit/ops/conv/conv_sm80.cuh", {name}, {float16, bfloat16, float32}};
}
// By ConvTile. Each kernel is a module of its own, so that a first call waits for no other.
const jit::KernelSet mma_kernels[] = {mma_kernel("gpukit::conv_sm80<{T}, gpukit::ConvTile128x128, false>"),
                                      mma_kernel("gpukit::conv_sm80<{T}, gpukit::ConvTile64x128, false>"),
                                      mma_kernel("gpukit::conv_sm80<{T}, gpukit::ConvTile64x64, false>"),
                                      mma_kernel("gpukit::conv_sm80<{T}, gpukit::ConvTile64x64, true>")};
const jit::KernelSet pack_kernels("gpukit/ops/conv/conv_weights.cuh", {"gpukit::conv_pack<{T}>"},
                                  {float16, bfloat16, float32});

constexpr int64_t kMost = 0x7fffffff;

ConvPlan plan_of(const ConvCall& call) {
  const driver::DeviceProperties& chip = call.input.context().properties();
  return plan_conv(call.space, call.input.dtype(), call.tf32, is_aligned(call.input), is_aligned(call.weight),
                   !call.out.defined() || is_aligned(call.out),
                   {chip.sm_count, chip.shared_per_block_optin, chip.shared_per_sm});
}

unsigned grid(const ConvCall& call, int64_t blocks) {
  if (blocks > kMost) throw UnsupportedError(std::string(call.op) + ": a result of more than 2^31 tiles");
  return static_cast<unsigned>(blocks);
}

void conv_mma(const ConvCall& call, const ConvPlan& plan) {
  const DType dtype = call.out.dtype();
  const Device device = call.out.device();
  Temporaries temporaries(call.op);
  Array weight = call.weight;
  if (plan.packs) {
    const ConvWeightLayout& p = plan.weights;
    weight = temporaries.empty({plan.packed_elements(call.space.groups)}, dtype, device);
    const int64_t tiles = call.space.groups * ceil_div(int64_t{p.out_channels}, int64_t{kConvPackOutputs}) *
                          ceil_div(int64_t{p.in_channels}, int64_t{kConvPackChannels});
    jit::launch(pack_kernels.get(0, dtype), device, {.grid_x = grid(call, tiles), .block_x = kConvPackThreads},
                write(weight), read(call.weight), p);
  }
  jit::launch(mma_kernels[static_cast<int>(plan.tile)].get(0, dtype), device,
              {.grid_x = grid(call, plan.blocks), .block_x = 32 * kConvWarps, .shared_bytes = plan.shared_bytes},
              write(call.out), read(call.input), read(weight), read_if(call.bias), call.space, plan.grid);
}

}  // namespace

void conv(const ConvCall& call) {
  const ConvPlan plan = plan_of(call);
  if (plan.kernel == ConvKernel::mma) return conv_mma(call, plan);
  const ConvSpace& s = call.space;
  if (s.in_channels * s.rows.taps * s.columns.taps > kMost)
    throw UnsupportedError(std::string(call.op) + ": an output of 2^31 weights or more");
  const int64_t longest = s.phases == 0 ? s.columns.out : ceil_div(s.columns.out, s.phases);
  if (plan.kernel == ConvKernel::depthwise) {
    const int64_t across = ceil_div(s.rows.out * longest, int64_t{kDepthwiseOutputs});
    jit::launch(depthwise.get(0, call.out.dtype()), call.out.device(),
                {.grid_x = grid(call, plan.blocks), .block_x = kConvThreads}, write(call.out), read(call.input),
                read(call.weight), read_if(call.bias), s, static_cast<uint32_t>(across));
    return;
  }
  const int64_t channel_tiles = ceil_div(s.out_channels, int64_t{kConvTile});
  const int64_t space_tiles = ceil_div(s.rows.out * longest, int64_t{kConvTile});
  jit::launch(kernels.get(0, call.out.dtype()), call.out.device(),
              {.grid_x = grid(call, plan.blocks), .block_x = kConvThreads}, write(call.out), read(call.input),
              read(call.weight), read_if(call.bias), s, channel_tiles, space_tiles);
}

std::string explain_conv(const ConvCall& call) { return plan_of(call).str(); }

}  // namespace gpukit::cuda
