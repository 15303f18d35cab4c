// The tiles of conv, shared by host and device.
#pragma once

namespace gpukit {

inline constexpr int kConvTile = 64;   // output channels, and outputs in space
inline constexpr int kConvDepth = 16;  // weights of one output at a time
inline constexpr int kConvThreads = 256;
inline constexpr int kDepthwiseOutputs = 512;  // of a block of conv_depthwise

}  // namespace gpukit
