// Hold: the blocks of one launch, made resident and kept in place until it is submitted. All of them or none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "gpukit/memory/storage.h"

namespace gpukit::memory {

/// Managed blocks of the process: without any no Hold ever waits.
extern std::atomic<int64_t> g_managed_blocks;

/// Storage::address() of the uses is valid while it lives. `uses` must outlive it. Holds are short (until the work is
/// submitted and noted) and never nested in one thread.
class Hold {
 public:
  /// Restores what was evicted; may wait then. Throws OutOfMemoryError when the uses do not fit together; nothing is
  /// lost.
  explicit Hold(std::span<const Use> uses) : uses_(uses) {
    for (const Use& use : uses) {
      if (use.storage != nullptr && (*use.storage)->managed()) [[unlikely]] {
        take();
        return;
      }
    }
  }
  ~Hold() {
    if (taken_) [[unlikely]]
      give();
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  void take();
  void give() noexcept;
  std::span<const Use> uses_;
  bool taken_ = false;
};

/// Keeps one block resident and in place for as long as it lives, e.g. while another library knows its address.
class Pin {
 public:
  Pin() = default;
  explicit Pin(std::shared_ptr<Storage> storage) : storage_(std::move(storage)), address_(storage_->pin()) {}
  ~Pin() {
    if (storage_ != nullptr) storage_->unpin();
  }
  Pin(Pin&& other) noexcept : storage_(std::move(other.storage_)), address_(other.address_) {}
  Pin& operator=(Pin&& other) noexcept {
    std::swap(storage_, other.storage_);
    std::swap(address_, other.address_);
    return *this;
  }
  driver::Address address() const { return address_; }

 private:
  std::shared_ptr<Storage> storage_;
  driver::Address address_ = 0;
};

}  // namespace gpukit::memory
