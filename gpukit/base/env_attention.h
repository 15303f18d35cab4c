// The environment variables of attention. Read as those of env.h.
#pragma once

#include <optional>

namespace gpukit::env {

/// PYGPUKIT_FLASH_DECODING: whether the keys of few queries are cut among blocks; nullopt: where that pays.
std::optional<bool> flash_decoding();

}  // namespace gpukit::env
