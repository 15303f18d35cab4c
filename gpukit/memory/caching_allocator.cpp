#include "gpukit/memory/caching_allocator.h"

#include <algorithm>
#include <iterator>

#include "gpukit/base/error.h"

namespace gpukit::memory {

namespace {

constexpr size_t kSmallStep = 512;
constexpr size_t kLargeStep = size_t{2} << 20;
constexpr size_t kSmallLimit = size_t{1} << 20;

// A cached block may be this much larger than asked before a fresh one is preferred.
size_t largest_fit(size_t bytes) { return bytes <= kSmallLimit ? bytes * 2 : bytes + bytes / 4; }

// Asks the driver: a stream joins a capture by waiting for an event, before anything is submitted to it.
bool capturing(const driver::Stream& stream) {
  return stream.api().capture_info(stream.handle()).status != driver::CaptureStatus::none;
}

std::unique_ptr<driver::Event> record_on(const driver::Stream& stream) {
  auto event = std::make_unique<driver::Event>(stream.context());
  event->record(stream);
  return event;
}

}  // namespace

size_t rounded_size(size_t bytes) {
  size_t step = bytes <= kSmallLimit ? kSmallStep : kLargeStep;
  return (bytes + step - 1) / step * step;
}

Block CachingAllocator::allocate(size_t bytes, const std::shared_ptr<driver::Stream>& stream) {
  const size_t rounded = rounded_size(bytes);
  std::lock_guard lock(mutex_);
  ++stats_.allocations;
  FreeBlock block;
  auto own = caches_.find(stream->id());
  bool hit = own != caches_.end() && take(own->second, rounded, &block);
  if (!hit) hit = take_from_other_stream(rounded, stream, &block);
  if (hit) {
    ++stats_.reuses;
    stats_.cached_bytes -= static_cast<int64_t>(block.bytes);
    --stats_.cached_blocks;
  } else {
    block.address = driver_allocate(rounded);
    block.bytes = rounded;
  }
  return hand_out(std::move(block), *stream);
}

bool CachingAllocator::mark(FreeBlock& block) {
  while (!block.unmarked.empty()) {
    if (capturing(*block.unmarked.back())) return false;
    block.events.push_back(record_on(*block.unmarked.back()));
    block.unmarked.pop_back();
  }
  return true;
}

bool CachingAllocator::take(StreamCache& cache, size_t bytes, FreeBlock* block) {
  auto it = cache.blocks.lower_bound(bytes);
  if (it == cache.blocks.end() || it->first > largest_fit(bytes)) return false;
  auto& list = it->second;
  auto usable = std::find_if(list.rbegin(), list.rend(), [&](FreeBlock& b) { return b.unmarked.empty() || mark(b); });
  if (usable == list.rend()) return false;
  std::swap(*usable, list.back());
  *block = std::move(list.back());
  list.pop_back();
  if (list.empty()) cache.blocks.erase(it);
  return true;
}

bool CachingAllocator::take_from_other_stream(size_t bytes, const std::shared_ptr<driver::Stream>& stream,
                                              FreeBlock* block) {
  for (auto& [id, cache] : caches_) {
    if (id == stream->id() || capturing(*cache.stream)) continue;
    if (cache.blocks.lower_bound(bytes) == cache.blocks.end()) continue;
    // An event recorded now covers everything the home stream did with the block.
    auto event = record_on(*cache.stream);
    if (!take(cache, bytes, block)) continue;
    block->events.push_back(std::move(event));
    return true;
  }
  return false;
}

Block CachingAllocator::hand_out(FreeBlock block, const driver::Stream& stream) {
  try {
    for (const auto& event : block.events) stream.wait(*event);
  } catch (...) {
    // Unordered with its earlier uses the block cannot be reused; the driver frees only after all its work.
    release_to_driver(block.address);
    throw;
  }
  stats_.live_bytes += static_cast<int64_t>(block.bytes);
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  ++stats_.live_blocks;
  return {block.address, block.bytes, nullptr};
}

driver::Address CachingAllocator::driver_allocate(size_t bytes) {
  const driver::Api& api = context_.api();
  context_.make_current();  // taking a block may have touched another device
  int64_t trimmed = 0;
  for (int attempt = 0;; ++attempt) {
    try {
      driver::Address address = api.allocate(bytes);
      ++stats_.driver_allocations;
      return address;
    } catch (const CudaError& error) {
      if (error.code != driver::kErrorOutOfMemory) throw;
      if (attempt == 0 && stats_.cached_bytes > 0) {
        trimmed = trim_locked();
        continue;
      }
      size_t free_bytes = 0, total_bytes = 0;
      api.memory_info(&free_bytes, &total_bytes);
      throw OutOfMemoryError(str(context_.device()) + ": out of memory: asked " + std::to_string(bytes) + " bytes; " +
                                 std::to_string(stats_.live_bytes) + " in use in " +
                                 std::to_string(stats_.live_blocks) + " blocks, " + std::to_string(free_bytes) +
                                 " of " + std::to_string(total_bytes) + " free on the device; tried reuse and trim (" +
                                 std::to_string(trimmed) + " bytes returned)",
                             static_cast<int64_t>(bytes), stats_.live_bytes, static_cast<int64_t>(total_bytes));
    }
  }
}

void CachingAllocator::release(Block block, const std::shared_ptr<driver::Stream>& home,
                               std::span<const std::shared_ptr<driver::Stream>> others) noexcept {
  std::lock_guard lock(mutex_);
  stats_.live_bytes -= static_cast<int64_t>(block.bytes);
  --stats_.live_blocks;
  FreeBlock freed{block.address, block.bytes, {}, {}};
  try {
    for (const auto& stream : others) {
      if (capturing(*stream))
        freed.unmarked.push_back(stream);
      else
        freed.events.push_back(record_on(*stream));
    }
    store(std::move(freed), home);
  } catch (...) {
    // No event could be made to order the reuse: the driver frees only after all its work.
    release_to_driver(block.address);
  }
}

void CachingAllocator::release_to_driver(driver::Address address) noexcept {
  ++stats_.driver_frees;
  const driver::Api& api = context_.api();
  try {
    context_.make_current();
    // A capture of this thread goes on undisturbed.
    int mode = api.relax_capture();
    api.release(address);
    api.restore_capture(mode);
  } catch (...) {
    api.release(address);
  }
}

void CachingAllocator::store(FreeBlock block, const std::shared_ptr<driver::Stream>& home) {
  StreamCache& cache = caches_[home->id()];
  if (!cache.stream) cache.stream = home;
  auto& list = cache.blocks[block.bytes];
  list.reserve(list.size() + 1);
  stats_.cached_bytes += static_cast<int64_t>(block.bytes);
  ++stats_.cached_blocks;
  list.push_back(std::move(block));
}

int64_t CachingAllocator::trim() {
  std::lock_guard lock(mutex_);
  context_.make_current();
  return trim_locked();
}

int64_t CachingAllocator::trim_locked() {
  int64_t bytes = 0;
  for (auto it = caches_.begin(); it != caches_.end();) {
    StreamCache& cache = it->second;
    if (capturing(*cache.stream)) {
      ++it;
      continue;
    }
    cache.stream->synchronize();
    for (auto entry = cache.blocks.begin(); entry != cache.blocks.end();) {
      auto& [size, list] = *entry;
      // What a capturing stream has used stays until the capture is over.
      while (!list.empty() && mark(list.back())) {
        for (const auto& event : list.back().events) event->synchronize();
        driver::Address address = list.back().address;
        list.pop_back();
        stats_.cached_bytes -= static_cast<int64_t>(size);
        --stats_.cached_blocks;
        ++stats_.driver_frees;
        bytes += static_cast<int64_t>(size);
        context_.make_current();
        context_.api().check(context_.api().release(address), "trim");
      }
      entry = list.empty() ? cache.blocks.erase(entry) : std::next(entry);
    }
    it = cache.blocks.empty() ? caches_.erase(it) : std::next(it);
  }
  return bytes;
}

ResourceStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace gpukit::memory
