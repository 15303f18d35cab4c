// conv: a convolution as a product whose right side is gathered on the way; one block makes kConvTile output channels
// of kConvTile outputs in space of one phase, group and item. kConvThreads threads, each 4 x 4 sums.
//
// Each sum starts at 0 and takes one fused multiply-add for each weight, input channels outermost.
#pragma once
#include "gpukit/ops/conv/conv_activation.cuh"
#include "gpukit/ops/conv/conv_space.cuh"
#include "gpukit/ops/conv/conv_tile.cuh"

namespace gpukit {

GPUKIT_DEVICE float conv_step(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE double conv_step(double sum, double a, double b) { return __fma_rn(a, b, sum); }

/// One weight of an output: its channel and taps.
struct ConvStep {
  uint32_t channel, row, column;
  GPUKIT_DEVICE ConvStep(uint32_t k, uint32_t rows, uint32_t columns) {
    const uint32_t rest = k / columns;
    column = k % columns;
    channel = rest / rows;
    row = rest % rows;
  }
};

/// `weights` of one output are fewer than 2^31. Blocks: [phase][item][group][channel tile][space tile].
template <typename T>
__global__ void __launch_bounds__(kConvThreads)
    conv(T* out, const T* x, const T* w, const T* bias, const __grid_constant__ ConvSpace s, int64_t channel_tiles,
         int64_t space_tiles) {
  using C = compute_t<T>;
  __shared__ C weights[kConvDepth][kConvTile + 4];
  __shared__ C inputs[kConvDepth][kConvTile + 4];

  int64_t place = blockIdx.x;
  const int64_t space_tile = place % space_tiles * kConvTile;
  place /= space_tiles;
  const int64_t channel_tile = place % channel_tiles * kConvTile;
  place /= channel_tiles;
  const int64_t group = place % s.groups;
  place /= s.groups;
  const int64_t item = place % s.batches;
  const ConvPhase rows = conv_phase(s.rows), columns = columns_of(s, place / s.batches);
  const int64_t width = rows.count * columns.count;
  if (space_tile >= width) return;  // phases differ by one output
  x += item * s.x_batch + group * s.in_channels * s.x_channel;
  w += group * s.w_group + columns.first_tap * s.w_column;
  out += item * s.out_batch + group * s.out_channels * s.out_channel;

  const uint32_t row_taps = static_cast<uint32_t>(rows.taps), column_taps = static_cast<uint32_t>(columns.taps);
  const int depth = static_cast<int>(s.in_channels * rows.taps * columns.taps);
  // Neighbouring threads read neighbouring weights of one output, and neighbouring outputs' inputs.
  const int weight_k = threadIdx.x % kConvDepth, weight_row = threadIdx.x / kConvDepth;
  const int input_k = threadIdx.x / kConvTile, input_column = threadIdx.x % kConvTile;
  const int64_t mine = space_tile + input_column;
  const bool mine_inside = mine < width;
  const int64_t first_row = rows.first_in + mine / columns.count * rows.in_step;
  const int64_t first_column = columns.first_in + mine % columns.count * columns.in_step;
  const int thread_row = threadIdx.x / 16 * 4, thread_column = threadIdx.x % 16 * 4;

  C sums[4][4] = {};
#pragma unroll 1
  for (int k = 0; k < depth; k += kConvDepth) {
    const bool weight_inside = k + weight_k < depth;
    const ConvStep at(static_cast<uint32_t>(weight_inside ? k + weight_k : 0), row_taps, column_taps);
    const T* from = w + at.channel * s.w_in + at.row * s.w_row + at.column * columns.tap_step * s.w_column;
#pragma unroll
    for (int i = 0; i < kConvTile; i += kConvThreads / kConvDepth) {
      const int64_t channel = channel_tile + weight_row + i;
      weights[weight_k][weight_row + i] =
          weight_inside && channel < s.out_channels ? load(from[channel * s.w_out]) : C(0);
    }
#pragma unroll
    for (int i = 0; i < kConvDepth; i += kConvThreads / kConvTile) {
      const bool inside = mine_inside && k + input_k + i < depth;
      const ConvStep step(static_cast<uint32_t>(inside ? k + input_k + i : 0), row_taps, column_taps);
      const int64_t row = first_row + step.row * rows.in_tap, column = first_column + step.column * columns.in_tap;
      const bool read = inside && row >= 0 && row < s.rows.in && column >= 0 && column < s.columns.in;
      inputs[input_k + i][input_column] =
          read ? load(x[step.channel * s.x_channel + row * s.x_row + column * s.x_column]) : C(0);
    }
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kConvDepth; ++step) {
      C a[4], b[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) a[i] = weights[step][thread_row + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = inputs[step][thread_column + j];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = conv_step(sums[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t channel = channel_tile + thread_row + i;
    if (channel >= s.out_channels) continue;
    const C offset = bias == nullptr ? C(0) : load(bias[(group * s.out_channels + channel) * s.bias_step]);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int64_t to = space_tile + thread_column + j;
      if (to >= width) continue;
      const int64_t column = columns.first_out + to % columns.count * columns.out_step;
      out[channel * s.out_channel + to / columns.count * s.out_row + column * s.out_column] =
          store<T>(conv_activation(sums[i][j] + offset, s.activation, static_cast<C>(s.slope)));
    }
  }
}

}  // namespace gpukit
