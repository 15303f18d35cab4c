// When a kernel should start while the one before it on the stream still runs (pdl.cuh).
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpukit/array/array.h"
#include "gpukit/runtime/session.h"

namespace gpukit::cuda {

/// Of kernels whose blocks have a multiprocessor each: those that take nearly all of them. Of others, some blocks would
/// start at once beside busy neighbours, whose way to memory they share, and the rest late: 64 rows by 4608 weights, 72
/// blocks on an H200, took 19 % longer.
inline bool should_overlap(int64_t blocks, int sm_count) { return 10 * blocks >= int64_t{9} * sm_count; }

/// Of kernels with many small blocks, which spread by themselves.
inline bool may_start_early(const Array& out) { return out.context().properties().sm_major >= 9; }

/// Of kernels that a token or a few take microseconds: what waits behind them holds little for long.
inline bool may_start_early(const Array& out, int64_t blocks) {
  constexpr int64_t kFew = 512;
  return blocks <= kFew && may_start_early(out);
}

/// How many blocks of so many threads run side by side, if threads are all they need.
inline int64_t blocks_at_once(const Array& out, int threads) {
  constexpr int kThreadsOfOneSm = 2048;
  return int64_t{kThreadsOfOneSm / threads} * runtime::current_sm_count(out.device());
}

}  // namespace gpukit::cuda
