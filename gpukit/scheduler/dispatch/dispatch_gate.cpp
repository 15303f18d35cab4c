// The way of one submission through a DispatchController: admitted, submitted, finished.
#include <algorithm>
#include <chrono>

#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch/dispatch_controller_state.h"

namespace gpukit::scheduler {
namespace {

constexpr int64_t kSignalSlice = 50'000'000;
// One piece of work runs and one stands behind it: the device has no gap, and the order stays ours. Short pieces may be
// more, so that the next stands there before their end is seen.
constexpr int kFairWindow = 2, kFairMost = 8;
constexpr double kFairAheadUs = 150;
constexpr size_t kSpareEvents = 128;

}  // namespace

DispatchController::State::StreamEntry* DispatchController::State::still(const Wait& wait) {
  const Flight& flight = flights.at(wait.ticket);
  if (!closed.empty()) throw Error(flight.record.name + ": not submitted: " + closed);
  StreamEntry* found = entry(wait.stream_id);
  if (found == nullptr || found->attachment != wait.attachment) return nullptr;
  if (found->cancels != wait.cancels) throw Error(flight.record.name + ": not submitted: " + found->why);
  return found;
}

bool DispatchController::State::room_for_turn() const {
  if (turn != 0) return false;
  return fair_running < kFairWindow || (fair_running < kFairMost && fair_ahead_us < kFairAheadUs);
}

void DispatchController::State::wake_turn() {
  if (fair.size() == 0 || !room_for_turn()) return;
  auto next = tenants.find(fair.pick(fair_running == 0, clock.now_ns()));
  if (next != tenants.end()) next->second.turn_changed->notify_all();
}

void DispatchController::State::wake_all() {
  changed.notify_all();
  for (auto& [id, tenant] : tenants) tenant.turn_changed->notify_all();
}

void DispatchController::State::pause(Lock& lock, Wait& wait, int64_t ns) {
  if (ns < 0)
    changed.wait_for(lock, std::chrono::nanoseconds(kSignalSlice));
  else
    clock.wait(changed, lock, clock.now_ns() + (&clock == &real_clock() ? std::min(ns, kSignalSlice) : ns));
  look_for_signals(lock, wait);
}

/// It may need a lock of the host program: not at every wake-up.
void DispatchController::State::look_for_signals(Lock& lock, Wait& wait) {
  const int64_t now = real_clock().now_ns();
  if (now - wait.checked_ns < kSignalSlice) return;
  wait.checked_ns = now;
  lock.unlock();
  try {
    runtime::check_interrupt();
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
}

void DispatchController::State::wait_for_limits(Lock& lock, Wait& wait) {
  const auto pacing_id = static_cast<int64_t>(wait.stream_id);
  Flight& flight = flights.at(wait.ticket);
  for (;;) {
    StreamEntry* stream = still(wait);
    if (stream == nullptr) return;
    auto tenant = tenants.find(flight.record.tenant);
    const bool paced = stream->options.launch_bandwidth > 0 && !moves_bytes(flight.record.kind);
    const bool metered = tenant != tenants.end() && moves_bytes(flight.record.kind);
    int64_t left = 0;
    if (stream->options.max_in_flight > 0 && stream->in_flight >= stream->options.max_in_flight) {
      left = -1;
    } else if (paced) {
      const PacingDecision decision = pacing.should_launch(pacing_id);
      left = static_cast<int64_t>(decision.retry_ms() * 1e6) + (decision.can_launch() ? 0 : 1);
      if (decision.is_throttled())
        pacing.record_throttle(pacing_id);
      else if (!decision.can_launch())
        pacing.record_wait(pacing_id);
    } else if (metered) {
      left = tenant->second.bucket.wait_ns(clock.now_ns());
    }
    if (left != 0) {
      pause(lock, wait, left);
      continue;
    }
    if (paced) pacing.record_launch(pacing_id);
    if (metered) tenant->second.bucket.take(static_cast<double>(flight.record.bytes), clock.now_ns());
    ++stream->in_flight;
    flight.counted = true;
    return;
  }
}

void DispatchController::State::wait_for_turn(Lock& lock, Wait& wait) {
  Flight& flight = flights.at(wait.ticket);
  const TenantId id = turns_of(flight.record.tenant);
  if (is_copy(flight.record.kind) || !fair.has(id)) return;
  tenants.at(id).queue.push_back(wait.ticket);
  const std::shared_ptr<std::condition_variable> turn_changed = tenants.at(id).turn_changed;
  fair.arrive(id, clock.now_ns());
  auto in_queue = [&] {
    auto found = tenants.find(id);
    if (found == tenants.end() || !fair.has(id)) return false;
    const auto& queue = found->second.queue;
    return std::find(queue.begin(), queue.end(), wait.ticket) != queue.end();
  };
  auto leave = [&] {
    if (!in_queue()) return;
    std::erase(tenants.at(id).queue, wait.ticket);
    fair.leave(id, clock.now_ns());
    wake_turn();
  };
  try {
    for (;;) {
      if (still(wait) == nullptr) return leave();
      if (!in_queue()) return;  // the tenant has no share any more
      const bool first = tenants.at(id).queue.front() == wait.ticket;
      if (first && room_for_turn() && fair.pick(fair_running == 0, clock.now_ns()) == id) break;
      // The first looks again by itself: nobody says when the place is kept for another in vain.
      turn_changed->wait_for(lock, std::chrono::nanoseconds(first ? FairShare::kHoldNs : kSignalSlice));
      look_for_signals(lock, wait);
    }
  } catch (...) {
    leave();
    throw;
  }
  tenants.at(id).queue.pop_front();
  turn_changed->notify_all();  // another thread of the tenant is the first now
  flight.charged_us = fair.start(id, clock.now_ns());
  flight.fair = true;
  flight.turns = id;
  flight.ahead_us = flight.charged_us > 0 ? flight.charged_us : kFairAheadUs;
  fair_ahead_us += flight.ahead_us;
  turn = wait.ticket;
  ++fair_running;
}

std::shared_ptr<driver::Event> DispatchController::State::take_event(Lock& lock, driver::Context& context) {
  for (size_t i = spare.size(); i-- > 0;) {
    if (&spare[i]->context() != &context) continue;
    auto event = std::move(spare[i]);
    spare.erase(spare.begin() + static_cast<std::ptrdiff_t>(i));
    return event;
  }
  lock.unlock();
  try {
    auto event = std::make_shared<driver::Event>(context, true, true);
    lock.lock();
    return event;
  } catch (...) {
    lock.lock();
    throw;
  }
}

void DispatchController::State::mark_begin(Lock& lock, uint64_t ticket, const std::shared_ptr<driver::Stream>& stream) {
  auto begin = take_event(lock, stream->context());
  auto end = take_event(lock, stream->context());
  Flight& flight = flights.at(ticket);
  flight.begin = begin;
  flight.end = std::move(end);
  // Work of tenants with shares follows each other on the device, so each is measured alone.
  std::shared_ptr<driver::Event> before = flight.fair && last_stream != stream->id() ? last_end : nullptr;
  lock.unlock();
  try {
    if (before != nullptr) stream->wait(*before);
    begin->record(*stream);
  } catch (...) {
    lock.lock();
    throw;
  }
  lock.lock();
}

uint64_t DispatchController::admit(const std::shared_ptr<driver::Stream>& stream, const char* name,
                                   runtime::SubmitKind kind, size_t bytes) {
  State& s = *state_;
  // A forked child runs without control: what its parent had in flight never ends there.
  if (s.generation != files::fork_generation()) return 0;
  State::Lock lock(s.mutex);
  State::StreamEntry* entry = s.entry(*stream);
  if (entry == nullptr) return 0;
  const uint64_t ticket = ++s.next_ticket;
  const int64_t queued = s.clock.now_ns();
  State::Wait wait{ticket, stream->first_id(), entry->attachment, entry->cancels, real_clock().now_ns()};
  {
    State::Flight& flight = s.flights[ticket];
    LaunchRecord& record = flight.record;
    record.id = ticket;
    record.name = name;
    record.kind = kind;
    record.bytes = bytes;
    record.stream_id = stream->id();
    record.tenant = entry->tenant();
    if (auto tenant = s.tenants.find(record.tenant); tenant != s.tenants.end())
      record.context = tenant->second.options.name;
    if (const std::string* note = LaunchNote::current()) record.note = *note;
    record.queued_ns = queued;
    flight.stream = stream->first_id();
    flight.attachment = entry->attachment;
    ++s.waiting;
    s.tell(lock, &LaunchObserver::on_queued, record);
  }
  try {
    s.wait_for_limits(lock, wait);
    s.wait_for_turn(lock, wait);
    s.mark_begin(lock, ticket, stream);
  } catch (...) {
    --s.waiting;
    s.wake_all();
    lock.unlock();
    s.finish(ticket, KernelState::cancelled, 0);
    throw;
  }
  --s.waiting;
  ++s.submitting;
  if (auto tenant = s.tenants.find(s.flights.at(ticket).record.tenant); tenant != s.tenants.end())
    tenant->second.usage.wait_us += static_cast<double>(s.clock.now_ns() - queued) / 1e3;
  return ticket;
}

void DispatchController::submitted(uint64_t ticket, const std::shared_ptr<driver::Stream>& stream, int code) noexcept {
  if (ticket == 0) return;
  const std::shared_ptr<State> s = state_;
  std::shared_ptr<driver::Event> end;
  {
    std::lock_guard lock(s->mutex);
    end = s->flights.at(ticket).end;
  }
  const bool made = code == 0;
  if (made) {
    try {
      end->record(*stream);
    } catch (const CudaError& error) {
      code = error.code;
    }
  }
  {
    State::Lock lock(s->mutex);
    State::Flight& flight = s->flights.at(ticket);
    if (made) {
      flight.record.launched_ns = s->clock.now_ns();
      flight.record.state = KernelState::launched;
    }
    if (s->turn == ticket) {
      s->turn = 0;
      if (code == 0) {
        s->last_end = end;
        s->last_stream = stream->id();
      }
    }
    --s->submitting;
    s->changed.notify_all();
    s->wake_turn();
    if (made) s->tell(lock, &LaunchObserver::on_launched, flight.record);
  }
  if (code != 0)
    return s->finish(ticket, code == kNotSubmitted ? KernelState::cancelled : KernelState::failed, std::max(code, 0));
  auto done = [s, ticket](int result) {
    s->finish(ticket, result == 0 ? KernelState::completed : KernelState::failed, result);
  };
  try {
    // On the CPU the work has usually run by now.
    if (stream->api().kind() == DeviceKind::cpu && end->query()) return done(0);
    runtime::Waiter::of(stream->device()).add(stream, end, done);
  } catch (const CudaError& error) {
    done(error.code);
  } catch (...) {
    // No waiter: this thread waits.
    done(runtime::code_of([&] { end->synchronize(); }));
  }
}

void DispatchController::State::finish(uint64_t ticket, KernelState state, int code) noexcept {
  std::shared_ptr<driver::Event> begin, end;
  {
    std::lock_guard lock(mutex);
    const Flight& flight = flights.at(ticket);
    begin = flight.begin;
    end = flight.end;
  }
  double device_us = -1;
  if (state == KernelState::completed) {
    try {
      device_us = 1e3 * static_cast<double>(driver::elapsed_ms(*begin, *end));
    } catch (const CudaError&) {
      // Events without times: the record says so.
    }
  }
  Lock lock(mutex);
  auto node = flights.extract(ticket);
  Flight& flight = node.mapped();
  LaunchRecord& record = flight.record;
  record.state = state;
  record.code = code;
  record.device_us = device_us;
  record.completed_ns = clock.now_ns();
  settle(flight, device_us);
  if (last_end == end) last_end.reset();
  // An event whose record failed may still be waited for.
  if (state == KernelState::completed && !streams.empty() && spare.size() < kSpareEvents) {
    spare.push_back(std::move(flight.begin));
    spare.push_back(std::move(flight.end));
  }
  count(record);
  over.push_back(record);
  if (over.size() > kRecords) over.pop_front();
  changed.notify_all();
  wake_turn();
  tell(lock, &LaunchObserver::on_completed, record);
}

/// Gives back what the flight held.
void DispatchController::State::settle(Flight& flight, double device_us) {
  const LaunchRecord& record = flight.record;
  StreamEntry* stream = entry(flight.stream);
  if (flight.counted && stream != nullptr && stream->attachment == flight.attachment) --stream->in_flight;
  if (!flight.fair) return;
  if (turn == record.id) turn = 0;
  // The sum starts anew with each idle moment: no error of rounding grows.
  fair_ahead_us = --fair_running == 0 ? 0 : fair_ahead_us - flight.ahead_us;
  double actual = device_us;
  if (record.state == KernelState::completed && actual < 0)
    actual = static_cast<double>(record.completed_ns - record.launched_ns) / 1e3;
  fair.finish(flight.turns, flight.charged_us, actual, clock.now_ns());
}

void DispatchController::State::count(const LaunchRecord& record) {
  if (record.state == KernelState::cancelled) return;
  auto found = kernels.find(record.name);
  if (found == kernels.end()) {
    found = kernels.emplace(record.name, KernelStatistics()).first;
    found->second.name = record.name;
    found->second.kind = record.kind;
  }
  KernelStatistics& kernel = found->second;
  const bool failed = record.state == KernelState::failed;
  const double us = std::max(record.device_us, 0.0);
  ++(failed ? kernel.failed : kernel.count);
  if (!failed) {
    kernel.total_us += us;
    kernel.min_us = kernel.count == 1 ? us : std::min(kernel.min_us, us);
    kernel.max_us = std::max(kernel.max_us, us);
  }
  auto tenant = tenants.find(record.tenant);
  if (tenant == tenants.end()) return;
  TenantUsage& usage = tenant->second.usage;
  if (failed) {
    ++usage.failed;
  } else if (moves_bytes(record.kind)) {
    ++usage.copies;
    usage.bytes += static_cast<int64_t>(record.bytes);
  } else {
    ++usage.kernels;
    usage.device_us += us;
  }
}

}  // namespace gpukit::scheduler
