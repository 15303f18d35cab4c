// Who touched which byte: finds accesses out of bounds, reads of what nobody wrote and races.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/emulator/launch.h"

namespace emulator {

/// Shared memory lies in one arena, the blocks of a cluster one after the other: from kDynamicStart on what the launch
/// asked for, then static objects. Descriptors of products have 18 bits for an address in a block.
inline constexpr size_t kDynamicStart = 1024, kBlockBytes = 256 * 1024, kMaxBlocks = 16;
inline constexpr size_t kArenaBytes = kBlockBytes * kMaxBlocks;
unsigned char* arena();

/// A new launch with this memory. `strict`: also finds reads of shared memory that nobody wrote, and races of
/// reads and writes of one block in global memory. Kernels may do both, with values they do not use.
/// `early`: it may have started before the kernel before it ended, and touches no global memory until it has waited.
void begin_launch(std::vector<Range> ranges, unsigned shared_bytes, bool strict, bool early);
/// The running thread has waited for the kernel before.
void note_previous_ended();
/// Fails where the running thread cannot know that the kernel before has ended.
void check_previous_ended(const char* what);
/// A new block, or the blocks of a cluster: their shared memory is unwritten, and all ones.
void begin_block(int threads, int blocks);
/// What is written in between is one box of a copy.
void begin_box();
void end_box();
/// Whether `b` was written by the box that wrote `a`, if one did. `strict`: always.
bool same_box(const void* a, const void* b);
/// Whether all that was written to these bytes of the arena comes before what the thread does now.
bool is_settled(const void* p, size_t bytes);
/// All accesses before are ordered before all later ones of the block.
void order_block();
/// The same between lanes of a warp.
void order_lanes(int warp, uint32_t lanes);
/// From here on any thread may be ordered after any other, by release and acquire in threads.h.
void order_threads();
/// `bytes` of the arena from `offset` on are an object now.
void declare_shared(size_t offset, size_t bytes);

/// Accesses by this thread of the cluster are checked; below 0 none are.
void set_current_thread(int thread);
/// See leave_unchecked in launch.h, which takes the lock.
void add_unchecked(Range range);

}  // namespace emulator
