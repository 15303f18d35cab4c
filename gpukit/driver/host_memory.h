// Aligned blocks of plain memory for the host table.
#pragma once

#include <cstddef>

namespace gpukit::driver::host {

inline constexpr size_t kAlignment = 256;

/// Null when there is none left.
void* allocate_aligned(size_t bytes) noexcept;
void release_aligned(void* memory) noexcept;
/// Whole pages inside go back to the system, which puts fresh ones there when they are used.
void discard(void* memory, size_t bytes) noexcept;

}  // namespace gpukit::driver::host
