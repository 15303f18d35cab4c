// A plain stream-ordered cache over the driver's allocator: freed blocks are kept and reused without a driver call.
#pragma once

#include <map>
#include <mutex>
#include <unordered_map>

#include "gpukit/memory/resource.h"

namespace gpukit::memory {

/// 512-byte steps up to 1 MiB, 2 MiB steps above.
size_t rounded_size(size_t bytes);

class CachingAllocator : public Resource {
 public:
  explicit CachingAllocator(driver::Context& context) : context_(context) {}
  Block allocate(size_t bytes, const std::shared_ptr<driver::Stream>& stream) override;
  void release(Block block, const std::shared_ptr<driver::Stream>& home,
               std::span<const std::shared_ptr<driver::Stream>> others) noexcept override;
  int64_t trim() override;
  ResourceStats stats() const override;

 private:
  struct FreeBlock {
    driver::Address address = 0;
    size_t bytes = 0;
    std::vector<std::unique_ptr<driver::Event>> events;     // uses on streams other than the home stream
    std::vector<std::shared_ptr<driver::Stream>> unmarked;  // such streams that were capturing: marked when it is over
  };
  struct StreamCache {
    std::shared_ptr<driver::Stream> stream;
    std::map<size_t, std::vector<FreeBlock>> blocks;
  };

  /// Marks what the streams did with the block until now. False while one of them captures.
  bool mark(FreeBlock& block);
  void release_to_driver(driver::Address address) noexcept;
  bool take(StreamCache& cache, size_t bytes, FreeBlock* block);
  bool take_from_other_stream(size_t bytes, const std::shared_ptr<driver::Stream>& stream, FreeBlock* block);
  Block hand_out(FreeBlock block, const driver::Stream& stream);
  driver::Address driver_allocate(size_t bytes);
  void store(FreeBlock block, const std::shared_ptr<driver::Stream>& home);
  int64_t trim_locked();

  driver::Context& context_;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, StreamCache> caches_;  // by stream id
  ResourceStats stats_;
};

}  // namespace gpukit::memory
