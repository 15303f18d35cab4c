#include "gpukit/scheduler/dispatch_controller.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch_controller_state.h"

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

DispatchController::State::StreamEntry* DispatchController::State::entry(uint64_t stream_id) {
  auto found = streams.find(stream_id);
  return found == streams.end() ? nullptr : &found->second;
}

void DispatchController::State::drop_stream(uint64_t stream_id) {
  streams.erase(stream_id);
  pacing.release_stream(static_cast<int64_t>(stream_id));
  if (streams.empty() && flights.empty()) {
    spare.clear();
    last_end.reset();
  }
}

void DispatchController::State::drop_expired() {
  for (auto at = streams.begin(); at != streams.end();) {
    const uint64_t id = at->first;
    const bool gone = at->second.stream.expired();
    ++at;
    if (gone) drop_stream(id);
  }
}

DispatchController::State::StreamEntry& DispatchController::State::enter(
    const std::shared_ptr<driver::Stream>& stream) {
  StreamEntry& entry = streams[stream->id()];
  if (entry.attachment == 0) entry.attachment = ++next_attachment;
  entry.stream = stream;
  return entry;
}

void DispatchController::State::settle_entry(StreamControl* self, const std::shared_ptr<driver::Stream>& stream) {
  const StreamEntry* known = entry(stream->id());
  if (known != nullptr && (known->attached || known->watched)) return;
  stream->control.compare_exchange_strong(self, nullptr);
  drop_stream(stream->id());
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
  for (const auto& [stream, entry] : streams) usage.streams += entry.options.tenant == id ? 1 : 0;
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
  State::Lock lock(state_->mutex);
  state_->closed = "the dispatch controller is gone";
  state_->wake_all();
  state_->changed.wait(lock, [&] { return state_->waiting == 0 && state_->submitting == 0; });
  for (auto& [id, entry] : state_->streams) {
    auto stream = entry.stream.lock();
    StreamControl* self = this;
    if (stream != nullptr) stream->control.compare_exchange_strong(self, nullptr);
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

void DispatchController::remove_tenant(TenantId id) {
  std::vector<std::shared_ptr<driver::Stream>> owned;
  {
    std::lock_guard lock(state_->mutex);
    state_->tenant("remove_tenant", id);
    for (const auto& [stream_id, entry] : state_->streams)
      if (entry.options.tenant == id)
        if (auto stream = entry.stream.lock()) owned.push_back(std::move(stream));
  }
  for (const auto& stream : owned) detach(stream);
  std::lock_guard lock(state_->mutex);
  state_->fair.remove(id);
  state_->tenants.erase(id);
  state_->wake_all();
}

void DispatchController::attach(const std::shared_ptr<driver::Stream>& stream, const StreamOptions& options) {
  amount("attach", "launch_bandwidth", options.launch_bandwidth);
  if (options.max_in_flight < 0)
    throw ArgumentError("attach", "max_in_flight", "be 0 (no limit) or more", std::to_string(options.max_in_flight));
  std::lock_guard lock(state_->mutex);
  if (options.tenant != kNoTenant) state_->tenant("attach", options.tenant);
  state_->drop_expired();
  StreamControl* now = stream->control.load(std::memory_order_acquire);
  if (now != nullptr && now != this) throw Error("attach: the stream is already under another control");
  const auto pacing_id = static_cast<int64_t>(stream->id());
  if (!(options.launch_bandwidth > 0)) {
    state_->pacing.release_stream(pacing_id);
  } else if (!state_->pacing.allocate_stream(pacing_id, options.launch_bandwidth)) {
    throw ArgumentError("attach", "launch_bandwidth",
                        "be at most " + std::to_string(state_->pacing.stats().available_bandwidth) + ", what is left",
                        std::to_string(options.launch_bandwidth));
  }
  State::StreamEntry& entry = state_->enter(stream);
  entry.options = options;
  entry.attached = true;
  stream->control.store(this, std::memory_order_release);
  state_->wake_all();
}

void DispatchController::detach(const std::shared_ptr<driver::Stream>& stream) {
  std::lock_guard lock(state_->mutex);
  if (State::StreamEntry* entry = state_->entry(stream->id()); entry != nullptr && entry->attached) {
    // Whoever waits by the old rules passes freely.
    entry->attached = false;
    entry->options = {};
    entry->in_flight = 0;
    entry->attachment = ++state_->next_attachment;
    state_->pacing.release_stream(static_cast<int64_t>(stream->id()));
  }
  state_->settle_entry(this, stream);
  state_->wake_all();
}

bool DispatchController::watch(const std::shared_ptr<driver::Stream>& stream) {
  std::lock_guard lock(state_->mutex);
  state_->drop_expired();
  StreamControl* now = nullptr;
  if (!stream->control.compare_exchange_strong(now, this) && now != this) return false;
  state_->enter(stream).watched = true;
  return true;
}

void DispatchController::unwatch(const std::shared_ptr<driver::Stream>& stream) {
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(stream->id());
  if (entry == nullptr || !entry->watched) return;
  entry->watched = false;
  state_->settle_entry(this, stream);
  state_->wake_all();
}

void DispatchController::moved(const std::shared_ptr<driver::Stream>& from, const std::shared_ptr<driver::Stream>& to) {
  StreamOptions options;
  bool is_attached = false, watched = false;
  {
    std::lock_guard lock(state_->mutex);
    const State::StreamEntry* entry = state_->entry(from->id());
    if (entry == nullptr) return;
    options = entry->options;
    is_attached = entry->attached;
    watched = entry->watched;
    state_->pacing.release_stream(static_cast<int64_t>(from->id()));
  }
  if (is_attached) attach(to, options);
  if (watched) watch(to);
}

bool DispatchController::attached(const driver::Stream& stream) const {
  std::lock_guard lock(state_->mutex);
  const State::StreamEntry* entry = state_->entry(stream.id());
  return entry != nullptr && entry->attached;
}

void DispatchController::cancel_waiting(const driver::Stream& stream, const std::string& why) {
  std::lock_guard lock(state_->mutex);
  State::StreamEntry* entry = state_->entry(stream.id());
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
  const State::StreamEntry* entry = state_->entry(stream.id());
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
