// Sizes and element strides of causal_conv1d and selective_scan, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kMostTaps = 16;     // of causal_conv1d
inline constexpr int kMostStates = 256;  // of selective_scan
inline constexpr int kScanWarps = 4;     // of a block of selective_scan

struct ScanStrides {
  int64_t batch, channel, step;
};

struct CausalConvParams {
  int64_t batch, channels, length;
  int32_t taps;
  bool silu;
  ScanStrides out, x, state;
  int64_t w_channel, w_tap, bias;
};

/// The middle stride of b and c is that of their states, and a's and the state's last one too.
struct SelectiveScanParams {
  int64_t batch, channels, length;
  int32_t states;
  bool softplus;
  ScanStrides out, x, delta, z, b, c, state;
  int64_t a_channel, a_state, d, delta_bias;
};

}  // namespace gpukit
