#include "gpukit/scheduler/inspect/trace.h"

#include <algorithm>
#include <atomic>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/inspect/trace_tasks.h"
#include "gpukit/scheduler/tasks/task.h"

namespace gpukit::scheduler {

constinit std::atomic<bool> g_tasks_traced{false};

void trace_task(uint64_t scheduler, const Task& task) noexcept { Trace::instance().note_task(scheduler, task); }

namespace {

constexpr int64_t kSignalSlice = 50'000'000;

/// Small numbers for threads, in the order they first submit.
uint32_t thread_number() {
  static std::atomic<uint32_t> last{0};
  thread_local const uint32_t number = ++last;
  return number;
}

std::pair<int, uint64_t> key(Device device, uint64_t id) {
  return {static_cast<int>(device.kind) << 16 | device.index, id};
}

}  // namespace

Trace& Trace::instance() {
  static auto* trace = new Trace;
  return *trace;
}

void Trace::start(size_t capacity) {
  if (capacity == 0) throw ArgumentError("trace_start", "capacity", "be 1 or more", "0");
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::off) throw Error("trace_start: a trace runs already; call trace_stop() first");
    phase_ = Phase::on;
    capacity_ = capacity;
    data_ = {};
    data_.texts.emplace_back();
    data_.started_ns = real_clock().now_ns();
    known_texts_ = {{"", 0}};
    open_.clear();
  }
  try {
    add_process_observer(*this);
  } catch (...) {
    std::lock_guard lock(mutex_);
    phase_ = Phase::off;
    throw;
  }
  g_tasks_traced.store(true, std::memory_order_relaxed);
}

void Trace::stop(int64_t timeout_ns) {
  Clock& clock = real_clock();
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::on) throw Error("trace_stop: no trace runs");
  phase_ = Phase::ending;  // what is queued from now on is not noted
  g_tasks_traced.store(false, std::memory_order_relaxed);
  auto finish = [&] {
    lock.unlock();
    remove_process_observer(*this);
    lock.lock();
    open_.clear();
    phase_ = Phase::off;
  };
  const int64_t end = clock.now_ns() + std::min<int64_t>(timeout_ns, Clock::kForever / 2);
  try {
    while (!open_.empty()) {
      const int64_t now = clock.now_ns();
      if (now >= end) break;
      clock.wait(ended_, lock, std::min(end, now + kSignalSlice));
      lock.unlock();
      runtime::check_interrupt();
      lock.lock();
    }
  } catch (...) {
    lock.lock();
    finish();
    throw;
  }
  finish();
}

TraceStatus Trace::status() const {
  std::lock_guard lock(mutex_);
  return {phase_ != Phase::off, data_.launches.size(), data_.tasks.size(), data_.dropped};
}

TraceData Trace::data() const {
  std::lock_guard lock(mutex_);
  return data_;
}

uint32_t Trace::text(std::string_view value) {
  const auto [entry, added] = known_texts_.try_emplace(std::string(value), data_.texts.size());
  if (added) data_.texts.emplace_back(value);
  return entry->second;
}

bool Trace::room() {
  if (data_.launches.size() + data_.tasks.size() < capacity_) return true;
  ++data_.dropped;
  return false;
}

void Trace::on_stream(const runtime::ListedStream& listed) noexcept {
  try {
    std::lock_guard lock(mutex_);
    data_.labels.insert_or_assign(listed.stream->id(), listed.label);
  } catch (const std::bad_alloc&) {
    // The stream goes without a name.
  }
}

void Trace::on_queued(Device device, const LaunchRecord& record) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (phase_ == Phase::on) open_.emplace(key(device, record.id), thread_number());
  } catch (const std::bad_alloc&) {
    // It is not in the trace then.
  }
}

void Trace::on_completed(Device device, const LaunchRecord& record) noexcept {
  try {
    std::lock_guard lock(mutex_);
    const auto found = open_.find(key(device, record.id));
    if (found == open_.end()) return;  // queued before the start or after the end
    const uint32_t thread = found->second;
    open_.erase(found);
    if (open_.empty()) ended_.notify_all();
    if (!room()) return;
    TracedLaunch launch;
    launch.device = device;
    launch.id = record.id;
    launch.stream = record.stream_id;
    launch.bytes = record.bytes;
    launch.name = text(record.name);
    launch.context = text(record.context);
    launch.note = text(record.note);
    launch.thread = thread;
    launch.kind = record.kind;
    launch.state = record.state;
    launch.code = record.code;
    // It may have asked for its turn just before the start, on its way to the observer.
    launch.queued_ns = std::max(record.queued_ns, data_.started_ns);
    launch.launched_ns = record.launched_ns == 0 ? 0 : std::max(record.launched_ns, data_.started_ns);
    launch.completed_ns = record.completed_ns;
    launch.device_us = record.device_us;
    data_.launches.push_back(launch);
  } catch (const std::bad_alloc&) {
    // The process has other troubles.
  }
}

void Trace::note_task(uint64_t scheduler, const Task& task) noexcept {
  try {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::on || !room()) return;
    data_.tasks.push_back({scheduler, task.spec.id, task.spec.name, task.error, name(to_state(task.phase)),
                           task.spec.memory_bytes, task.spec.priority, task.submitted_ns, task.started_ns,
                           task.finished_ns});
  } catch (const std::bad_alloc&) {
    // As above.
  }
}

}  // namespace gpukit::scheduler
