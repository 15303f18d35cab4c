// Memory that can be seen at several addresses at once, and addresses without memory: what the system gives to the
// host table's pages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpukit::driver::host {

inline constexpr size_t kPageBytes = size_t{2} << 20;

/// Bytes of a file that lives in memory only. They take room when they are first touched.
struct PageBlock {
  int file = -1;
  int64_t offset = 0;
  size_t bytes = 0;
};

enum class PageAccess : uint8_t { none, read, read_write };

/// Whether this system has all of it.
bool pages_supported() noexcept;

// Each of these is false or null when the system refuses.

bool create_block(size_t bytes, PageBlock* block) noexcept;
void release_block(const PageBlock& block) noexcept;
/// Starts at a multiple of `alignment`, a power of two.
void* reserve_addresses(size_t bytes, size_t alignment) noexcept;
void release_addresses(void* address, size_t bytes) noexcept;
/// Shows the first bytes of the block at an address inside a reservation.
bool show_block(void* address, size_t bytes, const PageBlock& block, PageAccess access) noexcept;
/// Makes it a bare reservation again.
bool hide_block(void* address, size_t bytes) noexcept;

// Blocks are shared with a forked child. There, after leave_files, all are copied, then the parent's are forgotten.

void leave_files() noexcept;
bool copy_block(const PageBlock& from, PageBlock* to) noexcept;
/// Shows the parent's block without ever changing it; for a child that could not copy it.
void show_private(void* address, size_t bytes, const PageBlock& block) noexcept;
void forget_block(const PageBlock& block) noexcept;

}  // namespace gpukit::driver::host
