// The moves of tasks between states and queues. The scheduler's lock is held throughout.
#include <algorithm>
#include <utility>

#include "gpukit/scheduler/inspect/trace_tasks.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

namespace {

constexpr int64_t kPriorityLimit = 1000;
const char* reason_of(Failure failure) {
  switch (failure) {
    case Failure::none: return "";
    case Failure::work: return "work failed";
    case Failure::dependency: return "dependency failed";
    case Failure::deadline: return "deadline";
    case Failure::cancelled: return "cancelled";
  }
  return "";
}

}  // namespace

Task* Scheduler::lookup(std::string_view id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? nullptr : found->second.get();
}

void Scheduler::note(const Task& task, const char* action, const char* reason, int64_t now, std::string_view detail) {
  log_.add("scheduler", action, reason, task.spec.id, task.spec.memory_bytes, available(), now, detail);
}

// Ranks, see the header.

int64_t Scheduler::start_rank(const TaskSpec& spec, uint64_t sequence) const {
  const auto number = static_cast<int64_t>(sequence);
  switch (spec.policy) {
    case TaskPolicy::fifo: return number;
    case TaskPolicy::sjf: return number + std::min(spec.expected_ns / 1'000'000, config_.aging);
    case TaskPolicy::priority:
      return number - std::clamp(spec.priority, -kPriorityLimit, kPriorityLimit) * config_.aging;
  }
  return number;
}

int64_t Scheduler::grant_rank(const TaskSpec& spec, uint64_t sequence) const {
  return start_rank(spec, sequence) - scheduler::priority(spec.qos_class) / 50 * config_.aging;
}

// Memory and queues

void Scheduler::move_to(Task& task, TaskPhase phase) {
  if (!may_become(task.phase, phase))
    throw Error("task '" + task.spec.id + "': " + name(task.phase) + " cannot become " + name(phase));
  --counts_[static_cast<size_t>(task.phase)];
  task.phase = phase;
  ++counts_[static_cast<size_t>(phase)];
}

void Scheduler::hold_memory(Task& task) {
  task.reserved = true;
  reserved_memory_ += task.spec.memory_bytes;
}

void Scheduler::release_memory(Task& task) {
  if (!task.reserved) return;
  task.reserved = false;
  reserved_memory_ -= task.spec.memory_bytes;
}

/// Whether a task may take its memory at once, before or past those that wait.
bool Scheduler::can_hold(const TaskSpec& spec, uint64_t sequence) const {
  if (spec.memory_bytes == 0) return true;
  if (!fits(spec.memory_bytes)) return false;
  const Task* first = waiting_.first();
  return first == nullptr || first->overtaken < config_.max_overtakes || grant_rank(spec, sequence) < first->rank;
}

void Scheduler::ask_for_memory(Task& task, int64_t now) {
  task.rank = grant_rank(task.spec, task.sequence);
  if (!can_hold(task.spec, task.sequence)) {
    waiting_.push(&task);
    return;
  }
  if (Task* first = task.spec.memory_bytes > 0 ? waiting_.first() : nullptr;
      first != nullptr && starts_before(*first, task))
    note_overtake(*first, task, now);
  hold_memory(task);
  make_ready(task);
}

void Scheduler::note_overtake(Task& first, const Task& other, int64_t now) {
  ++first.overtaken;
  note(other, "grant", "fits past the first", now, first.spec.id);
}

void Scheduler::grant(int64_t now) {
  while (Task* first = waiting_.first()) {
    Task* next = first;
    if (!fits(first->spec.memory_bytes)) {
      if (first->overtaken >= config_.max_overtakes) return;
      next = waiting_.first_fitting(available());
      if (next == nullptr) return;
      note_overtake(*first, *next, now);
    }
    waiting_.erase(next);
    hold_memory(*next);
    make_ready(*next);
  }
}

void Scheduler::make_ready(Task& task) {
  move_to(task, TaskPhase::pending);
  task.rank = start_rank(task.spec, task.sequence);
  (task.external ? ready_external_ : ready_).push(&task);
  if (!task.external) work_ready_.notify_one();
}

void Scheduler::leave_queue(Task& task) {
  if (task.heap_at == Task::kNotInHeap) return;
  if (task.phase == TaskPhase::queued)
    waiting_.erase(&task);
  else
    (task.external ? ready_external_ : ready_).erase(&task);
}

void Scheduler::forget_missing(Task& task) {
  for (const std::string& id : task.missing) {
    const auto found = missing_.find(id);
    found->second.erase(&task);
    if (found->second.empty()) missing_.erase(found);
  }
  task.missing.clear();
}

// Running and ending

void Scheduler::begin(Task& task, int64_t now) {
  leave_queue(task);
  forget_missing(task);
  move_to(task, TaskPhase::running);
  task.started_ns = now;
  ++started_;
  total_wait_s_ += static_cast<double>(now - task.submitted_ns) * 1e-9;
  note(task, "start", "first in order", now);
}

void Scheduler::end_one(Task& task, TaskPhase phase, Failure failure, std::string&& error, int64_t now,
                        Garbage& garbage, std::vector<Broken>& broken) {
  leave_queue(task);
  forget_missing(task);
  move_to(task, phase);
  release_memory(task);
  task.failure = failure;
  task.error = std::move(error);
  task.finished_ns = now;
  if (task.deadline_ns >= 0) deadlines_.erase({task.deadline_ns, task.sequence});
  if (task.started_ns >= 0) {
    ++executed_;
    total_execution_s_ += static_cast<double>(now - task.started_ns) * 1e-9;
  }
  if (task.spec.work) garbage.work.push_back(std::exchange(task.spec.work, nullptr));
  note(task, name(phase), reason_of(failure), now, task.error);
  if (&clock_ == &real_clock()) note_ended_task(listed_.number(), task);

  for (std::shared_ptr<Task>& dependant : std::exchange(task.dependants, {})) {
    if (is_terminal(dependant->phase)) continue;
    if (phase != TaskPhase::completed)
      broken.push_back({std::move(dependant), broken_dependency(task)});
    else if (--dependant->unmet == 0)
      ask_for_memory(*dependant, now);
  }

  ended_tasks_.push_back(task.shared_from_this());
  while (ended_tasks_.size() > config_.history) {
    tasks_.erase(ended_tasks_.front()->spec.id);
    garbage.collect(std::move(ended_tasks_.front()));
    ended_tasks_.pop_front();
  }
}

void Scheduler::finish(Task& task, TaskPhase phase, Failure failure, std::string error, int64_t now, Garbage& garbage) {
  std::vector<Broken> broken;
  end_one(task, phase, failure, std::move(error), now, garbage, broken);
  for (size_t i = 0; i < broken.size(); ++i) {
    const std::shared_ptr<Task> dependant = broken[i].task;
    if (is_terminal(dependant->phase)) continue;
    std::string reason = std::move(broken[i].reason);
    end_one(*dependant, TaskPhase::failed, Failure::dependency, std::move(reason), now, garbage, broken);
  }
  grant(now);
  ended_.notify_all();
}

bool Scheduler::finish_running(Task& task, TaskPhase phase, std::string error, int64_t now, Garbage& garbage) {
  Failure failure = phase == TaskPhase::completed ? Failure::none : Failure::work;
  const bool kept = task.stop_reason == Failure::none;
  if (task.stop_reason == Failure::deadline) {
    phase = TaskPhase::failed;
    failure = Failure::deadline;
    error = "ran past its deadline";
  } else if (task.stop_reason == Failure::cancelled) {
    phase = TaskPhase::cancelled;
    failure = Failure::cancelled;
    error = "cancelled while it ran";
  }
  finish(task, phase, failure, std::move(error), now, garbage);
  return kept;
}

bool Scheduler::cancel_one(Task& task, int64_t now, Garbage& garbage) {
  if (is_terminal(task.phase)) return false;
  if (task.in_work) {
    if (task.stop_reason == Failure::none) task.stop_reason = Failure::cancelled;
    task.stop.store(true, std::memory_order_release);
    note(task, "stop", "cancelled", now);
    return true;
  }
  finish(task, TaskPhase::cancelled, Failure::cancelled,
         task.phase == TaskPhase::running ? "cancelled while it ran" : "cancelled before it ran", now, garbage);
  return true;
}

void Scheduler::expire(int64_t now, Garbage& garbage) {
  while (!deadlines_.empty() && deadlines_.begin()->first.first <= now) {
    Task& task = *deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    task.stop.store(true, std::memory_order_release);
    if (task.phase == TaskPhase::running) {
      if (task.stop_reason == Failure::none) task.stop_reason = Failure::deadline;
      note(task, "stop", "deadline", now);
    } else {
      finish(task, TaskPhase::failed, Failure::deadline, "its deadline passed before it started", now, garbage);
    }
  }
}

int64_t Scheduler::next_look() const {
  if (deadlines_.empty()) return Clock::kForever;
  const int64_t tick = config_.tick_ns, deadline = deadlines_.begin()->first.first;
  const int64_t late = deadline % tick == 0 ? 0 : tick - deadline % tick;
  return deadline < Clock::kForever - tick ? deadline + late : deadline;
}

}  // namespace gpukit::scheduler
