// The living objects of a class, so that a snapshot of the process finds them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "gpukit/base/files.h"

namespace gpukit::scheduler {

/// The last member of its owner: listed while the owner can be read.
template <typename T>
class Listed {
 public:
  explicit Listed(T& owner) : list_(&current()) {
    std::lock_guard lock(list_->mutex);
    number_ = ++list_->last;
    list_->owners.emplace(number_, &owner);
  }
  ~Listed() {
    // In a forked child the parent's lock may be taken for good.
    if (list_->generation != files::fork_generation()) return;
    std::lock_guard lock(list_->mutex);
    list_->owners.erase(number_);
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

  /// From 1, in the order of making.
  uint64_t number() const { return number_; }

  /// Calls `function(number, owner)` for each, in the order of making. Destruction of any of them waits meanwhile, so
  /// it must be short, and must neither make nor destroy one.
  template <typename F>
  static void each(F&& function) {
    List& list = current();
    std::lock_guard lock(list.mutex);
    for (const auto& [number, owner] : list.owners) function(number, *owner);
  }

 private:
  struct List {
    explicit List(uint64_t of) : generation(of) {}
    const uint64_t generation;  // of the process
    std::mutex mutex;
    uint64_t last = 0;
    std::map<uint64_t, T*> owners;
  };
  static List& current() {
    static std::atomic<List*> known{nullptr};
    List* seen = known.load(std::memory_order_acquire);
    const uint64_t generation = files::fork_generation();
    while (seen == nullptr || seen->generation != generation) {
      auto* fresh = new List(generation);
      if (known.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return *fresh;
      delete fresh;
    }
    return *seen;
  }

  List* const list_;  // never freed
  uint64_t number_ = 0;
};

}  // namespace gpukit::scheduler
