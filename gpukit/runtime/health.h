// Health of one device: the last launches, and whether an error has made its context unusable.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace gpukit::runtime {

class Health {
 public:
  /// Throws DeviceError when the context is dead.
  void check() const {
    if (dead_.load(std::memory_order_relaxed)) raise_dead();
  }
  /// `name` must live for the process or until the kernel's library is gone; only the pointer is kept.
  void note_launch(const char* name) {
    // Two threads may take one slot: a name of the list is lost, the launch path keeps a locked instruction less.
    const uint32_t next = next_.load(std::memory_order_relaxed);
    next_.store(next + 1, std::memory_order_relaxed);
    recent_[next % kRecent].store(name, std::memory_order_relaxed);
  }
  /// Marks the context dead when `code` is sticky. Always returns the launches before it, newest first.
  std::string note_error(int code, const std::string& text);
  bool dead() const { return dead_.load(std::memory_order_relaxed); }
  std::string recent_launches() const;

 private:
  [[noreturn]] void raise_dead() const;
  static constexpr int kRecent = 8;
  std::atomic<bool> dead_{false};
  std::atomic<uint32_t> next_{0};
  std::atomic<const char*> recent_[kRecent] = {};
  mutable std::mutex mutex_;
  std::string cause_;
};

}  // namespace gpukit::runtime
