// Room for partial results. Graph captures may not allocate, so eager calls set a few buffers aside for them. Each
// stream has one buffer with a counter, for kernels whose last block merges the results.
#pragma once

#include <optional>

#include "gpukit/array/array.h"
#include "gpukit/ops/reduce/reduce_params.cuh"

namespace gpukit::cuda {

/// The most a capture can get.
inline constexpr int64_t kCaptureScratchBytes = 64 << 10;
inline constexpr int kCaptureScratchCount = 16;
inline constexpr int64_t kCounterBytes = kCounterOffset;

/// Bytes a call may ask for now: no limit worth stating when eager, kCaptureScratchBytes or 0 in a capture.
int64_t scratch_limit(Device device);
/// A buffer of at least `bytes`, within scratch_limit. In a capture the graph keeps it, and nothing else uses it, as
/// long as the graph lives. Nothing when another thread took the last one.
std::optional<Array> take_scratch(Device device, int64_t bytes);
/// kCaptureScratchBytes that nothing but the current stream's work, or the running capture's graph, uses. The first
/// kCounterBytes are 0 now, and whoever counts there leaves them 0.
std::optional<Array> take_counted_scratch(Device device);

}  // namespace gpukit::cuda
