#include "gpukit/scheduler/dispatch/dispatch_controller.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch/dispatch_controller_state.h"

namespace gpukit::scheduler {
namespace {

thread_local const std::string* t_note = nullptr;

double amount(const char* op, const char* argument, double value) {
  if (!(value >= 0) || !std::isfinite(value))
    throw ArgumentError(op, argument, "be 0 or more and finite", std::to_string(value));
  return value;
}

}  // namespace

LaunchNote::LaunchNote(std::string text) : text_(std::move(text)), previous_(t_note) { t_note = &text_; }
LaunchNote::~LaunchNote() { t_note = previous_; }
const std::string* LaunchNote::current() { return t_note; }

const char* name(KernelState state) {
  switch (state) {
    case KernelState::queued: return "Queued";
    case KernelState::launched: return "Launched";
    case KernelState::completed: return "Completed";
    case KernelState::failed: return "Failed";
    case KernelState::cancelled: break;
  }
  return "Cancelled";
}

// State

DispatchController::State::State(Clock& of)
    : clock(of), generation(files::fork_generation()), pacing(PacingConfig{}, of) {}

DispatchController::State::Tenant& DispatchController::State::tenant(const char* op, TenantId id) {
  auto found = tenants.find(id);
  if (found == tenants.end()) throw ArgumentError(op, "tenant", "be a tenant of this controller", std::to_string(id));
  return found->second;
}

DispatchController::State::StreamEntry* DispatchController::State::entry(uint64_t first_id) {
  auto found = streams.find(first_id);
  return found == streams.end() ? nullptr : &found->second;
}

DispatchController::State::StreamEntry* DispatchController::State::entry(const driver::Stream& stream) {
  return entry(stream.first_id());
}

void DispatchController::State::drop_stream(uint64_t first_id) {
  streams.erase(first_id);
  pacing.release_stream(static_cast<int64_t>(first_id));
  if (streams.empty() && flights.empty()) {
    spare.clear();
    last_end.reset();
  }
}

void DispatchController::State::drop_expired() {
  for (auto at = streams.begin(); at != streams.end();) {
    const uint64_t id = at->first;
    const bool gone = at->second.first.expired();
    ++at;
    if (gone) drop_stream(id);
  }
}

DispatchController::State::StreamEntry* DispatchController::State::take(StreamControl* self,
                                                                        const std::shared_ptr<driver::Stream>& stream,
                                                                        Streams& held) {
  auto control = [&](driver::Stream& of) {
    StreamControl* now = nullptr;
    return of.control.compare_exchange_strong(now, self) || now == self;
  };
  if (!control(*stream)) return nullptr;
  StreamEntry& entry = streams[stream->first_id()];
  if (entry.attachment == 0) entry.attachment = ++next_attachment;
  entry.first = stream->first_id() == stream->id() ? stream : stream->first();
  Streams added{stream};
  if (auto first = stream->first().lock(); first != nullptr && control(*first)) added.push_back(std::move(first));
  for (const auto& one : added) {
    std::erase_if(entry.streams, [&](const auto& known) {
      return known.expired() || (!known.owner_before(one) && !one.owner_before(known));
    });
    entry.streams.push_back(one);
  }
  held.insert(held.end(), added.begin(), added.end());
  return &entry;
}

void DispatchController::State::let_pass(StreamEntry& entry) {
  entry.in_flight = 0;
  entry.attachment = ++next_attachment;
}

void DispatchController::State::settle_entry(StreamControl* self, uint64_t first_id, Streams& held) {
  const StreamEntry* known = entry(first_id);
  if (known == nullptr || known->in_use()) return;
  for (const auto& stream : known->streams) {
    StreamControl* now = self;
    if (auto alive = stream.lock()) {
      alive->control.compare_exchange_strong(now, nullptr);
      held.push_back(std::move(alive));
    }
  }
  drop_stream(first_id);
}

TenantId DispatchController::State::turns_of(TenantId id) const {
  auto found = tenants.find(id);
  return found == tenants.end() || found->second.options.weight > 0 ? id : found->second.turns;
}

void DispatchController::State::set_weight(TenantId id, Tenant& of, double weight) {
  of.options.weight = weight;
  if (!(weight > 0))
    fair.remove(id);
  else if (fair.has(id))
    fair.set_weight(id, weight);
  else
    fair.add(id, weight);
}

TenantUsage DispatchController::State::usage_of(TenantId id, const Tenant& of) const {
  TenantUsage usage = of.usage;
  usage.id = id;
  usage.name = of.options.name;
  usage.weight = of.options.weight;
  usage.bytes_per_second = of.options.bytes_per_second;
  for (const auto& [stream, entry] : streams) usage.streams += entry.tenant() == id ? 1 : 0;
  for (const auto& [ticket, flight] : flights) {
    if (flight.record.tenant != id) continue;
    ++(moves_bytes(flight.record.kind) ? usage.pending_copies : usage.pending_kernels);
  }
  return usage;
}

void DispatchController::State::tell(Lock& lock, Notice notice, const LaunchRecord& record) {
  if (observers == nullptr) return;
  const std::shared_ptr<const Observers> all = observers;
  const LaunchRecord copy = record;
  lock.unlock();
  for (const auto& observer : *all) ((*observer).*notice)(copy);
  lock.lock();
}

// Controller

DispatchController& DispatchController::of(Device device) {
  struct Slot {
    Device device;
    DispatchController* controller;
  };
  struct Registry {
    explicit Registry(uint64_t of) : generation(of) {}
    const uint64_t generation;
    std::mutex mutex;
    std::vector<Slot> slots;
  };
  static std::atomic<Registry*> current{nullptr};
  Registry* seen = current.load(std::memory_order_acquire);
  const uint64_t generation = files::fork_generation();
  // A forked child starts anew: the old locks may be taken there, and what was in flight never ends.
  while (seen == nullptr || seen->generation != generation) {
    auto* fresh = new Registry(generation);
    if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) {
      seen = fresh;
      break;
    }
    delete fresh;
  }
  std::lock_guard lock(seen->mutex);
  for (const Slot& slot : seen->slots)
    if (slot.device == device) return *slot.controller;
  return *seen->slots.emplace_back(device, new DispatchController).controller;
}

DispatchController::DispatchController(Clock& clock) : state_(std::make_shared<State>(clock)) {}

DispatchController::~DispatchController() {
  State::Streams held;  // goes after the lock
  State::Lock lock(state_->mutex);
  state_->closed = "the dispatch controller is gone";
  state_->wake_all();
  state_->changed.wait(lock, [&] { return state_->waiting == 0 && state_->submitting == 0; });
  for (auto& [id, entry] : state_->streams) {
    for (const auto& known : entry.streams) {
      StreamControl* self = this;
      if (auto stream = known.lock()) {
        stream->control.compare_exchange_strong(self, nullptr);
        held.push_back(std::move(stream));
      }
    }
  }
  state_->streams.clear();
  state_->observers.reset();
}

TenantId DispatchController::add_tenant(const TenantOptions& options) {
  amount("add_tenant", "weight", options.weight);
  amount("add_tenant", "bytes_per_second", options.bytes_per_second);
  std::lock_guard lock(state_->mutex);
  const TenantId id = ++state_->next_tenant;
  State::Tenant& added = state_->tenants[id];
  added.options = options;
  added.bucket = TokenBucket(options.bytes_per_second);
  state_->set_weight(id, added, options.weight);
  return id;
}

void DispatchController::set_weight(TenantId id, double weight) {
  amount("set_weight", "weight", weight);
  std::lock_guard lock(state_->mutex);
  State::Tenant& tenant = state_->tenant("set_weight", id);
  // Who waits for a turn that no longer exists starts over as free.
  if (!(weight > 0)) tenant.queue.clear();
  state_->set_weight(id, tenant, weight);
  state_->wake_all();
}

void DispatchController::set_bytes_per_second(TenantId id, double bytes_per_second) {
  amount("set_bytes_per_second", "bytes_per_second", bytes_per_second);
  std::lock_guard lock(state_->mutex);
  State::Tenant& tenant = state_->tenant("set_bytes_per_second", id);
  tenant.options.bytes_per_second = bytes_per_second;
  tenant.bucket.set_rate(bytes_per_second, state_->clock.now_ns());
  state_->wake_all();
}

bool DispatchController::set_turns(TenantId id, TenantId other) {
  std::lock_guard lock(state_->mutex);
  auto found = state_->tenants.find(id);
  if (found == state_->tenants.end() || (other != kNoTenant && !state_->tenants.contains(other))) return false;
  found->second.turns = other;
  return true;
}

void DispatchController::remove_tenant(TenantId id) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  state_->tenant("remove_tenant", id);
  std::vector<uint64_t> left;
  for (auto& [first_id, entry] : state_->streams) {
    const bool its_own = entry.tenant() == id;
    if (entry.member == id) entry.member = kNoTenant;
    if (entry.options.tenant == id) {
      entry.attached = false;
      entry.options = {};
      state_->pacing.release_stream(static_cast<int64_t>(first_id));
    }
    if (its_own && !entry.attached) state_->let_pass(entry);
    if (!entry.in_use()) left.push_back(first_id);
  }
  for (uint64_t first_id : left) state_->settle_entry(this, first_id, held);
  for (auto& [other_id, tenant] : state_->tenants)
    if (tenant.turns == id) tenant.turns = kNoTenant;
  state_->wake_all();
  state_->fair.remove(id);
  state_->tenants.erase(id);
}

void DispatchController::attach(const std::shared_ptr<driver::Stream>& stream, const StreamOptions& options) {
  amount("attach", "launch_bandwidth", options.launch_bandwidth);
  if (options.max_in_flight < 0)
    throw ArgumentError("attach", "max_in_flight", "be 0 (no limit) or more", std::to_string(options.max_in_flight));
  State::Streams held;  // goes after the lock
  {
    std::lock_guard lock(state_->mutex);
    if (options.tenant != kNoTenant) state_->tenant("attach", options.tenant);
    state_->drop_expired();
    State::StreamEntry* entry = state_->take(this, stream, held);
    if (entry == nullptr) throw Error("attach: the stream is already under another control");
    const auto pacing_id = static_cast<int64_t>(stream->first_id());
    if (!(options.launch_bandwidth > 0)) {
      state_->pacing.release_stream(pacing_id);
    } else if (!state_->pacing.allocate_stream(pacing_id, options.launch_bandwidth)) {
      state_->settle_entry(this, stream->first_id(), held);
      throw ArgumentError("attach", "launch_bandwidth",
                          "be at most " + std::to_string(state_->pacing.stats().available_bandwidth) + ", what is left",
                          std::to_string(options.launch_bandwidth));
    }
    entry->options = options;
    entry->attached = true;
    state_->wake_all();
  }
  follow(stream);
}

/// The stream that has the work now is under the same control. A later move finds the first one's control and tells.
void DispatchController::follow(const std::shared_ptr<driver::Stream>& stream) {
  State::Streams held;  // goes after the lock
  const std::shared_ptr<driver::Stream> first = stream->first().lock();
  // Without our lock: a move tells us while it has the group's.
  const std::shared_ptr<driver::Stream> now = runtime::stand_in(first != nullptr ? *first : *stream);
  if (now == nullptr || now == stream) return;
  std::lock_guard lock(state_->mutex);
  if (state_->entry(*now) != nullptr) state_->take(this, now, held);
}

void DispatchController::detach(const std::shared_ptr<driver::Stream>& stream) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(*stream);
  if (entry == nullptr) return;
  if (entry->attached) {
    state_->let_pass(*entry);
    entry->attached = false;
    entry->options = {};
    state_->pacing.release_stream(static_cast<int64_t>(stream->first_id()));
  }
  state_->settle_entry(this, stream->first_id(), held);
  state_->wake_all();
}

bool DispatchController::join(const std::shared_ptr<driver::Stream>& stream, TenantId tenant) {
  State::Streams held;  // goes after the lock
  {
    std::lock_guard lock(state_->mutex);
    state_->tenant("join", tenant);
    state_->drop_expired();
    State::StreamEntry* entry = state_->take(this, stream, held);
    if (entry == nullptr) return false;
    entry->member = tenant;
    state_->wake_all();
  }
  follow(stream);
  return true;
}

void DispatchController::leave(const std::shared_ptr<driver::Stream>& stream) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(*stream);
  if (entry == nullptr || entry->member == kNoTenant) return;
  entry->member = kNoTenant;
  if (!entry->attached) state_->let_pass(*entry);
  state_->settle_entry(this, stream->first_id(), held);
  state_->wake_all();
}

bool DispatchController::watch(const std::shared_ptr<driver::Stream>& stream) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  state_->drop_expired();
  State::StreamEntry* entry = state_->take(this, stream, held);
  if (entry != nullptr) entry->watched = true;
  return entry != nullptr;
}

void DispatchController::unwatch(const std::shared_ptr<driver::Stream>& stream) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(*stream);
  if (entry == nullptr || !entry->watched) return;
  entry->watched = false;
  state_->settle_entry(this, stream->first_id(), held);
  state_->wake_all();
}

void DispatchController::moved(const std::shared_ptr<driver::Stream>&, const std::shared_ptr<driver::Stream>& to) {
  State::Streams held;  // goes after the lock
  std::lock_guard lock(state_->mutex);
  if (state_->entry(*to) != nullptr) state_->take(this, to, held);
}

bool DispatchController::attached(const driver::Stream& stream) const {
  std::lock_guard lock(state_->mutex);
  const State::StreamEntry* entry = state_->entry(stream);
  return entry != nullptr && (entry->attached || entry->member != kNoTenant);
}

void DispatchController::cancel_waiting(const driver::Stream& stream, const std::string& why) {
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(stream);
  if (entry == nullptr) return;
  ++entry->cancels;
  entry->why = why;
  state_->wake_all();
}

void DispatchController::add_observer(std::shared_ptr<LaunchObserver> observer) {
  std::lock_guard lock(state_->mutex);
  auto changed = std::make_shared<State::Observers>();
  if (state_->observers != nullptr) *changed = *state_->observers;
  changed->push_back(std::move(observer));
  state_->observers = std::move(changed);
}

void DispatchController::remove_observer(const std::shared_ptr<LaunchObserver>& observer) {
  std::lock_guard lock(state_->mutex);
  if (state_->observers == nullptr) return;
  auto changed = std::make_shared<State::Observers>(*state_->observers);
  std::erase(*changed, observer);
  if (changed->empty()) changed.reset();
  state_->observers = std::move(changed);
}

// What it knows

int64_t DispatchController::in_flight(const driver::Stream& stream) const {
  std::lock_guard lock(state_->mutex);
  const State::StreamEntry* entry = state_->entry(stream);
  return entry == nullptr ? 0 : entry->in_flight;
}

int64_t DispatchController::waiting() const {
  std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

void DispatchController::drain() const {
  State::Lock lock(state_->mutex);
  while (!state_->flights.empty()) {
    state_->changed.wait_for(lock, std::chrono::milliseconds(50));
    lock.unlock();
    runtime::check_interrupt();
    lock.lock();
  }
}

TenantUsage DispatchController::usage(TenantId id) const {
  std::lock_guard lock(state_->mutex);
  return state_->usage_of(id, state_->tenant("usage", id));
}

std::vector<TenantUsage> DispatchController::usage() const {
  std::lock_guard lock(state_->mutex);
  std::vector<TenantUsage> list;
  for (const auto& [id, tenant] : state_->tenants) list.push_back(state_->usage_of(id, tenant));
  return list;
}

std::vector<KernelStatistics> DispatchController::kernel_statistics() const {
  std::vector<KernelStatistics> list;
  {
    std::lock_guard lock(state_->mutex);
    for (const auto& [name, statistics] : state_->kernels) list.push_back(statistics);
  }
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.total_us > b.total_us; });
  return list;
}

std::vector<LaunchRecord> DispatchController::records(size_t limit) const {
  std::lock_guard lock(state_->mutex);
  const size_t skipped = state_->over.size() - std::min(limit, state_->over.size());
  std::vector<LaunchRecord> list(state_->over.begin() + static_cast<std::ptrdiff_t>(skipped), state_->over.end());
  for (const auto& [ticket, flight] : state_->flights) list.push_back(flight.record);
  return list;
}

void DispatchController::reset_statistics() {
  std::lock_guard lock(state_->mutex);
  state_->over.clear();
  state_->kernels.clear();
  for (auto& [id, tenant] : state_->tenants) tenant.usage = {};
}

}  // namespace gpukit::scheduler
