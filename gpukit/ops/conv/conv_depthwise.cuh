// conv_depthwise: a convolution of groups of one input channel. A block makes kDepthwiseOutputs neighbouring outputs in
// space of one phase, output channel and item, kDepthwiseOutputs / kConvThreads by a thread; each sum as in conv.
#pragma once
#include "gpukit/ops/conv/conv.cuh"

namespace gpukit {

/// Blocks: [phase][item][group][channel of the group][tile of outputs].
template <typename T>
__global__ void __launch_bounds__(kConvThreads)
    conv_depthwise(T* out, const T* x, const T* w, const T* bias, const __grid_constant__ ConvSpace s, int64_t tiles) {
  using C = compute_t<T>;
  constexpr int kOutputs = kDepthwiseOutputs / kConvThreads;
  int64_t place = blockIdx.x;
  const int64_t first = place % tiles * kDepthwiseOutputs + threadIdx.x;
  place /= tiles;
  const int64_t channel = place % s.out_channels;
  place /= s.out_channels;
  const int64_t group = place % s.groups;
  place /= s.groups;
  const int64_t item = place % s.batches;
  const ConvPhase rows = conv_phase(s.rows), columns = columns_of(s, place / s.batches);
  const int64_t width = rows.count * columns.count;
  x += item * s.x_batch + group * s.x_channel;
  w += group * s.w_group + channel * s.w_out + columns.first_tap * s.w_column;
  out += item * s.out_batch + (group * s.out_channels + channel) * s.out_channel;

  int32_t row[kOutputs], column[kOutputs];  // each below 2^31
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) {
    const int64_t to = first + j * kConvThreads;
    row[j] = static_cast<int32_t>(to / columns.count);
    column[j] = static_cast<int32_t>(to % columns.count);
  }
  C sums[kOutputs] = {};
  for (int64_t r = 0; r < rows.taps; ++r)
    for (int64_t c = 0; c < columns.taps; ++c) {
      const C weight = load(w[r * s.w_row + c * columns.tap_step * s.w_column]);
#pragma unroll
      for (int j = 0; j < kOutputs; ++j) {
        const int64_t from_row = rows.first_in + row[j] * rows.in_step + r * rows.in_tap;
        const int64_t from_column = columns.first_in + column[j] * columns.in_step + c * columns.in_tap;
        const bool read = first + j * kConvThreads < width && from_row >= 0 && from_row < s.rows.in &&
                          from_column >= 0 && from_column < s.columns.in;
        sums[j] = conv_step(sums[j], weight, read ? load(x[from_row * s.x_row + from_column * s.x_column]) : C(0));
      }
    }

  const C offset = bias == nullptr ? C(0) : load(bias[(group * s.out_channels + channel) * s.bias_step]);
#pragma unroll
  for (int j = 0; j < kOutputs; ++j)
    if (first + j * kConvThreads < width)
      out[row[j] * s.out_row + (columns.first_out + column[j] * columns.out_step) * s.out_column] =
          store<T>(conv_activation(sums[j] + offset, s.activation, static_cast<C>(s.slope)));
}

}  // namespace gpukit
