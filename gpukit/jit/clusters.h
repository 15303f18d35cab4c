// How many clusters of a kernel run at once.
#pragma once

#include "gpukit/jit/kernel.h"

namespace gpukit::jit {

/// Clusters of `blocks`, which the kernel is compiled for, that the whole device runs at once with that many threads
/// and dynamic bytes of shared memory a block: 0 where it runs none. Afterwards clusters of more than 8 blocks may be
/// launched. Each thread asks the driver once.
int clusters_at_once(const Kernel& kernel, Device device, unsigned blocks, unsigned threads, unsigned shared_bytes);

}  // namespace gpukit::jit
