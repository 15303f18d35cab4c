// The tiles of gemm80, shared by host and device. Its operands along k, m or n (Major) need a base, strides and batch
// strides of multiples of 16 bytes.
#pragma once
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit {

/// One block makes kRows x kColumns outputs, kWarpRows x kWarpColumns per warp, from kStages slices of kSliceBytes of
/// k. Registers are limited so that kResident blocks fit on a multiprocessor. kAhead: fragments are loaded one step
/// ahead of their products, which takes twice their registers; otherwise other warps fill the wait.
template <int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kSliceBytes_, int kStages_, int kResident_,
          bool kAhead_>
struct GemmTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kSliceBytes = kSliceBytes_, kStages = kStages_, kResident = kResident_;
  static constexpr bool kAhead = kAhead_;
  static constexpr int kWarps = (kRows / kWarpRows) * (kColumns / kWarpColumns);
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kStageBytes = (kRows + kColumns) * kSliceBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

// Few rows: deep pipelines, because what counts is bytes of weights under way.
using GemmTile16x32 = GemmTile<16, 32, 16, 16, 128, 8, 2, true>;
using GemmTile64x64 = GemmTile<64, 64, 32, 32, 128, 3, 2, true>;
// Operands that are read element by element.
using GemmTileAny = GemmTile<64, 64, 32, 16, 128, 3, 2, false>;
// Many rows: two blocks on a chip with 100 KB of shared memory, or one with larger warps.
using GemmTile128x128 = GemmTile<128, 128, 64, 32, 64, 3, 2, false>;
using GemmTile128x128Deep = GemmTile<128, 128, 64, 32, 128, 3, 1, true>;
using GemmTile128x256 = GemmTile<128, 256, 64, 64, 64, 4, 1, true>;

}  // namespace gpukit
