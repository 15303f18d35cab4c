// Storage: one block of device memory with shared owners. Arrays view it; launches name it in a Use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gpukit/driver/objects.h"

namespace gpukit::memory {

class Resource;

/// A block handed out by a Resource.
struct Block {
  driver::Address address = 0;
  size_t bytes = 0;            // rounded size
  void* owner_data = nullptr;  // the resource's own record
};

class Storage {
 public:
  /// Takes a block from `resource`, ordered on `stream`. `bytes` may be 0.
  static std::shared_ptr<Storage> allocate(Resource& resource, size_t bytes, std::shared_ptr<driver::Stream> stream);
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
  /// For memory/, runtime/ and jit/launch only: everyone else passes a Use.
  driver::Address address() const { return block_.address; }

  /// Remembers that work on `stream` touches this block, so that its reuse waits for it. No-op on the home stream.
  void note_use(const std::shared_ptr<driver::Stream>& stream) {
    if (stream.get() != home_.get()) note_foreign_use(stream);
  }
  /// Every stream whose work may touch this block, the home stream included.
  std::vector<std::shared_ptr<driver::Stream>> streams();

 private:
  Storage() = default;
  void note_foreign_use(const std::shared_ptr<driver::Stream>& stream);

  driver::Context* context_ = nullptr;
  Resource* resource_ = nullptr;
  Block block_;
  size_t bytes_ = 0;
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
