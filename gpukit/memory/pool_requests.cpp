// The slow path of the pool: reuse behind events, new memory, and the ladder of what is tried before giving up.
#include <algorithm>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

/// How often a request is tried again because something was freed while it was found hopeless.
constexpr int kFruitless = 16;

}  // namespace

PoolState::InTransit::InTransit(PoolState& pool) : pool_(pool) {
  std::lock_guard lock(pool_.mutex_);
  ++pool_.in_transit_;
}

PoolState::InTransit::~InTransit() {
  {
    std::lock_guard lock(pool_.mutex_);
    --pool_.in_transit_;
    ++pool_.transit_epoch_;
  }
  pool_.transit_over_.notify_all();
}

bool PoolState::InTransit::wait_for_others() {
  std::unique_lock lock(pool_.mutex_);
  if (pool_.in_transit_ <= 1) return false;
  // Not counted while it waits: of several that wait for each other the last goes on.
  --pool_.in_transit_;
  const uint64_t epoch = pool_.transit_epoch_;
  pool_.transit_over_.wait(lock, [&] { return pool_.transit_epoch_ != epoch || pool_.in_transit_ == 0; });
  ++pool_.in_transit_;
  return true;
}

void PoolState::timed_wait(const Fence& fence) {
  const int64_t begin = real_clock().now_ns();
  fence.synchronize();
  const int64_t end = real_clock().now_ns();
  std::lock_guard lock(mutex_);
  ++stats_.waits;
  stats_.wait_ns += end - begin;
}

void PoolState::settle(Piece* piece, const Request& request) {
  if (piece->fence == nullptr) return;
  // A copy: should a call fail, the block goes back with all that it must wait for.
  Fence fence = *piece->fence;
  if (request.order != nullptr) fence.forget(*request.order);
  Marker marker;
  fence.mark(marker);
  if (request.order != nullptr)
    fence.order(*request.order);
  else if (!fence.complete())
    timed_wait(fence);
  piece->fence.reset();
}

Block PoolState::allocate_slow(const Request& request) {
  if (!(request.account->device() == context.device()))
    throw ArgumentError("allocate", "account", "be of " + str(context.device()), str(request.account->device()));
  RelaxedCapture relaxed(context);
  Block block;
  ladder(request, [&](bool desperate) { return attempt(request, desperate, &block); });
  return block;
}

void PoolState::ladder(const Request& request, const std::function<Outcome(bool)>& attempt) {
  bool desperate = false, evicted = false;
  int fruitless = 0;
  for (;;) {
    const uint64_t before = returned();
    const Outcome outcome = attempt(desperate);
    if (outcome.done) return;
    if (outcome.again) continue;
    size_t needed = request.bytes;
    if (outcome.wall != nullptr) {
      const size_t quota = outcome.wall->quota(), charged = outcome.wall->charged();
      // More than the quota itself can never fit, whatever else leaves.
      if (quota != 0 && request.bytes > quota) out_of_memory(request, outcome.wall, "nothing: it is above the quota");
      needed = charged + request.bytes > quota ? charged + request.bytes - quota : 1;
      std::lock_guard lock(mutex_);
      if (relieve(*outcome.wall, needed)) continue;
    } else if (!desperate) {
      size_t free = 0, total = 0;
      context.api().memory_info(&free, &total);
      if (request.bytes > total) out_of_memory(request, nullptr, "nothing: it is above the device's memory");
      desperate = true;
      std::lock_guard lock(mutex_);
      ++stats_.trims;
      continue;
    }
    if (reclaim(outcome.wall)) continue;
    if (residency.make_room(outcome.wall, needed, request.evicting)) {
      evicted = true;
      continue;
    }
    // Another thread may have freed something meanwhile.
    if (++fruitless > kFruitless || !may_fit(outcome.wall, request.bytes, before))
      out_of_memory(request, outcome.wall, evicted ? "reuse, trim and eviction" : "reuse and trim");
  }
}

bool PoolState::may_fit(const Account* wall, size_t bytes, uint64_t returned) {
  std::lock_guard lock(mutex_);
  size_t cached = 0;
  for (const auto& [key, lane] : lanes_)
    if (lane->cached != 0 && (wall == nullptr || wall->contains(*lane->account))) cached += lane->cached_bytes;
  if (wall == nullptr) return returned_ != returned || cached + free_large_ + loose_bytes_ >= bytes;
  const size_t quota = wall->quota(), charged = wall->charged();
  return quota == 0 || charged + bytes <= quota + cached;
}

PoolState::Outcome PoolState::attempt(const Request& request, bool desperate, Block* block) {
  if (guarded != nullptr) {
    Outcome outcome;
    outcome.done = guarded->allocate(request.bytes, request.order, request.account, block, &outcome.wall);
    return outcome;
  }
  InTransit transit(*this);
  std::unique_lock lock(mutex_);
  lane_for(request.account, request.home);
  Lane* from = nullptr;
  if (Piece* piece = pop_cached(request, &from)) {
    lock.unlock();
    try {
      settle(piece, request);
    } catch (...) {
      lock.lock();
      --from->live;
      push(from, piece);
      throw;
    }
    lock.lock();
    --from->live;
    *block = hand_out(lane_for(request.account, request.home), piece,
                      request.order != nullptr ? Counted::reused : Counted::restored);
    return {.done = true};
  }
  if (Account* wall = request.account->try_charge(request.bytes)) return {.wall = wall};
  Piece* piece = nullptr;
  try {
    piece = take_unowned(request);
    lock.unlock();
    if (piece == nullptr) piece = take_new(request, desperate);
    if (piece != nullptr) settle(piece, request);
  } catch (...) {
    if (piece != nullptr) {
      if (!lock.owns_lock()) lock.lock();
      request.account->uncharge(piece->bytes - request.bytes);
      give_up(piece);
    }
    request.account->uncharge(request.bytes);
    throw;
  }
  if (piece == nullptr) {
    request.account->uncharge(request.bytes);
    return {.again = desperate && transit.wait_for_others()};
  }
  lock.lock();
  *block = hand_out(lane_for(request.account, request.home), piece,
                    request.order != nullptr ? Counted::fresh : Counted::restored);
  return {.done = true};
}

Piece* PoolState::take_unowned(const Request& request) {
  if (request.index >= 0) return pop_chunk(request.index);
  disown_stale(*request.account);
  Range* range = pop_free_range(request.bytes, request.bytes + request.bytes / 8);
  if (range == nullptr || range->bytes == request.bytes) return range;
  if (request.account->try_charge(range->bytes - request.bytes) == nullptr) return range;
  give_up(range);
  return nullptr;
}

Piece* PoolState::take_new(const Request& request, bool desperate) {
  if (request.index < 0) return obtain(*request.account, request.bytes, desperate);
  const size_t bytes = round_up(slab_bytes(request.index), granularity_);
  Range* range = nullptr;
  {
    std::lock_guard lock(mutex_);
    range = pop_free_range(bytes, bytes);
  }
  if (range == nullptr) range = obtain(*request.account, bytes, desperate);
  if (range != nullptr && range->fence != nullptr) {
    try {
      Marker marker;
      range->fence->mark(marker);
      // Pages that go from slab to slab would gather the events of all their lives.
      if (range->fence->complete()) range->fence.reset();
    } catch (...) {
      std::lock_guard lock(mutex_);
      give_up(range);
      throw;
    }
  }
  std::lock_guard lock(mutex_);
  if (range != nullptr) return carve(add_slab(request.index, range));
  // The last resort may have given chunks back instead of whole pages.
  return desperate ? pop_chunk(request.index) : nullptr;
}

// Pages behind addresses that were kept

bool PoolState::can_drop(const Block& block) const {
  const auto* piece = static_cast<const Piece*>(block.owner_data);
  return guarded == nullptr && piece->slab == nullptr && (vmm_ || context.device().kind == DeviceKind::cpu);
}

bool PoolState::drop_pages(Block block) noexcept {
  auto* range = static_cast<Range*>(static_cast<Piece*>(block.owner_data));
  std::vector<Pages> gone;
  driver::Address at = range->address;
  if (!vmm_) {
    driver::discard_host_memory(range->address, range->bytes);
    range->emptied = true;
  }
  for (const Pages& pages : range->pages) {
    if (context.api().unmap_pages(at, pages.bytes) != 0) {
      try {
        if (!gone.empty()) map(range->address, gone);
        return false;
      } catch (...) {
        // Its bytes are in host memory; the addresses cannot be used until the driver unmaps them.
      }
      break;
    }
    gone.push_back(pages);
    at += pages.bytes;
  }
  std::lock_guard lock(mutex_);
  ++range->lane->live;  // the addresses still belong to it
  note_dead(range->lane, *range);
  range->lane->account->uncharge(range->bytes);
  for (const Pages& pages : range->pages) {
    loose_.push_back({pages, {}});
    loose_bytes_ += pages.bytes;
  }
  range->pages.clear();
  return true;
}

void PoolState::refill_pages(Block block) {
  auto* range = static_cast<Range*>(static_cast<Piece*>(block.owner_data));
  if (vmm_ ? !range->pages.empty() : !range->emptied) return;  // the driver would not take them away
  const Request request{range->bytes, -1, range->lane->stream, range->lane->account, nullptr, true};
  RelaxedCapture relaxed(context);
  ladder(request, [&](bool desperate) { return attempt_refill(request, desperate, range); });
}

PoolState::Outcome PoolState::attempt_refill(const Request& request, bool desperate, Range* range) {
  InTransit transit(*this);
  if (Account* wall = request.account->try_charge(request.bytes)) return {.wall = wall};
  std::vector<Pages> pages;
  Fence fence;
  try {
    if (vmm_ && !gather(*request.account, request.bytes, desperate, &pages, &fence)) {
      request.account->uncharge(request.bytes);
      return {.again = desperate && transit.wait_for_others()};
    }
    try {
      Marker marker;
      fence.mark(marker);
      if (!fence.complete()) timed_wait(fence);
      if (vmm_) map(range->address, pages);
    } catch (...) {
      put_back(std::move(pages), fence);
      throw;
    }
  } catch (...) {
    request.account->uncharge(request.bytes);
    throw;
  }
  std::lock_guard lock(mutex_);
  range->pages = std::move(pages);
  range->emptied = false;
  --range->lane->live;
  hand_out(range->lane, range, Counted::restored);
  return {.done = true};
}

void PoolState::release_dropped(Block block) noexcept {
  std::unique_ptr<Range> range(static_cast<Range*>(static_cast<Piece*>(block.owner_data)));
  if (vmm_ ? !range->pages.empty() : !range->emptied) {
    range.release();
    return release_idle(block);
  }
  if (!vmm_) {
    {
      std::lock_guard lock(mutex_);
      --range->lane->live;
      leave(leaving_of(range.release()));
    }
    try {
      RelaxedCapture relaxed(context);
      finish_leaving(false);
    } catch (...) {
      // The next request or trim tries again.
    }
    return;
  }
  try {
    RelaxedCapture relaxed(context);
    context.api().free_range(range->address, range->bytes);
  } catch (...) {
    // The context is dead, and its addresses with it.
  }
  std::lock_guard lock(mutex_);
  --range->lane->live;
}

}  // namespace gpukit::memory
