// Sizes and element strides of a convolution, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

/// One axis of space: output n is the sum over taps i of weight i times input n * stride + i * dilation - padding, or,
/// transposed, input a times weight i goes to output a * stride + i * dilation - padding.
struct ConvAxis {
  int64_t in, out, taps;
  int64_t stride, padding, dilation;
};

/// The outputs first_out + n * out_step, n < count, of an axis: each takes tap first_tap + i * tap_step, i < taps, of
/// the input at first_in + n * in_step + i * in_tap where that is inside.
struct ConvPhase {
  int64_t first_out, out_step, count;
  int64_t first_tap, tap_step, taps;
  int64_t first_in, in_step, in_tap;
};

GPUKIT_DEVICE ConvPhase conv_phase(const ConvAxis& a) {
  return {0, 1, a.out, 0, 1, a.taps, -a.padding, a.stride, a.dilation};
}

/// Of a transposed axis: its outputs at o + padding = phase mod stride use the taps of i * dilation = phase mod stride
/// and read neighbouring inputs.
GPUKIT_DEVICE ConvPhase transposed_phase(const ConvAxis& a, int64_t phase) {
  int64_t divisor = a.stride;  // the greatest common one of stride and dilation
  for (int64_t rest = a.dilation % a.stride; rest != 0;) {
    const int64_t next = divisor % rest;
    divisor = rest;
    rest = next;
  }
  ConvPhase p = {};
  p.out_step = a.stride;
  p.tap_step = a.stride / divisor;
  while (p.first_tap < a.taps && p.first_tap < p.tap_step && p.first_tap * a.dilation % a.stride != phase)
    ++p.first_tap;
  if (p.first_tap < a.taps && p.first_tap < p.tap_step) p.taps = (a.taps - 1 - p.first_tap) / p.tap_step + 1;
  // Position o + padding is row * stride + phase.
  const int64_t first_row = a.padding > phase ? (a.padding - phase + a.stride - 1) / a.stride : 0;
  p.first_out = first_row * a.stride + phase - a.padding;
  p.count = p.first_out < a.out ? (a.out - 1 - p.first_out) / a.stride + 1 : 0;
  p.first_in = first_row - p.first_tap * a.dilation / a.stride;
  p.in_step = 1;
  p.in_tap = -(a.dilation / divisor);
  return p;
}

/// Channels are those of one group.
struct ConvSpace {
  int64_t batches, groups, in_channels, out_channels;
  ConvAxis rows, columns;
  int64_t phases;  // of the columns; 0: they are not transposed
  int64_t x_batch, x_channel, x_row, x_column;
  int64_t out_batch, out_channel, out_row, out_column;
  int64_t w_group, w_out, w_in, w_row, w_column;
  int64_t bias_step;
  int32_t activation;
  double slope;
};

GPUKIT_DEVICE ConvPhase columns_of(const ConvSpace& s, int64_t phase) {
  return s.phases == 0 ? conv_phase(s.columns) : transposed_phase(s.columns, phase);
}

}  // namespace gpukit
