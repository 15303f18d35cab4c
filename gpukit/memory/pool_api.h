// MemoryPool: blocks by number under a quota, over real memory of a device. Each pool is an account of its own.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/memory/pool.h"
#include "gpukit/memory/storage.h"

namespace gpukit::memory {

/// A block as it is now.
struct PoolBlock {
  uint64_t id = 0;
  size_t size = 0;
  std::optional<uint64_t> pointer;  // what the caller set, see set_device_ptr
  std::weak_ptr<Storage> storage;
  bool on_gpu = true, on_host = false;
  double last_access = 0;  // seconds since 1970

  /// Hands the address out: from now on the block is never evicted. None while it lies in host memory or is freed.
  std::optional<uint64_t> device_ptr() const;
};

/// `used`: device bytes of live blocks as handed out. `cached`: device bytes kept for reuse; they are given up when
/// room is needed, so `available` is quota - used. `cudamalloc_count`: blocks that were not reused.
struct MemoryPoolStats {
  size_t quota = 0, used = 0, cached = 0, available = 0;
  int64_t allocation_count = 0, reuse_count = 0, eviction_count = 0, cudamalloc_count = 0;
  int64_t active_blocks = 0, free_blocks = 0;
};

/// Thread-safe. Used + cached never exceed the quota. Methods that take an id throw ArgumentError for an unknown one.
class MemoryPool {
 public:
  /// What allocate() rounds to; larger requests go to a whole MiB. The device's pool has finer classes.
  static constexpr size_t kSizeClasses[] = {256,     1 << 10, 4 << 10,  16 << 10, 64 << 10, 256 << 10,
                                            1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20};
  static size_t size_class(size_t size);

  /// With `eviction`, the least recently used blocks go to host memory to make room. Throws ArgumentError for quota 0.
  MemoryPool(Pool& pool, std::shared_ptr<driver::Stream> stream, size_t quota, bool eviction, std::string name);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  const std::shared_ptr<Account>& account() const { return account_; }
  Device device() const { return account_->device(); }
  bool eviction() const { return account_->eviction(); }
  size_t quota() const { return account_->quota(); }
  size_t used() const { return sum(&Account::live_bytes); }
  size_t cached() const { return sum(&Account::cached_bytes); }
  size_t available() const;

  /// The number of a new block of size_class(size) bytes; the first is 0. Throws OutOfMemoryError.
  uint64_t allocate(size_t size);
  void free(uint64_t id);
  void touch(uint64_t id);
  /// To host memory and back; the bytes stay. Throw OutOfMemoryError when the other side is full, Error when the
  /// block's address was handed out.
  void evict(uint64_t id);
  void restore(uint64_t id);
  /// Copies bytes; an evicted block is restored first. Throw ArgumentError when they do not fit, Error in a capture.
  void write(uint64_t id, const void* data, size_t bytes);
  void read(uint64_t id, void* data, size_t bytes);
  std::optional<PoolBlock> get_block(uint64_t id) const;
  MemoryPoolStats stats() const;
  /// Drops all blocks and what is cached for them.
  void clear();

  /// A pointer and bytes the caller keeps beside a block; the pool itself uses neither.
  void set_device_ptr(uint64_t id, std::optional<uint64_t> pointer);
  void set_host_data(uint64_t id, std::string bytes);
  void clear_host_data(uint64_t id);
  /// What was set, else the bytes of an evicted block, else none.
  std::optional<std::string> get_host_data(uint64_t id);

 private:
  /// Over its account and those below it.
  size_t sum(size_t (Account::*bytes)() const) const;
  struct Entry {
    std::shared_ptr<Storage> storage;
    size_t size = 0;
    double last_access = 0;
    std::optional<uint64_t> pointer;
    std::optional<std::string> host_data;
  };
  struct All;
  Entry& find(const char* op, uint64_t id);
  std::shared_ptr<Storage> used_now(const char* op, uint64_t id);
  void copy(const char* op, uint64_t id, void* host, size_t bytes, bool in);

  Pool& pool_;
  const std::shared_ptr<driver::Stream> stream_;
  const std::shared_ptr<Account> account_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Entry> blocks_;
  uint64_t next_id_ = 0;
};

/// The pool that arrays of its device allocate from where no session says otherwise; null: none.
void set_default_pool(std::shared_ptr<MemoryPool> pool);
std::shared_ptr<MemoryPool> default_pool();
/// Its account, when it is of `device`.
std::shared_ptr<Account> default_account(Device device);

}  // namespace gpukit::memory
