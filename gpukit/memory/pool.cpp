#include "gpukit/memory/pool.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"
#include "gpukit/memory/pool_state.h"

namespace gpukit::memory {

namespace {

size_t host_limit_of(const PoolConfig& config) {
  if (config.host_limit != 0) return config.host_limit;
  int64_t available = 0, total = 0;
  files::host_memory(&available, &total);
  return static_cast<size_t>(std::max<int64_t>(total / 2, 0));
}

bool wants_pages(const driver::Context& context, const PoolConfig& config) {
  if (config.debug || !context.properties().vmm || config.pages == PoolConfig::Pages::off) return false;
  return config.pages == PoolConfig::Pages::on || context.device().kind == DeviceKind::cuda;
}

/// The pools of the process, for forks.
struct Pools {
  std::mutex mutex;
  std::vector<PoolState*> list;  // by address, as a launch takes the blocks of several devices
};

Pools& pools() {
  static auto* value = new Pools;
  return *value;
}

void before_fork() {
  pools().mutex.lock();
  for (PoolState* pool : pools().list) pool->residency.stop_for_fork();
  for (PoolState* pool : pools().list) pool->lock_for_fork();
}

template <bool kChild>
void after_fork() {
  for (PoolState* pool : pools().list) pool->unlock_after_fork(kChild);
  pools().mutex.unlock();
}

[[maybe_unused]] const bool g_made_at_load = made_at_load<pools>();
[[maybe_unused]] const bool g_held_at_fork =
    at_fork(ForkOrder::pools, before_fork, after_fork<false>, after_fork<true>);

}  // namespace

void PoolState::lock_for_fork() {
  residency.lock_for_fork();
  mutex_.lock();
}

void PoolState::unlock_after_fork(bool child) {
  if (child) {
    in_transit_ = 0;
    num_leaving_ = leaving_bytes_ = 0;
    for (Leaving& leaving : std::exchange(leaving_, {})) leave(std::move(leaving));
    new (&transit_over_) std::condition_variable;
  }
  mutex_.unlock();
  residency.unlock_after_fork(child);
}

PoolState::PoolState(driver::Context& context_, const PoolConfig& config_)
    : context(context_),
      config(config_),
      root(Account::create(str(context_.device()), context_.device())),
      residency(*this, host_limit_of(config_)) {
  context.make_current();
  if (config.debug) guarded = std::make_unique<GuardedBlocks>(context);
  vmm_ = wants_pages(context, config);
  if (vmm_) granularity_ = round_up(kPageUnit, context.api().page_granularity());
  retained_limit_ = config.max_retained;
  if (retained_limit_ == 0) retained_limit_ = static_cast<size_t>(context.properties().total_memory) / 2;
  min_spare_ = config.min_spare;
  if (min_spare_ == 0) min_spare_ = static_cast<size_t>(context.properties().total_memory) / 256;
  stats_.virtual_memory = vmm_;
  stats_.retained_limit = static_cast<int64_t>(retained_limit_);
  std::lock_guard lock(pools().mutex);
  auto& list = pools().list;
  list.insert(std::upper_bound(list.begin(), list.end(), this, std::less<>()), this);
}

PoolState::~PoolState() {
  {
    std::lock_guard lock(pools().mutex);
    std::erase(pools().list, this);
  }
  try {
    trim();
  } catch (...) {
    // A driver that is going down takes its memory with it.
  }
}

// Hit path

Lane* PoolState::find_lane(const Account* account, const driver::Stream& stream) {
  if (last_lane_ != nullptr && last_lane_->account.get() == account && last_lane_->stream.get() == &stream)
    return last_lane_;
  auto found = lanes_.find({account, stream.id()});
  if (found == lanes_.end()) return nullptr;
  return last_lane_ = found->second.get();
}

Range* PoolState::fit(Lane* lane, size_t bytes, size_t* at) const {
  auto smaller = [](const Range* range, size_t size) { return range->bytes < size; };
  auto first = std::lower_bound(lane->large.begin(), lane->large.end(), bytes, smaller);
  if (first == lane->large.end() || (*first)->bytes > bytes + bytes / 8) return nullptr;
  // Of equal ones the last that was freed.
  auto next = std::lower_bound(first, lane->large.end(), (*first)->bytes + 1, smaller);
  *at = static_cast<size_t>(next - lane->large.begin()) - 1;
  return lane->large[*at];
}

Block PoolState::hand_out(Lane* lane, Piece* piece, Counted how) {
  piece->lane = lane;
  ++lane->live;
  Account& account = *lane->account;
  account.note_live(piece->bytes);
  if (how != Counted::restored) {
    Account::bump(account.allocations_, 1);
    ++stats_.allocations;
  }
  if (how == Counted::reused) {
    Account::bump(account.reuses_, 1);
    ++stats_.reuses;
  }
  stats_.live_bytes += static_cast<int64_t>(piece->bytes);
  stats_.peak_live_bytes = std::max(stats_.peak_live_bytes, stats_.live_bytes);
  ++stats_.live_blocks;
  return {piece->address, piece->bytes, piece};
}

void PoolState::note_uncached(Lane* lane, const Piece& piece) {
  --lane->cached;
  lane->cached_bytes -= piece.bytes;
  lane->account->note_uncached(piece.bytes);
  stats_.cached_bytes -= static_cast<int64_t>(piece.bytes);
  --stats_.cached_blocks;
  if (piece.slab == nullptr) cached_large_ -= piece.bytes;
}

void PoolState::push(Lane* lane, Piece* piece) {
  ++lane->cached;
  lane->cached_bytes += piece->bytes;
  lane->account->note_cached(piece->bytes);
  stats_.cached_bytes += static_cast<int64_t>(piece->bytes);
  ++stats_.cached_blocks;
  if (piece->slab != nullptr) {
    Piece*& head = lane->small[piece->slab->index];
    piece->next = head;
    head = piece;
    return;
  }
  auto* range = static_cast<Range*>(piece);
  range->freed_at = large_requests_;
  cached_large_ += range->bytes;
  auto larger = [](size_t size, const Range* known) { return size < known->bytes; };
  lane->large.insert(std::upper_bound(lane->large.begin(), lane->large.end(), range->bytes, larger), range);
}

Block PoolState::allocate(size_t bytes, const StreamPtr& stream, const AccountPtr& given) {
  const AccountPtr& account = given != nullptr ? given : root;
  const int index = bytes <= kSmallLimit ? size_class(bytes) : -1;
  if (guarded == nullptr) [[likely]] {
    std::lock_guard lock(mutex_);
    large_requests_ += index < 0;
    if (Lane* lane = find_lane(account.get(), *stream)) {
      if (index >= 0) {
        Piece* piece = lane->small[index];
        if (piece != nullptr && piece->fence == nullptr) {
          lane->small[index] = piece->next;
          note_uncached(lane, *piece);
          return hand_out(lane, piece, Counted::reused);
        }
      } else {
        size_t at = 0;
        if (Range* range = fit(lane, rounded(bytes), &at); range != nullptr && range->fence == nullptr) {
          lane->large.erase(lane->large.begin() + static_cast<std::ptrdiff_t>(at));
          note_uncached(lane, *range);
          return hand_out(lane, range, Counted::reused);
        }
      }
    }
  }
  return allocate_slow({rounded(bytes), index, stream, account, stream.get(), false});
}

void PoolState::release(Block block, const StreamPtr& home, std::span<const StreamPtr> others) noexcept {
  if (guarded != nullptr) [[unlikely]]
    return guarded->release(block, home, others);
  auto* piece = static_cast<Piece*>(block.owner_data);
  std::unique_ptr<Fence> fence;
  if (!others.empty()) {
    fence = std::make_unique<Fence>();
    for (const StreamPtr& stream : others) fence->add(stream);
    try {
      Marker marker;
      if (fence->can_mark()) fence->mark(marker);
    } catch (...) {
      // What has no event yet gets one when the block is wanted again.
    }
  }
  bool too_much = false;
  {
    std::lock_guard lock(mutex_);
    Lane* lane = piece->lane;
    note_dead(lane, *piece);
    piece->fence = std::move(fence);
    push(lane, piece);
    if (lane->account->closed()) [[unlikely]]
      disown_all(lane, SIZE_MAX);
    too_much = piece->slab == nullptr && retained() > retained_limit_;
  }
  if (too_much) enforce_retained();
}

void PoolState::note_dead(Lane* lane, const Piece& piece) {
  --lane->live;
  lane->account->note_dead(piece.bytes);
  stats_.live_bytes -= static_cast<int64_t>(piece.bytes);
  --stats_.live_blocks;
}

void PoolState::release_idle(Block block) noexcept {
  if (guarded != nullptr) return guarded->release(block, nullptr, {});
  auto* piece = static_cast<Piece*>(block.owner_data);
  bool too_much = false;
  {
    std::lock_guard lock(mutex_);
    Lane* lane = piece->lane;
    note_dead(lane, *piece);
    lane->account->uncharge(piece->bytes);
    piece->lane = nullptr;
    piece->fence.reset();
    give_up(piece);
    too_much = piece->slab == nullptr && retained() > retained_limit_;
  }
  if (too_much) enforce_retained();
}

size_t PoolState::rounded(size_t bytes) const {
  if (guarded != nullptr) return bytes;
  if (bytes <= kSmallLimit) return class_bytes(size_class(bytes));
  return bytes > SIZE_MAX - granularity_ ? bytes : round_up(bytes, granularity_);
}

Block PoolState::allocate_idle(size_t bytes, const StreamPtr& home, const AccountPtr& account) {
  return allocate_slow({rounded(bytes), bytes <= kSmallLimit ? size_class(bytes) : -1, home, account, nullptr, true});
}

// Public face

Pool::Pool(driver::Context& context, const PoolConfig& config) : state_(new PoolState(context, config)) {}
Pool::~Pool() = default;
driver::Context& Pool::context() const { return state_->context; }
const PoolConfig& Pool::config() const { return state_->config; }
const std::shared_ptr<Account>& Pool::root() const { return state_->root; }
Block Pool::allocate(size_t bytes, const StreamPtr& stream, const AccountPtr& account) {
  return state_->allocate(bytes, stream, account);
}
void Pool::release(Block block, const StreamPtr& home, std::span<const StreamPtr> others) noexcept {
  state_->release(block, home, others);
}
int64_t Pool::trim() { return state_->trim(); }
void Pool::forget(const Account& account) { state_->forget(account); }
ResourceStats Pool::stats() const { return state_->stats(); }
long Pool::num_lanes(const driver::Stream& stream) const { return state_->num_lanes(stream); }
Residency* Pool::residency() { return &state_->residency; }
void Pool::raise_faults() {
  if (state_->guarded != nullptr) state_->guarded->raise_faults();
}

}  // namespace gpukit::memory
