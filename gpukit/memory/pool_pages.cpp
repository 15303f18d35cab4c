// Pages of the pool: how ranges are made of free pages and new ones.
#include <algorithm>
#include <bit>

#include "gpukit/base/error.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// Runs a driver call that may find no memory; false then.
template <typename Call>
bool has_memory(Call&& call) {
  try {
    call();
    return true;
  } catch (const CudaError& error) {
    if (error.code != driver::kErrorOutOfMemory) throw;
    return false;
  }
}

/// Pages are made in powers of two, so that those of any block fit into any other; up to this many steps.
constexpr size_t kLargestPages = 32;

/// Beyond so many addresses that wait for their last work, the next request waits for the first of them.
constexpr size_t kMostLeaving = 256;

}  // namespace

size_t largest_pages(const Range& range, size_t limit) {
  size_t largest = 0;
  for (const Pages& pages : range.pages)
    if (pages.bytes <= limit) largest = std::max(largest, pages.bytes);
  return largest;
}

size_t PoolState::retained() const { return cached_large_ + free_large_ + loose_bytes_; }

Range* PoolState::pop_free_range(size_t bytes, size_t most) {
  size_t best = free_ranges_.size();
  for (size_t i = 0; i < free_ranges_.size(); ++i) {
    const Range* range = free_ranges_[i];
    if (range->bytes < bytes || range->bytes > most) continue;
    if (best < free_ranges_.size() && range->bytes >= free_ranges_[best]->bytes) continue;
    if (usable(range)) best = i;
  }
  if (best == free_ranges_.size()) return nullptr;
  Range* range = free_ranges_[best];
  free_ranges_[best] = free_ranges_.back();
  free_ranges_.pop_back();
  free_large_ -= range->bytes;
  return range;
}

void PoolState::dismantle(Range* taken) {
  std::unique_ptr<Range> range(taken);
  Leaving leaving;
  leaving.address = range->address;
  leaving.bytes = range->bytes;
  if (range->fence != nullptr) leaving.fence = *range->fence;
  for (const Pages& pages : range->pages) {
    leaving.parts.push_back(pages.bytes);
    loose_.push_back({pages, leaving.fence});
    loose_bytes_ += pages.bytes;
  }
  leave(std::move(leaving));
}

void PoolState::leave(Leaving leaving) {
  ++num_leaving_;
  for (const Pages& pages : leaving.pages) leaving_bytes_ += pages.bytes;
  if (leaving.plain) leaving_bytes_ += leaving.bytes;
  leaving_.push_back(std::move(leaving));
}

void PoolState::choose_loose(size_t* missing, std::vector<Pages>* pages, Fence* fence) {
  sort_loose();
  // The driver is asked before a list is changed: it may fail.
  for (size_t i = 0; i < loose_.size() && *missing != 0;) {
    Loose& loose = loose_[i];
    if (loose.pages.bytes > *missing || !loose.fence.can_mark()) {
      ++i;
      continue;
    }
    pages->push_back(loose.pages);
    fence->add(loose.fence);
    *missing -= loose.pages.bytes;
    loose_bytes_ -= loose.pages.bytes;
    loose_.erase(loose_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void PoolState::sort_loose() {
  std::sort(loose_.begin(), loose_.end(), [](const Loose& a, const Loose& b) { return a.pages.bytes > b.pages.bytes; });
}

void PoolState::collect_everything() {
  for (auto& [key, lane] : lanes_)
    if (lane->cached != 0 && !is_capturing(*lane->stream)) disown_all(lane.get(), SIZE_MAX);
  close_empty_slabs();
}

void PoolState::choose_pages(bool desperate, size_t* missing, std::vector<Pages>* pages, Fence* fence) {
  if (desperate) collect_everything();
  choose_loose(missing, pages, fence);
  // Whole pages of free ranges, the largest that fit first.
  while (*missing != 0) {
    size_t best = free_ranges_.size(), largest = 0;
    for (size_t i = 0; i < free_ranges_.size(); ++i) {
      const size_t size = largest_pages(*free_ranges_[i], *missing);
      if (size <= largest || !usable(free_ranges_[i])) continue;
      largest = size;
      best = i;
    }
    if (best == free_ranges_.size()) return;
    Range* range = free_ranges_[best];
    free_ranges_.erase(free_ranges_.begin() + static_cast<std::ptrdiff_t>(best));
    free_large_ -= range->bytes;
    dismantle(range);
    choose_loose(missing, pages, fence);
  }
}

bool PoolState::gather(const Account& account, size_t bytes, bool desperate, std::vector<Pages>* pages, Fence* fence) {
  finish_leaving([&] {
    std::lock_guard lock(mutex_);
    return num_leaving_ > kMostLeaving;
  });
  size_t missing = bytes;
  try {
    {
      std::lock_guard lock(mutex_);
      choose_pages(desperate, &missing, pages, fence);
      move_cached(account, bytes, &missing, pages, fence);
    }
    if (missing == 0) return true;
    return_excess(bytes, missing);
    if (create_pages(missing, desperate, pages)) return true;
  } catch (...) {
    put_back(std::move(*pages), *fence);
    throw;
  }
  put_back(std::move(*pages), *fence);
  return false;
}

bool PoolState::create_pages(size_t bytes, bool desperate, std::vector<Pages>* pages) {
  if (bytes > static_cast<size_t>(context.properties().total_memory)) return false;
  const driver::Api& api = context.api();
  std::vector<Pages> made;
  auto undo = [&] {
    for (const Pages& entry : made) api.release_pages(entry.handle);
  };
  try {
    for (size_t left = bytes; left != 0; left -= made.back().bytes) {
      Pages next{0, std::min(std::bit_floor(left / granularity_), kLargestPages) * granularity_};
      while (!has_memory([&] { next.handle = api.create_pages(next.bytes); })) {
        if (desperate && release_some(left)) continue;
        undo();
        return false;
      }
      made.push_back(next);
    }
  } catch (...) {
    undo();
    throw;
  }
  for (const Pages& entry : made) {
    pages->push_back(entry);
    note_reserved(entry.bytes);
  }
  return true;
}

void PoolState::note_reserved(size_t bytes) {
  std::lock_guard lock(mutex_);
  ++stats_.driver_allocations;
  stats_.reserved_bytes += static_cast<int64_t>(bytes);
  stats_.peak_reserved_bytes = std::max(stats_.peak_reserved_bytes, stats_.reserved_bytes);
}

void PoolState::put_back(std::vector<Pages> pages, const Fence& fence) noexcept {
  std::lock_guard lock(mutex_);
  for (const Pages& entry : pages) {
    loose_.push_back({entry, fence});
    loose_bytes_ += entry.bytes;
  }
}

int PoolState::unmap(driver::Address address, const std::vector<Pages>& pages) noexcept {
  int code = 0;
  for (const Pages& entry : pages) {
    if (int failed = context.api().unmap_pages(address, entry.bytes)) code = failed;
    address += entry.bytes;
  }
  return code;
}

void PoolState::map(driver::Address address, const std::vector<Pages>& pages) {
  const driver::Api& api = context.api();
  std::vector<Pages> mapped;
  try {
    for (driver::Address at = address; const Pages& entry : pages) {
      api.map_pages(at, entry.bytes, entry.handle);
      mapped.push_back(entry);
      at += entry.bytes;
    }
    size_t bytes = 0;
    for (const Pages& entry : pages) bytes += entry.bytes;
    api.allow_access(address, bytes);
  } catch (...) {
    unmap(address, mapped);
    throw;
  }
  std::lock_guard lock(mutex_);
  stats_.mappings += static_cast<int64_t>(pages.size());
}

Range* PoolState::obtain(const Account& account, size_t bytes, bool desperate) {
  auto range = std::make_unique<Range>();
  range->bytes = bytes;
  const driver::Api& api = context.api();
  context.make_current();
  if (desperate) {
    std::lock_guard lock(mutex_);
    collect_everything();
    if (Range* free = pop_free_range(bytes, bytes)) return free;
  }
  if (!vmm_) {
    return_excess(bytes, bytes);
    while (!has_memory([&] { range->address = api.allocate(bytes); }))
      if (!desperate || !release_some(bytes)) return nullptr;
    note_reserved(bytes);
    return range.release();
  }
  Fence fence;
  if (!gather(account, bytes, desperate, &range->pages, &fence)) return nullptr;
  try {
    range->address = api.reserve_range(bytes);
    try {
      map(range->address, range->pages);
    } catch (...) {
      api.free_range(range->address, bytes);
      throw;
    }
  } catch (...) {
    put_back(std::move(range->pages), fence);
    throw;
  }
  if (!fence.empty()) range->fence = std::make_unique<Fence>(std::move(fence));
  return range.release();
}

}  // namespace gpukit::memory
