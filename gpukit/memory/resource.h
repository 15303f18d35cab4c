// Where blocks come from. The caching allocator implements this; a pool with quotas can take its place.
#pragma once

#include <span>

#include "gpukit/memory/storage.h"

namespace gpukit::memory {

struct ResourceStats {
  int64_t live_bytes = 0, cached_bytes = 0, peak_live_bytes = 0;
  int64_t allocations = 0, reuses = 0, driver_allocations = 0, driver_frees = 0, live_blocks = 0, cached_blocks = 0;
};

class Resource {
 public:
  virtual ~Resource() = default;
  /// A block that work submitted to `stream` from now on may use. Throws OutOfMemoryError.
  virtual Block allocate(size_t bytes, const std::shared_ptr<driver::Stream>& stream) = 0;
  /// Gives a block back. Later reuse waits for what `home` and `others` hold now. Never throws.
  virtual void release(Block block, const std::shared_ptr<driver::Stream>& home,
                       std::span<const std::shared_ptr<driver::Stream>> others) noexcept = 0;
  /// Returns cached blocks to the driver. May wait. Gives the number of bytes returned.
  virtual int64_t trim() = 0;
  virtual ResourceStats stats() const = 0;
};

}  // namespace gpukit::memory
