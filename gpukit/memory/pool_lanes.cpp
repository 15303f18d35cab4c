// Free blocks of the pool: lanes (an account's blocks on one stream), and chunks that belong to no one.
#include <algorithm>
#include <new>

#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// A cached range that was not wanted for this many large requests may be taken apart for another size.
constexpr uint64_t kStaleAfter = 256;

}  // namespace

// Lanes

Lane* PoolState::lane_for(const AccountPtr& account, const StreamPtr& stream) {
  if (Lane* lane = find_lane(account.get(), *stream)) return lane;
  // What only a lane keeps alive gets no more work: its blocks are better free for every one.
  std::erase_if(lanes_, [&](const auto& entry) {
    Lane* lane = entry.second.get();
    if (lane->live != 0 || lane->stream.use_count() > 1) return false;
    disown_all(lane, SIZE_MAX);
    return true;
  });
  std::unique_ptr<Lane>& slot = lanes_[{account.get(), stream->id()}];
  slot = std::make_unique<Lane>();
  slot->account = account;
  slot->stream = stream;
  return last_lane_ = slot.get();
}

void PoolState::drop_empty_lanes() {
  std::erase_if(lanes_, [](const auto& entry) { return entry.second->live == 0 && entry.second->cached == 0; });
  last_lane_ = nullptr;
}

Piece* PoolState::pop_usable(Lane* lane, const Request& request) {
  Piece* found = nullptr;
  if (request.index >= 0) {
    Piece** link = &lane->small[request.index];
    while (*link != nullptr && !usable(*link)) link = &(*link)->next;
    found = *link;
    if (found != nullptr) *link = found->next;
  } else {
    auto smaller = [](const Range* range, size_t size) { return range->bytes < size; };
    auto at = std::lower_bound(lane->large.begin(), lane->large.end(), request.bytes, smaller);
    while (at != lane->large.end() && (*at)->bytes <= request.bytes + request.bytes / 8 && !usable(*at)) ++at;
    if (at == lane->large.end() || (*at)->bytes > request.bytes + request.bytes / 8) return nullptr;
    found = *at;
    lane->large.erase(at);
  }
  if (found != nullptr) note_uncached(lane, *found);
  return found;
}

Piece* PoolState::pop_cached(const Request& request, Lane** from) {
  Lane* own = nullptr;
  if (request.order == request.home.get()) own = find_lane(request.account.get(), *request.home);
  Piece* piece = own != nullptr ? pop_usable(own, request) : nullptr;
  *from = own;
  if (piece == nullptr) {
    for (auto& [key, lane] : lanes_) {
      if (key.account != request.account.get() || lane.get() == own || lane->cached == 0) continue;
      const bool candidate = request.index >= 0 ? lane->small[request.index] != nullptr : !lane->large.empty();
      if (!candidate || is_capturing(*lane->stream)) continue;
      piece = pop_usable(lane.get(), request);
      if (piece == nullptr) continue;
      // An event recorded from now on covers everything that stream did with the block.
      if (piece->fence == nullptr) piece->fence = std::make_unique<Fence>();
      piece->fence->add(lane->stream);
      *from = lane.get();
      break;
    }
  }
  // The lane stays while a block of it is in transit.
  if (piece != nullptr) ++(*from)->live;
  return piece;
}

void PoolState::give_up(Piece* piece) {
  piece->lane = nullptr;
  if (piece->fence != nullptr && piece->fence->empty()) piece->fence.reset();
  if (piece->slab != nullptr) {
    give_to_slab(piece);
    return;
  }
  auto* range = static_cast<Range*>(piece);
  free_ranges_.push_back(range);
  free_large_ += range->bytes;
}

void PoolState::disown(Lane* lane, Piece* piece) {
  note_uncached(lane, *piece);
  lane->account->uncharge(piece->bytes);
  if (piece->fence == nullptr) piece->fence = std::make_unique<Fence>();
  piece->fence->add(lane->stream);
  give_up(piece);
}

size_t PoolState::disown_all(Lane* lane, size_t enough) {
  size_t freed = 0;
  while (freed < enough && !lane->large.empty()) {
    Range* range = lane->large.back();
    lane->large.pop_back();
    freed += range->bytes;
    disown(lane, range);
  }
  for (int index = kNumClasses - 1; index >= 0; --index) {
    while (freed < enough && lane->small[index] != nullptr) {
      Piece* piece = lane->small[index];
      lane->small[index] = piece->next;
      freed += piece->bytes;
      disown(lane, piece);
    }
  }
  return freed;
}

void PoolState::disown_stale(const Account& account) {
  for (auto& [key, lane] : lanes_) {
    if (key.account != &account) continue;
    auto stale = [&](const Range* range) { return large_requests_ - range->freed_at > kStaleAfter; };
    auto begin = std::stable_partition(lane->large.begin(), lane->large.end(), [&](Range* r) { return !stale(r); });
    std::vector<Range*> old(begin, lane->large.end());
    lane->large.erase(begin, lane->large.end());
    for (Range* range : old) disown(lane.get(), range);
  }
}

bool PoolState::relieve(const Account& wall, size_t bytes) {
  size_t freed = 0;
  for (auto& [key, lane] : lanes_) {
    if (freed >= bytes) break;
    if (lane->cached != 0 && wall.contains(*lane->account)) freed += disown_all(lane.get(), bytes - freed);
  }
  return freed != 0;
}

long PoolState::num_lanes(const driver::Stream& stream) const {
  std::lock_guard lock(mutex_);
  return std::count_if(lanes_.begin(), lanes_.end(),
                       [&](const auto& entry) { return entry.second->stream.get() == &stream; });
}

void PoolState::forget(const Account& account) {
  reclaim(&account);
  std::lock_guard lock(mutex_);
  for (auto& [key, lane] : lanes_)
    if (lane->cached != 0 && account.contains(*lane->account)) disown_all(lane.get(), SIZE_MAX);
  close_empty_slabs();
  drop_empty_lanes();
}

// Slabs

void PoolState::give_to_slab(Piece* chunk) {
  Slab* slab = chunk->slab;
  chunk->next = slab->free;
  slab->free = chunk;
  --slab->used;
  if (!slab->listed) {
    slab->listed = true;
    open_slabs_[slab->index].push_back(slab);
  }
}

Slab* PoolState::add_slab(int index, Range* range) {
  auto slab = std::make_unique<Slab>();
  slab->index = index;
  slab->range.reset(range);
  slab->room = range->bytes / class_bytes(index);
  slab->chunks = static_cast<Piece*>(::operator new(slab->room * sizeof(Piece)));
  if (range->fence != nullptr) slab->fence = std::move(*range->fence);
  range->fence.reset();
  slab->listed = true;
  slabs_[index].push_back(slab.get());
  open_slabs_[index].push_back(slab.get());
  stats_.slab_bytes += static_cast<int64_t>(range->bytes);
  ++stats_.slabs;
  return slab.release();
}

Piece* PoolState::carve(Slab* slab) {
  auto* chunk = new (slab->chunks + slab->carved) Piece;
  chunk->bytes = class_bytes(slab->index);
  chunk->address = slab->range->address + slab->carved * chunk->bytes;
  chunk->slab = slab;
  ++slab->carved;
  ++slab->used;
  add_slab_fence(chunk);
  return chunk;
}

void PoolState::add_slab_fence(Piece* chunk) {
  if (chunk->slab->fence.empty()) return;
  if (chunk->fence == nullptr) chunk->fence = std::make_unique<Fence>();
  chunk->fence->add(chunk->slab->fence);
}

Piece* PoolState::pop_chunk(int index) {
  std::vector<Slab*>& open = open_slabs_[index];
  for (size_t i = open.size(); i-- > 0;) {
    Slab* slab = open[i];
    if (slab->free == nullptr && slab->carved == slab->room) {
      slab->listed = false;
      open[i] = open.back();
      open.pop_back();
      continue;
    }
    if (!slab->fence.empty() && slab->fence.marked() && slab->fence.complete()) slab->fence = {};
    if (!slab->fence.can_mark()) continue;
    Piece** link = &slab->free;
    while (*link != nullptr && !usable(*link)) link = &(*link)->next;
    if (Piece* chunk = *link) {
      *link = chunk->next;
      ++slab->used;
      add_slab_fence(chunk);
      return chunk;
    }
    if (slab->carved < slab->room) return carve(slab);
  }
  return nullptr;
}

void PoolState::close_empty_slabs() {
  for (int index = 0; index < kNumClasses; ++index) {
    std::vector<Slab*> kept;
    for (Slab* slab : slabs_[index]) {
      if (slab->used != 0) {
        kept.push_back(slab);
        continue;
      }
      std::unique_ptr<Slab> gone(slab);
      Fence fence = std::move(slab->fence);
      for (size_t i = 0; i < slab->carved; ++i) {
        Piece& chunk = slab->chunks[i];
        if (chunk.fence != nullptr) fence.add(*chunk.fence);
        chunk.~Piece();
      }
      ::operator delete(slab->chunks);
      if (slab->listed) std::erase(open_slabs_[index], slab);
      Range* range = slab->range.release();
      stats_.slab_bytes -= static_cast<int64_t>(range->bytes);
      --stats_.slabs;
      if (!fence.empty()) range->fence = std::make_unique<Fence>(std::move(fence));
      give_up(range);
    }
    slabs_[index] = std::move(kept);
  }
}

}  // namespace gpukit::memory
