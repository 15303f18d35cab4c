// Memory that a launch works in: one block for each stream, whose work runs in order and may share it. Another thread's
// launch may come between two of one call: what these hand to each other lies in a call_room.
#pragma once

#include <cstddef>
#include <memory>

#include "gpukit/driver/objects.h"
#include "gpukit/memory/storage.h"

namespace gpukit::runtime {

/// One size for all: what cuBLASLt recommends for Hopper. Nothing that is chosen depends on what is left.
inline constexpr size_t kWorkspaceBytes = size_t{32} << 20;

/// The memory of `stream`. A capture has memory of its own, made before it began, for the stream it began on. Null:
/// there is none, and none may or can be made.
std::shared_ptr<memory::Storage> workspace(const std::shared_ptr<driver::Stream>& stream);
/// From now on every capture of this context has such memory.
void keep_workspaces_for_captures(const driver::Context& context);
/// For tests: lets go of all, and no capture has any.
void reset_workspaces();

}  // namespace gpukit::runtime
