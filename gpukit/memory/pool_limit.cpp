// How much the pool keeps: what was in use at the peak, and a little. Pages move before new ones are asked for.
#include <algorithm>

#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// The part of the peak that may be kept beyond it.
constexpr size_t kSparePart = 4;

}  // namespace

size_t PoolState::excess(size_t bytes, size_t missing) const {
  const size_t peak =
      std::max(static_cast<size_t>(stats_.peak_live_bytes), static_cast<size_t>(stats_.live_bytes) + bytes);
  const size_t limit = peak + std::max(min_spare_, peak / kSparePart);
  const size_t wanted = static_cast<size_t>(stats_.reserved_bytes) + missing;
  return wanted > limit ? wanted - limit : 0;
}

std::vector<Lane*> PoolState::quiet_lanes(const Account* account) {
  std::vector<Lane*> lanes;
  for (auto& [key, lane] : lanes_) {
    if (lane->large.empty() || (account != nullptr && key.account != account)) continue;
    if (!is_capturing(*lane->stream)) lanes.push_back(lane.get());
  }
  return lanes;
}

bool PoolState::disown_oldest(const std::vector<Lane*>& lanes, size_t most) {
  Lane* lane = nullptr;
  size_t at = 0;
  for (Lane* candidate : lanes) {
    for (size_t i = 0; i < candidate->large.size(); ++i) {
      const Range& range = *candidate->large[i];
      if (lane != nullptr && lane->large[at]->freed_at <= range.freed_at) continue;
      if ((most != SIZE_MAX && largest_pages(range, most) == 0) || !usable(&range)) continue;
      lane = candidate;
      at = i;
    }
  }
  if (lane == nullptr) return false;
  Range* range = lane->large[at];
  lane->large.erase(lane->large.begin() + static_cast<std::ptrdiff_t>(at));
  disown(lane, range);
  return true;
}

void PoolState::move_cached(const Account& account, size_t bytes, size_t* missing, std::vector<Pages>* pages,
                            Fence* fence) {
  if (*missing == 0 || excess(bytes, *missing) == 0) return;
  close_empty_slabs();
  choose_pages(false, missing, pages, fence);
  // What is kept for the account itself, then what is kept for others.
  for (const Account* of : {&account, static_cast<const Account*>(nullptr)}) {
    if (*missing == 0 || excess(bytes, *missing) == 0) return;
    const std::vector<Lane*> lanes = quiet_lanes(of);
    while (*missing != 0 && excess(bytes, *missing) != 0 && disown_oldest(lanes, *missing))
      choose_pages(false, missing, pages, fence);
  }
}

void PoolState::return_excess(size_t bytes, size_t missing) {
  {
    std::lock_guard lock(mutex_);
    const size_t above = excess(bytes, missing);
    if (above == 0) return;
    size_t sent = leaving_bytes_;
    if (sent < above) sent += send_away(above - sent);
    const std::vector<Lane*> lanes = quiet_lanes(nullptr);
    while (sent < above && disown_oldest(lanes)) sent += send_away(above - sent);
  }
  finish_leaving(false);
  finish_leaving([&] {
    std::lock_guard lock(mutex_);
    return leaving_bytes_ != 0 && excess(bytes, missing) != 0;
  });
}

}  // namespace gpukit::memory
