// What the host's plan tells the kernels of running sums. Shared by both sides.
#pragma once
#include "gpukit/ops/common/divide.cuh"

namespace gpukit {

inline constexpr int kScanThreads = 256;
inline constexpr int kScanUnits = 8;
inline constexpr int kScanTile = kScanThreads * kScanUnits;
inline constexpr int kScanShort = 256;  // elements of a row that a warp takes alone
inline constexpr int kScanMaxSegments = 1024;

struct ScanParams {
  int64_t rows, length;
  int64_t in, out;        // element strides along the row
  int32_t rank;           // of the other axes
  int32_t levels;         // of the pyramid of segment sums: log2 of the rounded number of segments
  Divisor segments;       // per row
  int64_t segment_tiles;  // a power of two
  Divisor other_shape[kKernelRank];
  int64_t other_in[kKernelRank];
  int64_t other_out[kKernelRank];
};

}  // namespace gpukit
