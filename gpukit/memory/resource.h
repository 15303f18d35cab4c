// Where blocks come from.
#pragma once

#include <span>

#include "gpukit/memory/account.h"
#include "gpukit/memory/storage.h"

namespace gpukit::memory {

class Residency;

struct ResourceStats {
  int64_t live_bytes = 0, cached_bytes = 0, peak_live_bytes = 0;
  int64_t allocations = 0, reuses = 0, live_blocks = 0, cached_blocks = 0;
  /// Calls that take memory from the driver or give it back: blocks or page handles.
  int64_t driver_allocations = 0, driver_frees = 0;
  bool virtual_memory = false;                          // large blocks are ranges of pages
  int64_t reserved_bytes = 0, peak_reserved_bytes = 0;  // taken from the driver
  int64_t retained_bytes = 0, retained_limit = 0;       // of them in wholly free pages
  int64_t slab_bytes = 0, slabs = 0;                    // of them in slabs of small blocks
  int64_t mappings = 0;                                 // pages mapped at an address
  int64_t trims = 0, waits = 0, wait_ns = 0;            // host waits of the slow paths
  int64_t evictions = 0, restores = 0;
  int64_t evicted_bytes = 0, host_bytes = 0, host_limit = 0;  // host side of eviction: used, page-locked, allowed
};

class Resource {
 public:
  virtual ~Resource() = default;
  /// A block that work submitted to `stream` from now on may use, charged to `account` (null: the root).
  /// Throws OutOfMemoryError.
  virtual Block allocate(size_t bytes, const std::shared_ptr<driver::Stream>& stream,
                         const std::shared_ptr<Account>& account) = 0;
  /// Gives a block back. Later reuse waits for what `home` and `others` hold now. Never throws.
  virtual void release(Block block, const std::shared_ptr<driver::Stream>& home,
                       std::span<const std::shared_ptr<driver::Stream>> others) noexcept = 0;
  /// Returns cached blocks to the driver. May wait. Gives the number of bytes returned.
  virtual int64_t trim() = 0;
  virtual ResourceStats stats() const = 0;
  /// What moves blocks to host memory and back; null: nothing does.
  virtual Residency* residency() { return nullptr; }
};

}  // namespace gpukit::memory
