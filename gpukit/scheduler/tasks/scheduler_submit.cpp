// Taking tasks: checks, the decision, links to dependencies. The scheduler's lock is held throughout.
#include <algorithm>
#include <utility>

#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

void Scheduler::check(const TaskSpec& spec) const {
  constexpr const char* op = "Scheduler.submit";
  if (spec.memory_bytes < 0) throw ArgumentError(op, "memory", "not be negative", std::to_string(spec.memory_bytes));
  if (spec.timeout_ns < 0) throw ArgumentError(op, "timeout", "not be negative", std::to_string(spec.timeout_ns));
  if (spec.expected_ns < 0) throw ArgumentError(op, "expected_ms", "not be negative", std::to_string(spec.expected_ns));
  if (spec.id.empty()) return;
  if (lookup(spec.id) != nullptr) throw ArgumentError(op, "id", "not be in use", "'" + spec.id + "'");
  if (std::find(spec.dependencies.begin(), spec.dependencies.end(), spec.id) != spec.dependencies.end())
    throw ArgumentError(op, "dependencies", "not name the task itself", "'" + spec.id + "'");
  check_circle(spec);
}

/// Only a task that others named before it came can close a circle.
void Scheduler::check_circle(const TaskSpec& spec) const {
  const auto late = missing_.find(spec.id);
  if (late == missing_.end()) return;
  std::unordered_set<const Task*> seen;
  std::vector<const TaskSpec*> open{&spec};
  while (!open.empty()) {
    const TaskSpec* one = open.back();
    open.pop_back();
    for (const std::string& id : one->dependencies) {
      Task* task = lookup(id);
      if (task == nullptr || is_terminal(task->phase) || !seen.insert(task).second) continue;
      if (late->second.count(task) != 0)
        throw ArgumentError("Scheduler.submit", "dependencies", "not form a circle",
                            "'" + spec.id + "', on which '" + id + "' depends");
      open.push_back(&task->spec);
    }
  }
}

AdmissionDecision Scheduler::decide(const TaskSpec& spec) const {
  RejectReasonDetails refused{RejectReason::custom, spec.memory_bytes, config_.total_memory ? available() : INT64_MAX,
                              ""};
  if (not_started() >= config_.max_pending_tasks) {
    refused.reason = RejectReason::queue_full;
    refused.text = std::to_string(not_started()) + " tasks wait, the limit";
    return AdmissionDecision::rejected(std::move(refused));
  }
  bool waits = false;
  for (const std::string& id : spec.dependencies) {
    const Task* dependency = lookup(id);
    if (dependency == nullptr || dependency->phase == TaskPhase::completed) continue;
    if (is_terminal(dependency->phase)) {
      refused.reason = RejectReason::unsatisfiable_dependencies;
      refused.text = broken_dependency(*dependency);
      return AdmissionDecision::rejected(std::move(refused));
    }
    waits = true;
  }
  if (config_.total_memory && spec.memory_bytes > *config_.total_memory) {
    refused.reason = RejectReason::insufficient_memory;
    return AdmissionDecision::rejected(std::move(refused));
  }
  if (waits || !can_hold(spec, next_sequence_)) {
    const double average_ms = executed_ > 0 ? total_execution_s_ * 1e3 / static_cast<double>(executed_) : 0.0;
    const size_t position = not_started() + 1;
    return AdmissionDecision::queued(position, average_ms * static_cast<double>(position));
  }
  return AdmissionDecision::admitted(spec.memory_bytes,
                                     Share::of_memory(spec.memory_bytes, config_.total_memory.value_or(0)).value());
}

/// Eight hexadecimal digits that differ for the first 2^32 tasks.
std::string Scheduler::new_id() {
  for (;;) {
    auto number = static_cast<uint32_t>(++next_id_) * 0x9E3779B1u;
    number ^= number >> 16;
    std::string id(8, '0');
    for (size_t i = 8; i-- > 0; number >>= 4) id[i] = "0123456789abcdef"[number & 15];
    if (lookup(id) == nullptr) return id;
  }
}

std::shared_ptr<Task> Scheduler::add(TaskSpec&& spec, Garbage& garbage) {
  const int64_t now = clock_.now_ns();
  expire(now, garbage);
  auto task = std::make_shared<Task>();
  task->spec = std::move(spec);
  if (task->spec.id.empty()) task->spec.id = new_id();
  task->external = !task->spec.work;
  task->sequence = next_sequence_++;
  task->submitted_ns = now;
  task->phase = TaskPhase::queued;
  tasks_.emplace(task->spec.id, task);
  ++counts_[static_cast<size_t>(TaskPhase::queued)];
  ++submitted_;
  if (task->spec.timeout_ns > 0) {
    task->deadline_ns = now + std::min(task->spec.timeout_ns, Clock::kForever - now - 1);
    const auto place = deadlines_.emplace(std::pair(task->deadline_ns, task->sequence), task.get()).first;
    if (place == deadlines_.begin()) {  // who sleeps until the next deadline must sleep less
      work_ready_.notify_one();
      ended_.notify_all();
    }
  }
  std::string broken;
  link(task, &broken);
  if (!missing_.empty()) link_late(task);
  if (!broken.empty()) {
    note(*task, "submit", "dependency failed", now);
    finish(*task, TaskPhase::failed, Failure::dependency, std::move(broken), now, garbage);
    return task;
  }
  if (task->unmet > 0) {
    note(*task, "hold", "dependencies", now);
  } else {
    ask_for_memory(*task, now);
    if (task->phase == TaskPhase::queued) note(*task, "hold", "memory", now);
  }
  grant(now);
  return task;
}

void Scheduler::link(const std::shared_ptr<Task>& task, std::string* broken) {
  for (const std::string& id : task->spec.dependencies) {
    Task* dependency = lookup(id);
    if (dependency == nullptr) {
      if (missing_[id].insert(task.get()).second) task->missing.push_back(id);
    } else if (!is_terminal(dependency->phase)) {
      dependency->dependants.push_back(task);
      ++task->unmet;
    } else if (dependency->phase != TaskPhase::completed && broken->empty()) {
      *broken = broken_dependency(*dependency);
    }
  }
}

/// Those that named `task` before it was submitted and have not started wait for it now.
void Scheduler::link_late(const std::shared_ptr<Task>& task) {
  const auto late = missing_.find(task->spec.id);
  if (late == missing_.end()) return;
  std::vector<Task*> waiters(late->second.begin(), late->second.end());
  std::sort(waiters.begin(), waiters.end(), [](const Task* a, const Task* b) { return a->sequence < b->sequence; });
  missing_.erase(late);
  for (Task* waiter : waiters) {
    std::erase(waiter->missing, task->spec.id);
    leave_queue(*waiter);
    if (waiter->phase == TaskPhase::pending) {
      move_to(*waiter, TaskPhase::queued);
      release_memory(*waiter);
    }
    ++waiter->unmet;
    task->dependants.push_back(waiter->shared_from_this());
  }
}

}  // namespace gpukit::scheduler
