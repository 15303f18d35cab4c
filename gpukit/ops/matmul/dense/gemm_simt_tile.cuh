// The tiles of gemm_simt, shared by host and device.
#pragma once
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit {

inline constexpr int kSimtMaxDepth = 0x7fff0000;  // of k: a few slices more or less are an int, too

/// One block makes kRows x kColumns outputs, kWarpRows x kWarpColumns per warp, from kStages slices of kDepth steps of
/// k. Registers are limited so that kResident blocks fit on a multiprocessor.
template <int kRows_, int kColumns_, int kWarpRows_, int kWarpColumns_, int kDepth_, int kStages_, int kResident_>
struct SimtTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_;
  static constexpr int kWarpRows = kWarpRows_, kWarpColumns = kWarpColumns_;
  static constexpr int kDepth = kDepth_, kStages = kStages_, kResident = kResident_;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * (kColumns / kWarpColumns);

  /// A slice is kDepth lines of one step of k. Each has 16 bytes more than it needs: 8 elements that follow each other
  /// along k then lie in different banks.
  static constexpr int kLinePad = 16;
  static constexpr int shared_bytes(int element_bytes) {
    return kStages * kDepth * ((kRows + kColumns) * element_bytes + 2 * kLinePad);
  }
};

using SimtTile64x64 = SimtTile<64, 64, 32, 32, 8, 4, 4>;
using SimtTile128x64 = SimtTile<128, 64, 64, 32, 8, 4, 3>;
using SimtTile128x128 = SimtTile<128, 128, 128, 32, 8, 4, 2>;
// 64-bit elements take twice the registers.
using SimtTile64x64Double = SimtTile<64, 64, 32, 32, 8, 4, 2>;
using SimtTile128x64Double = SimtTile<128, 64, 64, 32, 8, 4, 2>;

}  // namespace gpukit
