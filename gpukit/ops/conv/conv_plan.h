// Which kernel makes a convolution on a GPU, and how its work is divided. A pure function of sizes, layout and chip.
#pragma once

#include <cstdint>
#include <string>

#include "gpukit/base/dtype.h"
#include "gpukit/ops/conv/conv_sm80_tile.cuh"
#include "gpukit/ops/conv/conv_weights_params.cuh"

namespace gpukit::cuda {

enum class ConvKernel : uint8_t {
  simt,       // CUDA cores
  depthwise,  // CUDA cores, groups of one channel
  mma         // tensor cores
};
enum class ConvTile : uint8_t { t128x128, t64x128, t64x64, gathered };

struct ConvChip {
  int sm_count = 0, shared_per_block = 0, shared_per_sm = 0;
};

struct ConvPlan {
  ConvKernel kernel = ConvKernel::simt;
  int64_t blocks = 0;
  // Of tensor cores:
  ConvTile tile = ConvTile::t64x64;
  ConvGrid grid{};
  unsigned shared_bytes = 0;
  bool packs = false;  // the weights, before
  ConvWeightLayout weights{};

  int64_t packed_elements(int64_t groups) const {
    const int64_t block = weights.block_channels, blocks = (weights.in_channels + block - 1) / block;
    return groups * weights.taps * weights.out_channels * blocks * block;
  }
  std::string str() const;  // e.g. "conv_sm80 64x128, windows of all taps, weights packed, 240 blocks"
};

/// `tf32`: float32 may be rounded to it. `weight_aligned`, `out_aligned`: the arrays start at multiples of 16 bytes.
/// The kernel follows from dtype and sizes alone; the rest changes no bit of a result.
ConvPlan plan_conv(const ConvSpace& space, DType dtype, bool tf32, bool x_aligned, bool weight_aligned,
                   bool out_aligned, const ConvChip& chip);

}  // namespace gpukit::cuda
