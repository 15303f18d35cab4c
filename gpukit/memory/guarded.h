// Debug mode: every block is a driver allocation of its own between guard bytes, filled with a pattern, never reused.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpukit/memory/account.h"
#include "gpukit/memory/fence.h"
#include "gpukit/memory/resource.h"

namespace gpukit::memory {

class GuardedBlocks {
 public:
  static constexpr size_t kGuardBytes = 256;
  static constexpr uint8_t kGuard = 0xa5, kPoison = 0xcd;

  explicit GuardedBlocks(driver::Context& context) : context_(context) {}

  /// False: the driver has no memory left, or *wall forbids it. Without `stream` the block is filled when this returns.
  bool allocate(size_t bytes, const driver::Stream* stream, const std::shared_ptr<Account>& account, Block* block,
                Account** wall);
  /// Waits for the streams, checks the guards and frees. During a capture of one of them: at the next call after it.
  void release(Block block, const std::shared_ptr<driver::Stream>& home,
               std::span<const std::shared_ptr<driver::Stream>> others) noexcept;
  void collect() noexcept;
  void add_to(ResourceStats* stats) const;
  /// Throws Error with what was found since the last call.
  void raise_faults();

 private:
  struct Record {
    driver::Address base = 0;
    size_t bytes = 0;
    std::shared_ptr<Account> account;
    std::vector<std::shared_ptr<driver::Stream>> streams;
  };
  bool finish(Record& record) noexcept;
  std::string damage(const Record& record);

  driver::Context& context_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Record>> later_;
  std::vector<std::string> faults_;
  int64_t live_bytes_ = 0, peak_ = 0, live_blocks_ = 0, allocations_ = 0, frees_ = 0;
};

}  // namespace gpukit::memory
