// Sizes of the sorting kernels. Shared by both sides.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kSortThreads = 256;  // one per digit of 8 bits
inline constexpr int kSortDigits = 256;
inline constexpr int kSortRounds = 16;
inline constexpr int kSortTile = kSortThreads * kSortRounds;
inline constexpr int kShortRow = 2048;  // sorted by one block
inline constexpr int kSortScanThreads = 1024;
inline constexpr int kSortScanItems = 8;  // per thread

}  // namespace gpukit
