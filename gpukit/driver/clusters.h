// Kernels whose blocks come in clusters (sm_90 and later).
#pragma once

#include "gpukit/driver/api.h"

namespace gpukit::driver {

/// Lets a function that was compiled for clusters of more than 8 blocks run where the chip can. Throws CudaError.
void allow_large_clusters(const Api& api, FunctionHandle function);
/// How many clusters of a function compiled for them the whole device runs at once, of those of `shape`, a grid of one
/// cluster. 0 where it runs none, or the driver cannot say.
int clusters_at_once(const Api& api, FunctionHandle function, const LaunchShape& shape) noexcept;

}  // namespace gpukit::driver
