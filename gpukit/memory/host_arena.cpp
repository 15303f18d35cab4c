#include "gpukit/memory/host_arena.h"

#include <algorithm>
#include <iterator>

#include "gpukit/base/error.h"
#include "gpukit/memory/size_class.h"

namespace gpukit::memory {

namespace {
constexpr size_t kSegmentBytes = size_t{64} << 20;
constexpr size_t kAlignment = 4096;
}  // namespace

HostArena::~HostArena() { trim(); }

void* HostArena::allocate(size_t bytes) {
  bytes = round_up(std::max<size_t>(bytes, 1), kAlignment);
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (void* memory = take(bytes)) return memory;
    }
    if (!grow(bytes)) return nullptr;
  }
}

void* HostArena::take(size_t bytes) {
  // Best fit: large holes stay for large blocks.
  Segment* segment = nullptr;
  std::map<size_t, size_t>::iterator best;
  for (Segment& candidate : segments_) {
    for (auto hole = candidate.free.begin(); hole != candidate.free.end(); ++hole) {
      if (hole->second < bytes || (segment != nullptr && hole->second >= best->second)) continue;
      segment = &candidate;
      best = hole;
    }
  }
  if (segment == nullptr) return nullptr;
  const auto [offset, size] = *best;
  segment->free.erase(best);
  if (size > bytes) segment->free[offset + bytes] = size - bytes;
  segment->used[offset] = bytes;
  used_ += bytes;
  return segment->base + offset;
}

bool HostArena::must_trim(size_t bytes) const {
  std::lock_guard lock(mutex_);
  if (bytes > limit_ || reserved_ <= limit_ - bytes) return false;
  size_t unused = 0;
  for (const Segment& segment : segments_)
    if (segment.used.empty()) unused += segment.bytes;
  return reserved_ - unused <= limit_ - bytes;
}

bool HostArena::grow(size_t bytes) {
  size_t wanted = std::max(bytes, kSegmentBytes);
  if (must_trim(bytes)) trim();
  {
    std::lock_guard lock(mutex_);
    if (reserved_ >= limit_ || bytes > limit_ - reserved_) return false;
    wanted = std::min(wanted, limit_ - reserved_);
    reserved_ += wanted;
  }
  // Page-locking is slow: not under the lock.
  void* memory = nullptr;
  try {
    context_.make_current();
    memory = context_.api().allocate_pinned(wanted);
  } catch (const CudaError& error) {
    std::lock_guard lock(mutex_);
    reserved_ -= wanted;
    if (error.code != driver::kErrorOutOfMemory) throw;
    return false;
  }
  std::lock_guard lock(mutex_);
  Segment segment;
  segment.base = static_cast<char*>(memory);
  segment.bytes = wanted;
  segment.free[0] = wanted;
  segments_.push_back(std::move(segment));
  return true;
}

void HostArena::release(void* memory) noexcept {
  auto* at = static_cast<char*>(memory);
  std::lock_guard lock(mutex_);
  for (Segment& segment : segments_) {
    if (at < segment.base || at >= segment.base + segment.bytes) continue;
    auto block = segment.used.find(static_cast<size_t>(at - segment.base));
    if (block == segment.used.end()) return;
    auto [offset, bytes] = *block;
    segment.used.erase(block);
    used_ -= bytes;
    auto next = segment.free.lower_bound(offset);
    if (next != segment.free.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = segment.free.erase(next);
    }
    if (next != segment.free.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    segment.free[offset] = bytes;
    return;
  }
}

size_t HostArena::trim() noexcept {
  std::vector<Segment> gone;
  size_t bytes = 0;
  {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < segments_.size();) {
      if (!segments_[i].used.empty()) {
        ++i;
        continue;
      }
      bytes += segments_[i].bytes;
      gone.push_back(std::move(segments_[i]));
      segments_.erase(segments_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    reserved_ -= bytes;
  }
  try {
    context_.make_current();
  } catch (...) {
  }
  for (const Segment& segment : gone) context_.api().release_pinned(segment.base);
  return bytes;
}

size_t HostArena::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

size_t HostArena::reserved() const {
  std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace gpukit::memory
