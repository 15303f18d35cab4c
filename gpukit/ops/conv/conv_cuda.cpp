#include "gpukit/base/error.h"
#include "gpukit/jit/launch.h"
#include "gpukit/ops/common/operand.h"
#include "gpukit/ops/common/rounding.h"
#include "gpukit/ops/conv/conv_impl.h"
#include "gpukit/ops/conv/conv_tile.cuh"

namespace gpukit::cuda {

namespace {

using enum DType;
const jit::KernelSet kernels("gpukit/ops/conv/conv.cuh", {"gpukit::conv<{T}>"}, {float16, bfloat16, float32, float64});

const jit::KernelSet depthwise("gpukit/ops/conv/conv_depthwise.cuh", {"gpukit::conv_depthwise<{T}>"},
                               {float16, bfloat16, float32, float64});

constexpr int64_t kMost = 0x7fffffff;
/// Output channels of a group from which on a tile of them pays.
constexpr int64_t kFewChannels = 8;

int64_t tiles(int64_t size) { return ceil_div(size, int64_t{kConvTile}); }

unsigned grid(const ConvCall& call, int64_t blocks) {
  if (blocks > kMost) throw UnsupportedError(std::string(call.op) + ": a result of more than 2^31 tiles");
  return static_cast<unsigned>(blocks);
}

}  // namespace

void conv(const ConvCall& call) {
  const ConvSpace& s = call.space;
  if (s.in_channels * s.rows.taps * s.columns.taps > kMost)
    throw UnsupportedError(std::string(call.op) + ": an output of 2^31 weights or more");
  const int64_t phases = s.phases == 0 ? 1 : s.phases;
  const int64_t longest = s.phases == 0 ? s.columns.out : (s.columns.out + s.phases - 1) / s.phases;
  if (s.in_channels == 1 && s.out_channels <= kFewChannels && s.rows.out <= kMost / longest) {
    const int64_t across = ceil_div(s.rows.out * longest, int64_t{kDepthwiseOutputs});
    jit::launch(
        depthwise.get(0, call.out.dtype()), call.out.device(),
        {.grid_x = grid(call, phases * s.batches * s.groups * s.out_channels * across), .block_x = kConvThreads},
        write(call.out), read(call.input), read(call.weight), read_if(call.bias), s, static_cast<uint32_t>(across));
    return;
  }
  const int64_t channel_tiles = tiles(s.out_channels), space_tiles = tiles(s.rows.out * longest);
  const int64_t blocks = phases * s.batches * s.groups * channel_tiles * space_tiles;
  jit::launch(kernels.get(0, call.out.dtype()), call.out.device(),
              {.grid_x = grid(call, blocks), .block_x = kConvThreads}, write(call.out), read(call.input),
              read(call.weight), read_if(call.bias), s, channel_tiles, space_tiles);
}

}  // namespace gpukit::cuda
