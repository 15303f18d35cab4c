// The order of sums of plain floats by weights of 8 bits whose scales do not change along k, on every kernel (one row:
// under batch_invariant) and on the CPU: chains of kBytesChain are summed from 0 and added in ascending order.
#pragma once

namespace gpukit {

inline constexpr int kBytesChain = 256;

}  // namespace gpukit
