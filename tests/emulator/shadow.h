// Who touched which byte: finds accesses out of bounds, reads of what nobody wrote and races.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/emulator/launch.h"

namespace emulator {

/// Shared memory lies in one arena: static objects, then, from kDynamicStart on, what the launch asked for.
inline constexpr size_t kDynamicStart = 64 * 1024, kArenaBytes = 512 * 1024;
unsigned char* arena();

/// A new launch with this memory. `strict`: also finds reads of shared memory that nobody wrote, and races of
/// reads and writes of one block in global memory. Kernels may do both, with values they do not use.
void begin_launch(std::vector<Range> ranges, unsigned shared_bytes, bool strict);
/// A new block: its shared memory is unwritten, and all ones.
void begin_block(int threads);
/// All accesses before are ordered before all later ones of the block.
void order_block();
/// The same between lanes of a warp.
void order_lanes(int warp, uint32_t lanes);
/// `bytes` of the arena from `offset` on are an object now.
void declare_shared(size_t offset, size_t bytes);

/// Accesses by this thread of the block are checked; below 0 none are.
void set_current_thread(int thread);
/// See leave_unchecked in launch.h, which takes the lock.
void add_unchecked(Range range);

}  // namespace emulator
