// The order of sums of plain floats by weights of 8 bits whose scales do not change along k, on every kernel (one row:
// under batch_invariant) and on the CPU: kBytesPart of k are summed from 0, parts are added in ascending order into
// chains of kBytesChain, these in ascending order into the total. A part is what a quad of lanes has of a row in
// gemv_codes.
#pragma once

namespace gpukit {

inline constexpr int kBytesPart = 64, kBytesChain = 256;

}  // namespace gpukit
