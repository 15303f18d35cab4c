#include "gpukit/scheduler/tasks/task.h"

#include <algorithm>

namespace gpukit::scheduler {

namespace {

// kNext[from] has the bit of every phase that may follow.
constexpr unsigned bit(TaskPhase phase) { return 1u << static_cast<unsigned>(phase); }
constexpr unsigned kEnds = bit(TaskPhase::failed) | bit(TaskPhase::cancelled);
constexpr unsigned kNext[kTaskPhases] = {
    bit(TaskPhase::running) | bit(TaskPhase::queued) | kEnds,  // pending; queued: a dependency was submitted late
    bit(TaskPhase::pending) | kEnds,                           // queued
    bit(TaskPhase::completed) | kEnds,                         // running
    0,
    0,
    0,
};

}  // namespace

bool may_become(TaskPhase from, TaskPhase to) { return (kNext[static_cast<unsigned>(from)] & bit(to)) != 0; }

const char* name(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::pending: return "pending";
    case TaskPhase::queued: return "queued";
    case TaskPhase::running: return "running";
    case TaskPhase::completed: return "completed";
    case TaskPhase::failed: return "failed";
    case TaskPhase::cancelled: return "cancelled";
  }
  return "";
}

TaskState to_state(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::pending:
    case TaskPhase::queued: return TaskState::pending;
    case TaskPhase::running: return TaskState::running;
    case TaskPhase::completed: return TaskState::completed;
    case TaskPhase::failed: return TaskState::failed;
    case TaskPhase::cancelled: return TaskState::cancelled;
  }
  return TaskState::failed;
}

const char* name(TaskState state) {
  switch (state) {
    case TaskState::pending: return "Pending";
    case TaskState::running: return "Running";
    case TaskState::completed: return "Completed";
    case TaskState::failed: return "Failed";
    case TaskState::cancelled: return "Cancelled";
  }
  return "";
}

CallState to_call_state(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::pending: return CallState::pending;
    case TaskPhase::queued: return CallState::queued;
    case TaskPhase::running: return CallState::running;
    case TaskPhase::completed: return CallState::completed;
    case TaskPhase::failed:
    case TaskPhase::cancelled: return CallState::failed;
  }
  return CallState::failed;
}

TaskPhase to_phase(CallState state) {
  switch (state) {
    case CallState::pending: return TaskPhase::pending;
    case CallState::queued: return TaskPhase::queued;
    case CallState::running: return TaskPhase::running;
    case CallState::completed: return TaskPhase::completed;
    case CallState::failed: return TaskPhase::failed;
  }
  return TaskPhase::failed;
}

const char* name(TaskPolicy policy) {
  switch (policy) {
    case TaskPolicy::fifo: return "Fifo";
    case TaskPolicy::sjf: return "Sjf";
    case TaskPolicy::priority: return "Priority";
  }
  return "";
}

const std::string& TaskControl::id() const { return task_.spec.id; }

bool TaskControl::stop_requested() const {
  return task_.stop.load(std::memory_order_acquire) || (task_.deadline_ns >= 0 && clock_.now_ns() >= task_.deadline_ns);
}

int64_t TaskInfo::wait_ns(int64_t now_ns) const {
  if (submitted_ns < 0) return 0;
  const int64_t end = started_ns >= 0 ? started_ns : finished_ns >= 0 ? finished_ns : now_ns;
  return std::max<int64_t>(end - submitted_ns, 0);
}

int64_t TaskInfo::execution_ns(int64_t now_ns) const {
  if (started_ns < 0) return 0;
  return std::max<int64_t>((finished_ns >= 0 ? finished_ns : now_ns) - started_ns, 0);
}

std::string broken_dependency(const Task& dependency) {
  constexpr size_t kLongest = 200;  // characters: a reason is repeated down a chain of dependants
  return "dependency '" + dependency.spec.id + "' " + name(dependency.phase) +
         (dependency.error.empty() ? "" : ": " + dependency.error.substr(0, kLongest));
}

void throw_failure(const TaskInfo& info) {
  if (info.phase == TaskPhase::completed) return;
  const std::string text = "task '" + info.id + "' " + name(info.phase) + (info.error.empty() ? "" : ": " + info.error);
  if (info.failure == Failure::deadline) throw DeadlineError(text);
  throw Error(text);
}

}  // namespace gpukit::scheduler
