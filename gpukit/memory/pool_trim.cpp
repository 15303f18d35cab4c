// How the pool's memory goes back to the driver: when it is asked for, when too much is kept, when there is no more.
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

PoolState::Leaving PoolState::leaving_of(Range* taken) {
  std::unique_ptr<Range> range(taken);
  Leaving leaving;
  leaving.address = range->address;
  leaving.bytes = range->bytes;
  leaving.plain = !vmm_;
  for (const Pages& pages : range->pages) leaving.parts.push_back(pages.bytes);
  leaving.pages = std::move(range->pages);
  if (range->fence != nullptr) leaving.fence = std::move(*range->fence);
  return leaving;
}

size_t PoolState::send_away(size_t enough) {
  size_t bytes = 0;
  sort_loose();
  for (size_t i = 0; i < loose_.size() && bytes < enough;) {
    if (!loose_[i].fence.can_mark()) {
      ++i;
      continue;
    }
    Leaving leaving;
    leaving.pages.push_back(loose_[i].pages);
    leaving.fence = std::move(loose_[i].fence);
    bytes += loose_[i].pages.bytes;
    loose_bytes_ -= loose_[i].pages.bytes;
    loose_.erase(loose_.begin() + static_cast<std::ptrdiff_t>(i));
    leave(std::move(leaving));
  }
  for (size_t i = 0; i < free_ranges_.size() && bytes < enough;) {
    Range* range = free_ranges_[i];
    if (!usable(range)) {
      ++i;
      continue;
    }
    free_ranges_.erase(free_ranges_.begin() + static_cast<std::ptrdiff_t>(i));
    bytes += range->bytes;
    free_large_ -= range->bytes;
    leave(leaving_of(range));
  }
  return bytes;
}

uint64_t PoolState::returned() const {
  std::lock_guard lock(mutex_);
  return returned_;
}

bool PoolState::release_some(size_t bytes) {
  uint64_t before = 0;
  {
    std::lock_guard lock(mutex_);
    before = returned_;
    collect_everything();
    send_away(bytes);
  }
  finish_leaving(true);
  return returned() != before;
}

size_t PoolState::finish_leaving(const std::function<bool()>& wait, bool strict) {
  std::vector<Leaving> list, kept;
  {
    std::lock_guard lock(mutex_);
    list.swap(leaving_);
  }
  if (list.empty()) return 0;
  Marker marker;
  size_t bytes = 0;
  std::exception_ptr failure;
  for (Leaving& leaving : list) {
    try {
      bool over = false;
      if (leaving.fence.can_mark()) {
        leaving.fence.mark(marker);
        over = leaving.fence.complete();
        if (!over && wait()) {
          timed_wait(leaving.fence);
          over = true;
        }
      }
      if (over) {
        bytes += let_go(leaving);
        std::lock_guard lock(mutex_);
        ++returned_;
        --num_leaving_;
        continue;
      }
    } catch (...) {
      if (failure == nullptr) failure = std::current_exception();
    }
    kept.push_back(std::move(leaving));
  }
  {
    std::lock_guard lock(mutex_);
    for (Leaving& leaving : kept) leaving_.push_back(std::move(leaving));
  }
  if (failure != nullptr && strict) std::rethrow_exception(failure);
  return bytes;
}

size_t PoolState::let_go(Leaving& leaving) {
  const driver::Api& api = context.api();
  context.make_current();
  if (leaving.plain) {
    api.check(api.release(leaving.address), "trim");
    note_freed(leaving.bytes);
    return leaving.bytes;
  }
  // What is done is taken off the record, so that a call that failed can be made again.
  size_t end = 0;
  for (size_t part : leaving.parts) end += part;
  while (!leaving.parts.empty()) {
    end -= leaving.parts.back();
    api.check(api.unmap_pages(leaving.address + end, leaving.parts.back()), "trim");
    leaving.parts.pop_back();
  }
  if (leaving.address != 0) {
    api.check(api.free_range(leaving.address, leaving.bytes), "trim");
    leaving.address = 0;
  }
  size_t bytes = 0;
  while (!leaving.pages.empty()) {
    api.check(api.release_pages(leaving.pages.back().handle), "trim");
    bytes += leaving.pages.back().bytes;
    note_freed(leaving.pages.back().bytes);
    leaving.pages.pop_back();
  }
  return bytes;
}

void PoolState::note_freed(size_t bytes) {
  std::lock_guard lock(mutex_);
  ++stats_.driver_frees;
  stats_.reserved_bytes -= static_cast<int64_t>(bytes);
  leaving_bytes_ -= bytes;
}

int64_t PoolState::trim() {
  reclaim(nullptr);
  if (guarded != nullptr) guarded->collect();
  RelaxedCapture relaxed(context);
  InTransit transit(*this);
  {
    std::lock_guard lock(mutex_);
    ++stats_.trims;
    collect_everything();
    send_away(SIZE_MAX);
  }
  const size_t bytes = finish_leaving(true);
  residency.trim_host();
  std::lock_guard lock(mutex_);
  drop_empty_lanes();
  return static_cast<int64_t>(bytes);
}

void PoolState::enforce_retained() noexcept {
  try {
    RelaxedCapture relaxed(context);
    InTransit transit(*this);
    {
      std::lock_guard lock(mutex_);
      if (retained() <= retained_limit_) return;
      const size_t excess = retained() - retained_limit_;
      size_t sent = send_away(excess);
      // Then what is cached, the longest unused first.
      const std::vector<Lane*> lanes = quiet_lanes(nullptr);
      while (sent < excess && disown_oldest(lanes)) sent += send_away(excess - sent);
    }
    finish_leaving(false);
  } catch (...) {
    // The next release or trim tries again.
  }
}

ResourceStats PoolState::stats() {
  ResourceStats stats;
  {
    std::lock_guard lock(mutex_);
    stats = stats_;
    stats.retained_bytes = static_cast<int64_t>(retained());
  }
  if (guarded != nullptr) guarded->add_to(&stats);
  residency.add_to(&stats);
  return stats;
}

}  // namespace gpukit::memory
