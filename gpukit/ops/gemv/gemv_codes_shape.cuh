// Sizes of a block of gemv_codes, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kGemvCodesThreads = 256;  // at most
inline constexpr int kGemvCodesBatch = 8;      // groups of rows whose sums wait in shared memory

/// A stage holds 16 bytes of every row of a group for every thread, then a word of scales and one of zero points where
/// there are any.
constexpr int gemv_codes_stage_bytes(int threads, int pairs, bool scales, bool zeros) {
  return threads * 2 * pairs * (16 + (scales ? 4 : 0) + (zeros ? 4 : 0));
}
/// Shared memory of a block: its stages, and 8 sums of every row and warp.
constexpr int gemv_codes_shared_bytes(int threads, int pairs, bool scales, bool zeros, int stages) {
  constexpr int kSums = 8 * static_cast<int>(sizeof(float));
  return stages * gemv_codes_stage_bytes(threads, pairs, scales, zeros) +
         threads / 32 * kGemvCodesBatch * 2 * pairs * kSums;
}

}  // namespace gpukit
