#include "gpukit/scheduler/tasks/scheduler.h"

#include <algorithm>
#include <limits>
#if __has_include(<cxxabi.h>)
#include <cxxabi.h>
#endif

#include "gpukit/base/files.h"

namespace gpukit::scheduler {

namespace {

/// The schedulers whose work runs on this thread, innermost last: a task may itself step or run.
thread_local std::vector<const Scheduler*> t_running;

/// The text of what `work` threw; empty when it returned.
std::string call(const Work& work, const TaskControl& control, std::exception_ptr* interrupted) {
  try {
    work(control);
    return {};
  } catch (const Interrupted& error) {
    *interrupted = std::current_exception();
    return error.what();
  } catch (const std::exception& error) {
    return *error.what() != '\0' ? error.what() : "the work threw an exception without text";
#ifdef __GLIBCXX__
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being ended
#endif
  } catch (...) {
    return "the work threw something that is no exception";
  }
}

}  // namespace

bool pacing_allows(double bandwidth, double last_launch_s, double now_s, double window_s) {
  return now_s - last_launch_s >= window_s * (1.0 - bandwidth);
}

Scheduler::Scheduler(const SchedulerConfig& config, Clock& clock)
    : config_(config), clock_(clock), log_(config.log_capacity) {
  constexpr const char* op = "Scheduler";
  if (config.total_memory && *config.total_memory < 0)
    throw ArgumentError(op, "total_memory", "not be negative", std::to_string(*config.total_memory));
  if (config.tick_ns <= 0)
    throw ArgumentError(op, "sched_tick_ms", "be positive", std::to_string(config.tick_ns * 1e-6));
  if (config.window_ns < 0)
    throw ArgumentError(op, "window_ms", "not be negative", std::to_string(config.window_ns * 1e-6));
  if (config.aging < 1 || config.aging > 1'000'000)
    throw ArgumentError(op, "aging", "be from 1 to 1000000", std::to_string(config.aging));
  if (config.max_overtakes < 0)
    throw ArgumentError(op, "max_overtakes", "not be negative", std::to_string(config.max_overtakes));
  if (&clock == &real_clock()) wall_offset_ns_ = files::wall_clock_ns() - clock.now_ns();
}

Scheduler::~Scheduler() {
  // A long chain of dependants must not be destroyed recursively.
  for (auto& [id, task] : tasks_) task->dependants.clear();
}

std::shared_ptr<Task> Scheduler::submit(TaskSpec spec) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  check(spec);
  if (config_.total_memory && spec.memory_bytes > *config_.total_memory)
    throw OutOfMemoryError("Scheduler.submit: task '" + spec.id + "' needs " + std::to_string(spec.memory_bytes) +
                               " bytes, the scheduler has " + std::to_string(*config_.total_memory),
                           spec.memory_bytes, reserved_memory_, *config_.total_memory);
  return add(std::move(spec), garbage);
}

AdmissionDecision Scheduler::evaluate_admission(const TaskSpec& spec) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  check(spec);
  return decide(spec);
}

AdmissionDecision Scheduler::admit(TaskSpec spec) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  check(spec);
  if (spec.id.empty()) spec.id = new_id();
  AdmissionDecision decision = decide(spec);
  const auto log = [&](const char* action, const char* reason) {
    log_.add("admission", action, reason, spec.id, spec.memory_bytes, available());
  };
  if (decision.kind == AdmissionKind::reject) {
    ++rejected_count_;
    log("reject", name(decision.rejection->reason));
    return decision;
  }
  if (decision.kind == AdmissionKind::admit) {
    ++admitted_count_;
    log("admit", "fits");
  } else {
    ++queued_count_;
    log("queue", "memory or dependencies");
  }
  add(std::move(spec), garbage);
  return decision;
}

AdmissionStats Scheduler::admission_stats() {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  AdmissionStats stats;
  stats.admitted_count = admitted_count_;
  stats.rejected_count = rejected_count_;
  stats.queued_count = queued_count_;
  stats.pending_count = not_started();
  stats.reserved_memory = reserved_memory_;
  stats.available_memory = config_.total_memory ? available() : INT64_MAX;
  stats.reserved_bandwidth = Share::of_memory(reserved_memory_, config_.total_memory.value_or(0)).value();
  stats.available_bandwidth = 1.0 - stats.reserved_bandwidth;
  return stats;
}

std::vector<std::string> Scheduler::take(size_t max) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  std::vector<std::string> ids;
  while (ids.size() < max && !ready_external_.empty()) {
    Task& task = *ready_external_.top();
    begin(task, now);
    ids.push_back(task.spec.id);
  }
  return ids;
}

bool Scheduler::may_start(std::string_view id) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  const Task* task = lookup(id);
  return task != nullptr && task->phase == TaskPhase::pending;
}

bool Scheduler::start(std::string_view id) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  Task* task = lookup(id);
  if (task == nullptr || task->phase != TaskPhase::pending) return false;
  begin(*task, now);
  return true;
}

bool Scheduler::complete(std::string_view id) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  Task* task = lookup(id);
  if (task == nullptr || task->phase != TaskPhase::running || task->in_work) return false;
  return finish_running(*task, TaskPhase::completed, "", now, garbage);
}

bool Scheduler::fail(std::string_view id, const std::string& error) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  Task* task = lookup(id);
  if (task == nullptr || is_terminal(task->phase) || task->in_work) return false;
  finish(*task, TaskPhase::failed, Failure::work, error, now, garbage);
  return true;
}

bool Scheduler::cancel(std::string_view id) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  Task* task = lookup(id);
  return task != nullptr && cancel_one(*task, now, garbage);
}

void Scheduler::set_phase(const std::shared_ptr<Task>& task, TaskPhase phase) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  if (task->phase == phase) return;
  const bool by_hand = phase == TaskPhase::running || is_terminal(phase);
  if (!by_hand || task->in_work || !may_become(task->phase, phase))
    throw Error("task '" + task->spec.id + "': " + name(task->phase) + " cannot become " + name(phase) +
                (task->in_work ? " while its work runs" : ""));
  if (phase == TaskPhase::running)
    begin(*task, now);
  else
    finish(*task, phase, phase == TaskPhase::completed ? Failure::none : Failure::work,
           phase == TaskPhase::completed ? "" : "its state was set", now, garbage);
}

bool Scheduler::run_first(Lock& lock, Garbage& garbage, std::exception_ptr& interrupted) {
  if (ready_.empty()) return false;
  const std::shared_ptr<Task> task = ready_.top()->shared_from_this();
  begin(*task, clock_.now_ns());
  task->in_work = true;
  ++running_work_;
  Work work = std::move(task->spec.work);
  task->spec.work = nullptr;
  lock.unlock();
  garbage.clear();
  t_running.push_back(this);
  std::string error = call(work, TaskControl(*task, clock_), &interrupted);
  t_running.pop_back();
  work = nullptr;
  lock.lock();
  task->in_work = false;
  --running_work_;
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  const TaskPhase phase = error.empty() ? TaskPhase::completed : TaskPhase::failed;
  finish_running(*task, phase, std::move(error), now, garbage);
  return true;
}

size_t Scheduler::run_some(size_t max, int64_t until_ns, bool* idle) {
  const size_t mine = static_cast<size_t>(std::count(t_running.begin(), t_running.end(), this));
  std::exception_ptr interrupted;
  size_t ran = 0;
  {
    Garbage garbage;
    Lock lock(mutex_);
    while (ran < max && interrupted == nullptr) {
      const int64_t now = clock_.now_ns();
      expire(now, garbage);
      if (run_first(lock, garbage, interrupted)) {
        ++ran;
        continue;
      }
      *idle = running_work_ <= mine;
      if (*idle || now >= until_ns) break;
      clock_.wait(ended_, lock, std::min(until_ns, next_look()));
    }
  }
  if (interrupted != nullptr) std::rethrow_exception(interrupted);
  return ran;
}

size_t Scheduler::step(size_t max) {
  bool idle = false;
  return run_some(max, std::numeric_limits<int64_t>::min(), &idle);
}

size_t Scheduler::run(int64_t until_ns, bool* idle) {
  bool unused = false;
  return run_some(SIZE_MAX, until_ns, idle != nullptr ? idle : &unused);
}

void Scheduler::serve(const std::atomic<bool>& stop) {
  Garbage garbage;
  Lock lock(mutex_);
  while (!stop.load(std::memory_order_acquire)) {
    expire(clock_.now_ns(), garbage);
    std::exception_ptr interrupted;  // nobody to tell here: the task has failed
    if (run_first(lock, garbage, interrupted)) continue;
    if (!garbage.empty()) {
      lock.unlock();
      garbage.clear();
      lock.lock();
      continue;
    }
    clock_.wait(work_ready_, lock, next_look());
  }
  // A notification meant for this worker must not be lost.
  if (!ready_.empty()) work_ready_.notify_one();
}

void Scheduler::wake() {
  std::lock_guard lock(mutex_);
  work_ready_.notify_all();
  ended_.notify_all();
}

bool Scheduler::wait(const Task& task, int64_t until_ns) {
  Garbage garbage;
  Lock lock(mutex_);
  for (;;) {
    const int64_t now = clock_.now_ns();
    expire(now, garbage);
    if (is_terminal(task.phase)) return true;
    if (now >= until_ns) return false;
    clock_.wait(ended_, lock, std::min(until_ns, next_look()));
  }
}

bool Scheduler::wait_idle(int64_t until_ns) {
  if (std::count(t_running.begin(), t_running.end(), this) != 0)
    throw Error("Scheduler.wait: a task cannot wait for its own scheduler to be idle");
  Garbage garbage;
  Lock lock(mutex_);
  for (;;) {
    const int64_t now = clock_.now_ns();
    expire(now, garbage);
    if (not_started() + count(TaskPhase::running) == 0) return true;
    if (now >= until_ns) return false;
    clock_.wait(ended_, lock, std::min(until_ns, next_look()));
  }
}

std::shared_ptr<Task> Scheduler::find(std::string_view id) const {
  std::lock_guard lock(mutex_);
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : found->second;
}

TaskInfo Scheduler::info(const Task& task) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  TaskInfo info;
  info.id = task.spec.id;
  info.name = task.spec.name;
  info.error = task.error;
  info.phase = task.phase;
  info.policy = task.spec.policy;
  info.failure = task.failure;
  info.priority = task.spec.priority;
  info.memory_bytes = task.spec.memory_bytes;
  info.submitted_ns = task.submitted_ns;
  info.started_ns = task.started_ns;
  info.finished_ns = task.finished_ns;
  info.deadline_ns = task.deadline_ns;
  info.dependencies = task.spec.dependencies;
  info.reserved = task.reserved;
  info.stop_requested = task.stop.load(std::memory_order_relaxed);
  return info;
}

TaskPhase Scheduler::phase(const Task& task) {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  return task.phase;
}

SchedulerStats Scheduler::stats() {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  expire(clock_.now_ns(), garbage);
  return stats_locked();
}

SchedulerStats Scheduler::stats_so_far() const {
  std::lock_guard lock(mutex_);
  return stats_locked();
}

SchedulerStats Scheduler::stats_locked() const {
  SchedulerStats stats;
  stats.total_submitted = submitted_;
  stats.pending_count = not_started();
  stats.queued_count = count(TaskPhase::queued);
  stats.running_count = count(TaskPhase::running);
  stats.completed_count = count(TaskPhase::completed);
  stats.failed_count = count(TaskPhase::failed);
  stats.cancelled_count = count(TaskPhase::cancelled);
  stats.reserved_memory = reserved_memory_;
  if (config_.total_memory) stats.available_memory = available();
  if (started_ > 0) stats.avg_wait_s = total_wait_s_ / static_cast<double>(started_);
  if (executed_ > 0) stats.avg_execution_s = total_execution_s_ / static_cast<double>(executed_);
  return stats;
}

void Scheduler::clear() {
  Garbage garbage;
  std::lock_guard lock(mutex_);
  const int64_t now = clock_.now_ns();
  std::vector<std::shared_ptr<Task>> open;
  for (const auto& [id, task] : tasks_)
    if (!is_terminal(task->phase)) open.push_back(task);
  // In the order of submission, so that the log does not depend on the hash.
  std::sort(open.begin(), open.end(), [](const auto& a, const auto& b) { return a->sequence < b->sequence; });
  for (const auto& task : open)
    if (!is_terminal(task->phase)) cancel_one(*task, now, garbage);
  for (auto& task : ended_tasks_) {
    tasks_.erase(task->spec.id);
    garbage.collect(std::move(task));
  }
  ended_tasks_.clear();
  for (TaskPhase phase : {TaskPhase::completed, TaskPhase::failed, TaskPhase::cancelled})
    counts_[static_cast<size_t>(phase)] = 0;
  submitted_ = count(TaskPhase::running);
  started_ = executed_ = 0;
  total_wait_s_ = total_execution_s_ = 0;
  admitted_count_ = rejected_count_ = queued_count_ = 0;
}

}  // namespace gpukit::scheduler
