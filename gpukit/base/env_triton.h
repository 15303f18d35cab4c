// The environment variable of the Triton interface. Read as those of env.h.
#pragma once

#include <optional>

namespace gpukit::env {

/// PYGPUKIT_USE_TRITON: whether programs that have both ways use Triton's kernels; nullopt when unset.
std::optional<bool> use_triton();

}  // namespace gpukit::env
