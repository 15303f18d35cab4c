// Sizes of a block of gemv_codes, shared by host and device.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kGemvCodesThreads = 128;  // at most
inline constexpr int kGemvCodesBatch = 32;     // rows whose sums wait in shared memory

}  // namespace gpukit
