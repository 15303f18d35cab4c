// Aligned blocks of plain memory for the host table.
#pragma once

#include <cstddef>

namespace gpukit::driver::host {

inline constexpr size_t kAlignment = 256;

/// Null when there is none left.
void* allocate_aligned(size_t bytes) noexcept;
void release_aligned(void* memory) noexcept;

}  // namespace gpukit::driver::host
