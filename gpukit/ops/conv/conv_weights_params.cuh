// How weights lie before and after conv_pack. Shared by host and kernel.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kConvPackThreads = 256;
inline constexpr int kConvPackOutputs = 8, kConvPackChannels = 32;  // of a block
inline constexpr int kConvPackTaps = 16;                            // at a time

/// Strides are in elements.
struct ConvWeightLayout {
  uint32_t in_channels, out_channels, taps, tap_columns;
  int64_t w_group, w_out, w_in, w_row, w_column;
  uint32_t block_channels;  // of one output that lie side by side: 16 or 32
  int32_t outputs_inner;    // outputs lie side by side rather than channels
};

}  // namespace gpukit
