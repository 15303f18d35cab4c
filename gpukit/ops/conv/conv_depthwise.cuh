// conv_depthwise: a convolution of groups of one input channel. A block makes kDepthwiseOutputs neighbouring outputs in
// space of one phase, output channel and item, kDepthwiseOutputs / kConvThreads by a thread; each sum as in conv. There
// are fewer than 2^31 outputs in space.
#pragma once
#include "gpukit/ops/conv/conv.cuh"

namespace gpukit {

/// Blocks: [phase][item][group][channel of the group][tile of outputs].
template <typename T>
__global__ void __launch_bounds__(kConvThreads)
    conv_depthwise(T* out, const T* x, const T* w, const T* bias, const __grid_constant__ ConvSpace s, uint32_t tiles) {
  using C = compute_t<T>;
  constexpr int kOutputs = kDepthwiseOutputs / kConvThreads;
  // Places and sizes are below 2^31; divisions of 64 bits are calls, around which registers spill.
  const uint32_t channels = static_cast<uint32_t>(s.out_channels), groups = static_cast<uint32_t>(s.groups);
  uint32_t place = blockIdx.x;
  const uint32_t first = place % tiles * kDepthwiseOutputs + threadIdx.x;
  place /= tiles;
  const int64_t channel = place % channels;
  place /= channels;
  const int64_t group = place % groups;
  place /= groups;
  const int64_t item = place % static_cast<uint32_t>(s.batches);
  const int64_t phase = place / static_cast<uint32_t>(s.batches);
  const ConvPhase rows = conv_phase(s.rows), columns = columns_of(s, phase);
  const int64_t width = rows.count * columns.count;
  if (width == 0) return;  // phases differ by one output
  x += item * s.x_batch + group * s.x_channel;
  w += group * s.w_group + channel * s.w_out + columns.first_tap * s.w_column;
  out += item * s.out_batch + (group * s.out_channels + channel) * s.out_channel;

  const uint32_t count = static_cast<uint32_t>(columns.count);
  uint32_t row[kOutputs], column[kOutputs];
#pragma unroll
  for (int j = 0; j < kOutputs; ++j) {
    const uint32_t to = first + j * kConvThreads;
    row[j] = to / count;
    column[j] = to % count;
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
