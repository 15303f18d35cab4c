// Accounts: quota walls and what is charged to them. An account charges its parent too, up to the device's root.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpukit/base/device.h"

namespace gpukit::memory {

class PoolState;
class GuardedBlocks;
class Residency;

struct AccountStats {
  std::string name, parent;  // parent: empty for a root
  Device device;
  bool eviction = false;
  size_t quota = 0;  // 0: no limit
  // Charged = live + cached + what was charged by try_charge alone. Children are included, each with at least what is
  // kept for it.
  size_t charged_bytes = 0, peak_charged_bytes = 0;
  // Of blocks of this very account, rounded as handed out. Evicted bytes lie in host memory and are not charged.
  size_t live_bytes = 0, peak_live_bytes = 0, cached_bytes = 0, evicted_bytes = 0;
  int64_t live_blocks = 0, cached_blocks = 0, evicted_blocks = 0;
  int64_t allocations = 0, reuses = 0, evictions = 0, restores = 0, refusals = 0;
};

/// Quota bytes = live rounded bytes + bytes cached for this account, its children included. Thread-safe.
class Account : public std::enable_shared_from_this<Account> {
 public:
  /// `quota` 0: no limit. With `eviction`, blocks allocated from now on may be moved to host memory to make room.
  /// A child's device must be its parent's. Throws ArgumentError.
  static std::shared_ptr<Account> create(std::string name, Device device, size_t quota = 0, bool eviction = false,
                                         std::shared_ptr<Account> parent = nullptr);
  ~Account();
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const { return name_; }
  Device device() const { return device_; }
  const std::shared_ptr<Account>& parent() const { return parent_; }
  size_t quota() const { return quota_.load(std::memory_order_relaxed); }
  /// May go below what is charged: nothing new is admitted then until enough was freed.
  void set_quota(size_t bytes) { quota_.store(bytes, std::memory_order_relaxed); }
  bool eviction() const { return eviction_.load(std::memory_order_relaxed); }
  /// Counts for blocks allocated from now on.
  void set_eviction(bool on) { eviction_.store(on, std::memory_order_relaxed); }
  /// Blocks allocated from now on may be moved to host memory by hand (Storage::evict), also without `eviction`.
  bool movable() const { return eviction() || movable_.load(std::memory_order_relaxed); }
  void set_movable(bool on) { movable_.store(on, std::memory_order_relaxed); }
  /// Nothing is cached for it from now on: what is freed is charged no more. Call Pool::forget for what already is.
  void close() { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  /// The most host bytes that evicted blocks of this account may take; 0: the pool's limit alone.
  size_t host_limit() const { return host_limit_.load(std::memory_order_relaxed); }
  void set_host_limit(size_t bytes) { host_limit_.store(bytes, std::memory_order_relaxed); }

  /// Charges this account and every one above it, or none. Null on success, else the account whose quota forbids it.
  /// No account is above its quota at any instant because of a charge.
  Account* try_charge(size_t bytes) noexcept;
  /// Takes back what was charged before.
  void uncharge(size_t bytes) noexcept;
  /// Keeps `bytes` for this account: from now on those above are charged with the larger of that and what is charged
  /// here. Null on success, else the account whose quota forbids it; nothing has changed then. The first call must come
  /// before anything is charged.
  Account* try_keep(size_t bytes) noexcept;
  size_t kept() const { return kept_.load(std::memory_order_relaxed); }
  size_t charged() const { return charged_.load(std::memory_order_relaxed); }
  size_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  size_t cached_bytes() const { return cached_bytes_.load(std::memory_order_relaxed); }
  size_t evicted_bytes() const { return evicted_bytes_.load(std::memory_order_relaxed); }
  /// What may still be charged here, by this quota and those above; SIZE_MAX: no limit.
  size_t available() const noexcept;
  /// This account, or one below it.
  bool contains(const Account& other) const noexcept;
  AccountStats stats() const;

 private:
  friend class PoolState;
  friend class GuardedBlocks;
  friend class Residency;
  struct Key {};

 public:
  Account(Key, std::string name, Device device, size_t quota, bool eviction, std::shared_ptr<Account> parent);

 private:
  // Written by one thread at a time (the pool's lock is held), read by any.
  template <typename T>
  static void bump(std::atomic<T>& value, std::type_identity_t<T> by) {
    value.store(value.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void note_live(size_t bytes) {
    bump(live_bytes_, bytes);
    bump(live_blocks_, 1);
    const size_t live = live_bytes_.load(std::memory_order_relaxed);
    if (live > peak_live_.load(std::memory_order_relaxed)) peak_live_.store(live, std::memory_order_relaxed);
  }
  void note_dead(size_t bytes) {
    bump(live_bytes_, size_t{0} - bytes);
    bump(live_blocks_, -1);
  }
  void note_cached(size_t bytes) {
    bump(cached_bytes_, bytes);
    bump(cached_blocks_, 1);
  }
  void note_uncached(size_t bytes) {
    bump(cached_bytes_, size_t{0} - bytes);
    bump(cached_blocks_, -1);
  }

  const std::string name_;
  const Device device_;
  const std::shared_ptr<Account> parent_;
  std::mutex keep_mutex_;           // taken once something was kept, also over the charge of the parent
  std::atomic<bool> keeps_{false};  // try_keep was called
  std::atomic<size_t> kept_{0};
  std::atomic<size_t> quota_, host_limit_{0};
  std::atomic<bool> eviction_, movable_{false}, closed_{false};
  std::atomic<size_t> charged_{0}, peak_charged_{0};
  std::atomic<size_t> live_bytes_{0}, peak_live_{0}, cached_bytes_{0}, evicted_bytes_{0};
  std::atomic<int64_t> live_blocks_{0}, cached_blocks_{0}, evicted_blocks_{0};
  std::atomic<int64_t> allocations_{0}, reuses_{0}, evictions_{0}, restores_{0}, refusals_{0};
};

/// Every account of the process, in the order of their making.
std::vector<std::shared_ptr<Account>> accounts();
std::vector<std::shared_ptr<Account>> accounts(Device device);

}  // namespace gpukit::memory
