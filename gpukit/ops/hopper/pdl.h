// When a kernel should start while the one before it on the stream still runs (pdl.cuh).
#pragma once

#include <cstdint>

namespace gpukit::cuda {

/// Of kernels whose blocks have a multiprocessor each: those that take nearly all of them. Of others, some blocks would
/// start at once beside busy neighbours, whose way to memory they share, and the rest late: 64 rows by 4608 weights, 72
/// blocks on an H200, took 19 % longer.
inline bool should_overlap(int64_t blocks, int sm_count) { return 10 * blocks >= int64_t{9} * sm_count; }

}  // namespace gpukit::cuda
