// Storage: one block of device memory with shared owners. Arrays view it; launches name it in a Use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

class Account;
class Resource;
class Residency;
class EvictionGroup;
struct ResidentRecord;

/// A block handed out by a Resource.
struct Block {
  driver::Address address = 0;
  size_t bytes = 0;            // rounded size
  void* owner_data = nullptr;  // the resource's own record
};

class Storage : public std::enable_shared_from_this<Storage> {
 public:
  /// Takes a block from `resource`, ordered on `stream`, charged to `account` (null: the root). `bytes` may be 0.
  static std::shared_ptr<Storage> allocate(Resource& resource, size_t bytes, std::shared_ptr<driver::Stream> stream,
                                           const std::shared_ptr<Account>& account = nullptr);
  /// Foreign memory (DLPack, CUDA array interface): `release` is called once, when the last owner is gone and no lock
  /// is held.
  static std::shared_ptr<Storage> adopt(driver::Context& context, driver::Address address, size_t bytes,
                                        std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  driver::Context& context() const { return *context_; }
  Device device() const { return context_->device(); }
  size_t bytes() const { return bytes_; }
  bool foreign() const { return resource_ == nullptr; }
  /// For memory/, runtime/ and jit/launch only: everyone else passes a Use. Of a managed block valid under a Hold only.
  driver::Address address() const { return block_.address; }

  /// The block may be moved to host memory to make room: its account evicts.
  bool managed() const { return record_ != nullptr; }
  /// Makes the block resident and keeps it where it is until unpin(). Gives its address. Throws OutOfMemoryError.
  driver::Address pin();
  void unpin() noexcept;
  /// The same for a block whose address is part of a graph. A group may still drop its pages (eviction_group.h).
  void graph_hold();
  void graph_release() noexcept;
  /// False while the bytes lie in host memory.
  bool resident() const;
  /// The address at this moment; none while the bytes lie in host memory.
  std::optional<driver::Address> address_now() const;
  /// A copy of the bytes while they lie in host memory; none otherwise.
  std::optional<std::string> evicted_bytes() const;
  /// Moves the bytes to host memory; waits for work that uses them. Throws Error when pinned, graph-held, in a group or
  /// not managed, OutOfMemoryError when the host side is full.
  void evict();
  void restore();
  /// Higher ones are evicted later; 0 at the start.
  void set_priority(int priority);
  int priority() const;
  /// Marks the block most recently used.
  void touch();

  /// Remembers that work on `stream` touches this block, so that its reuse waits for it. No-op on the home stream of a
  /// block that is not managed.
  void note_use(const std::shared_ptr<driver::Stream>& stream) {
    if (stream.get() != quiet_stream_) note_other_use(stream);
  }
  /// Every stream whose work may touch this block, the home stream included.
  std::vector<std::shared_ptr<driver::Stream>> streams();
  /// Copies of a transfer engine that are queued or under way: launches order themselves after them (runtime::settle).
  std::atomic<uint32_t> pending_transfers{0};

 private:
  friend class Residency;
  friend class EvictionGroup;
  Storage() = default;
  void note_other_use(const std::shared_ptr<driver::Stream>& stream);

  driver::Context* context_ = nullptr;
  Resource* resource_ = nullptr;
  Block block_;
  size_t bytes_ = 0;
  const driver::Stream* quiet_stream_ = nullptr;  // uses on it need no note
  std::unique_ptr<ResidentRecord> record_;
  std::shared_ptr<driver::Stream> home_;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::vector<std::shared_ptr<driver::Stream>> other_streams_;
  std::function<void()> release_;
};

/// Calls the release functions of foreign blocks whose work has finished; with `wait`, waits for all. No lock is held.
void run_pending_releases(bool wait);

/// One array argument of a launch: the block, where in it, and whether it is written.
struct Use {
  const std::shared_ptr<Storage>* storage = nullptr;  // null: no array, address 0
  int64_t offset_bytes = 0;
  bool write = false;
};

}  // namespace gpukit::memory
