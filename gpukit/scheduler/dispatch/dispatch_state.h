// Life-cycle of a launch.
#pragma once

#include <cstdint>

namespace gpukit::scheduler {

enum class KernelState : uint8_t { queued, launched, completed, failed, cancelled };

inline bool is_terminal(KernelState state) { return state >= KernelState::completed; }
/// Queued, Launched, ...
const char* name(KernelState state);

}  // namespace gpukit::scheduler
