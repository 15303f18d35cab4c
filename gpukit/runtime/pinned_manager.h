// Page-locked blocks by id: sizes, limits, reuse. Bookkeeping only: the caller page-locks memory and registers it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpukit/base/clock.h"

namespace gpukit::runtime {

struct PinnedPoolConfig {
  int64_t max_size = int64_t{1} << 30;
  bool enable_pooling = true;
  int64_t alignment = 256;

  /// Throws ArgumentError.
  void check() const;
  /// 4 KiB, 64 KiB, 256 KiB, 1, 4, 16, 64, 256 MiB; larger sizes are rounded up to the alignment.
  int64_t size_class(int64_t bytes) const;
};

struct PinnedBlock {
  uint64_t id = 0, address = 0;
  int64_t bytes = 0;  // of its class, or as registered
  bool in_use = true;
  std::optional<std::string> task_id;
  int64_t allocated_ns = 0, last_access_ns = 0;
};

struct PinnedStats {
  int64_t total_allocated = 0;  // bytes taken by allocate() that were not reused, so far
  int64_t current_used = 0, peak_used = 0;
  int64_t total_allocations = 0, total_frees = 0, pool_hits = 0, pool_misses = 0;
  int64_t pool_size = 0, pooled_blocks = 0;  // bytes and blocks kept for reuse
  double hit_rate() const;
};

/// Ids count from 0. Bytes in use and bytes kept for reuse together stay within max_size. Thread-safe.
class PinnedManager {
 public:
  explicit PinnedManager(PinnedPoolConfig config = {}, Clock& clock = real_clock());

  struct Allocation {
    uint64_t id = 0;
    int64_t bytes = 0;  // the size class
    bool reused = false;
  };
  bool can_allocate(int64_t bytes) const;
  /// A kept block of the class, else an entry the caller has to page-lock memory for and register.
  /// Throws OutOfMemoryError over the limit.
  Allocation allocate(int64_t bytes);
  /// Where the memory of `id` is. Throws ArgumentError for an unknown id, a null address or a size over the limit.
  void register_block(uint64_t id, uint64_t address, int64_t bytes);

  struct Freed {
    bool should_free = false;  // the caller releases the memory at `address`
    uint64_t address = 0;
  };
  /// Throws ArgumentError for an unknown id.
  Freed free(uint64_t id);
  void associate_task(uint64_t id, std::string task_id);
  void touch(uint64_t id);
  std::optional<PinnedBlock> find(uint64_t id) const;
  std::vector<uint64_t> blocks_of_task(const std::string& task_id) const;
  std::vector<Freed> free_task_blocks(const std::string& task_id);
  PinnedStats stats() const;
  const PinnedPoolConfig& config() const { return config_; }
  int64_t active_count() const;
  /// Gives up what is kept for reuse; the addresses to release.
  std::vector<uint64_t> clear_pool();
  /// Gives up everything.
  std::vector<uint64_t> clear();

 private:
  bool fits(int64_t bytes) const;
  PinnedBlock& at(const char* op, uint64_t id);
  Freed free_locked(uint64_t id);

  const PinnedPoolConfig config_;
  Clock& clock_;
  mutable std::mutex mutex_;
  uint64_t next_id_ = 0;
  std::map<uint64_t, PinnedBlock> blocks_;
  std::map<int64_t, std::vector<uint64_t>> pool_;  // addresses by bytes
  PinnedStats stats_;
};

}  // namespace gpukit::runtime
