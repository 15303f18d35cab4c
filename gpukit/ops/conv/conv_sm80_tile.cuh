// The tiles of conv_sm80 and how its blocks divide a convolution. Shared by host and kernels.
#pragma once
#include "gpukit/ops/conv/conv_space.cuh"

namespace gpukit {

inline constexpr int kConvWarps = 4;        // of a block; each brings a quarter of a block of channels
inline constexpr int kConvBlockBytes = 64;  // of the channels of one position that are taken together
inline constexpr int kConvChunkBytes = 16;  // of channels that lie side by side in shared memory
inline constexpr int kConvStages = 4;       // slices of weights in shared memory

/// One block makes kRows output channels of kColumns outputs in space, kWarpRows x kWarpColumns by a warp. Registers
/// are limited so that kResident blocks fit on a multiprocessor.
template <int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kResident_>
struct ConvMmaTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kThreads = 32 * kConvWarps, kResident = kResident_;
  static constexpr int kStageBytes = kRows * kConvBlockBytes;
  static constexpr int kStagingPitch = kWarpColumns + 8;  // rows that are written together use other banks
  static constexpr int kStagingBytes = kConvWarps * kWarpRows * kStagingPitch * 4;
  static_assert(kRows / kWarpRows * (kColumns / kWarpColumns) == kConvWarps, "the warps cover the tile");
};
using ConvTile128x128 = ConvMmaTile<128, 128, 64, 64, 2>;
using ConvTile64x128 = ConvMmaTile<64, 128, 32, 64, 2>;
using ConvTile64x64 = ConvMmaTile<64, 64, 32, 32, 3>;

/// How the host has divided the work. Weights are [group][tap][block of channels][output][channel] in memory.
struct ConvGrid {
  int64_t weight_group, weight_tap, weight_block, weight_output;  // strides, in elements
  uint32_t channel_tiles, row_tiles, column_tiles;
  int32_t width_shift;     // a tile is 2^width_shift outputs wide, and as many high as it has room for
  int32_t one_tap;         // a window is what one tap reads; else it serves all taps
  int32_t window_bytes;    // of a window in shared memory, at most
  int32_t raw_bytes;       // of its channels as they come from memory, at most; 0: they come element by element
  int32_t raw_chunks;      // of 16 bytes of one row there
  int32_t raw_shift;       // log2 of as many lanes as copy one row
  int32_t vectors;         // four neighbours of the result can be stored at once
  int32_t channel_chunks;  // 16 bytes of neighbouring channels can be read at once
};

}  // namespace gpukit
