// The memory pool of one device: small blocks in slabs, large ones in ranges of pages, reused in stream order.
#pragma once

#include <memory>

#include "gpukit/memory/account.h"
#include "gpukit/memory/resource.h"

namespace gpukit::memory {

class PoolState;

struct PoolConfig {
  enum class Pages : uint8_t { automatic, off, on };
  /// Large blocks as ranges of pages where the device can. Automatic: on for GPUs; on the CPU pages that can be mapped
  /// twice would be shared with forked children.
  Pages pages = Pages::automatic;
  /// The most bytes kept in wholly free pages; 0: half of the device's memory.
  size_t max_retained = 0;
  /// What may be kept beyond the peak of live bytes, however low that is; 0: a 256th of the device's memory.
  size_t min_spare = 0;
  /// The most page-locked host bytes for evicted blocks; 0: half of the machine's memory.
  size_t host_limit = 0;
  /// No reuse, guard bytes, poison: every block is a driver allocation of its own.
  bool debug = false;
  /// Lets go of blocks that are kept for later calls alone and are charged to `scope` or below (null: all). False:
  /// there was none. Asked by trim and forget, and before memory is refused; no lock is held.
  bool (*reclaim)(const driver::Context& context, const Account* scope) noexcept = nullptr;
};

class Pool final : public Resource {
 public:
  explicit Pool(driver::Context& context, const PoolConfig& config = {});
  ~Pool() override;  // returns what is free; every block must have been released

  driver::Context& context() const;
  const PoolConfig& config() const;
  /// What everything of this device is charged to; no quota at the start.
  const std::shared_ptr<Account>& root() const;

  Block allocate(size_t bytes, const std::shared_ptr<driver::Stream>& stream,
                 const std::shared_ptr<Account>& account = nullptr) override;
  void release(Block block, const std::shared_ptr<driver::Stream>& home,
               std::span<const std::shared_ptr<driver::Stream>> others) noexcept override;
  int64_t trim() override;
  /// Lets go of what is cached for `account` and below: it is charged no more and free for every one.
  void forget(const Account& account);
  ResourceStats stats() const override;
  /// How many times the pool itself holds `stream`, but for work that it waits for.
  long num_lanes(const driver::Stream& stream) const;
  Residency* residency() override;
  /// Throws Error when a freed block was found damaged since the last call (debug mode). Called after every wait.
  void raise_faults();

 private:
  std::unique_ptr<PoolState> state_;
};

}  // namespace gpukit::memory
