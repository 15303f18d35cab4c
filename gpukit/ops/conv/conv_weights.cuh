// conv_pack: weights as conv_sm80 reads them, [group][tap][block of channels][output][channel], float rounded to TF32:
// what a tile takes at a time lies side by side. A block takes 32 channels of 8 outputs of one group and walks the
// taps, by way of shared memory, so that both sides are read and written together.
#pragma once
#include "gpukit/ops/common/mma.cuh"
#include "gpukit/ops/conv/conv_weights_params.cuh"

namespace gpukit {

GPUKIT_DEVICE half as_factor(half v) { return v; }
GPUKIT_DEVICE bfloat16 as_factor(bfloat16 v) { return v; }
GPUKIT_DEVICE float as_factor(float v) { return __uint_as_float(round_to_tf32(__float_as_uint(v))); }

/// Blocks: [group][tile of outputs][tile of channels].
template <typename T>
__global__ void __launch_bounds__(kConvPackThreads)
    conv_pack(T* packed, const T* w, const __grid_constant__ ConvWeightLayout p) {
  constexpr int kChannels = 32, kOutputs = kConvPackThreads / kChannels, kTaps = kConvPackTaps;
  __shared__ T tile[kOutputs][kChannels][kTaps + 1];
  uint32_t place = blockIdx.x;
  const uint32_t channel_tiles = (p.in_channels + kChannels - 1) / kChannels;
  const uint32_t output_tiles = (p.out_channels + kOutputs - 1) / kOutputs;
  const uint32_t channel = place % channel_tiles * kChannels;
  place /= channel_tiles;
  const uint32_t output = place % output_tiles * kOutputs, group = place / output_tiles;
  w += group * p.w_group + output * p.w_out + channel * p.w_in;
  const uint32_t my_channel = threadIdx.x % kChannels, my_output = threadIdx.x / kChannels;
  const bool mine = channel + my_channel < p.in_channels && output + my_output < p.out_channels;
  const uint32_t blocks = (p.in_channels + p.block_channels - 1) / p.block_channels;
  const uint32_t block = (channel + my_channel) / p.block_channels,
                 in_block = (channel + my_channel) % p.block_channels;
  const int64_t tap_stride = int64_t{blocks} * p.out_channels * p.block_channels;
  packed += int64_t{group} * p.taps * tap_stride +
            (int64_t{block} * p.out_channels + output + my_output) * p.block_channels + in_block;

#pragma unroll 1
  for (uint32_t first = 0; first < p.taps; first += kTaps) {
    const uint32_t taps = p.taps - first < kTaps ? p.taps - first : kTaps;
#pragma unroll 1
    for (uint32_t unit = threadIdx.x; unit < kOutputs * kChannels * taps; unit += kConvPackThreads) {
      const uint32_t tap = unit % taps, line = unit / taps;
      const uint32_t o = p.outputs_inner != 0 ? line % kOutputs : line / kChannels;
      const uint32_t i = p.outputs_inner != 0 ? line / kOutputs : line % kChannels;
      if (channel + i >= p.in_channels || output + o >= p.out_channels) continue;
      const uint32_t row = (first + tap) / p.tap_columns, column = (first + tap) % p.tap_columns;
      tile[o][i][tap] = w[o * p.w_out + i * p.w_in + row * p.w_row + column * p.w_column];
    }
    __syncthreads();
    if (mine) {
#pragma unroll 1
      for (uint32_t tap = 0; tap < taps; ++tap)
        packed[(first + tap) * tap_stride] = as_factor(tile[my_output][my_channel][tap]);
    }
    __syncthreads();
  }
}

}  // namespace gpukit
