// A task: what was asked for, the states it goes through, and what is known about it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/base/error.h"
#include "gpukit/scheduler/tasks/qos.h"

namespace gpukit::scheduler {

/// The one state machine. Public enums are views of it.
///
///   submit -> pending <-> queued        pending: may start now
///                |           |          queued: waits for a dependency or for memory
///                v           |
///             running        |
///              / | \         |
///   completed failed cancelled          pending and queued also end here, without having run
enum class TaskPhase : uint8_t { pending, queued, running, completed, failed, cancelled };
inline constexpr int kTaskPhases = 6;

constexpr bool is_terminal(TaskPhase phase) { return phase >= TaskPhase::completed; }
bool may_become(TaskPhase from, TaskPhase to);
const char* name(TaskPhase phase);  // "pending", ...

/// The states of runtime.scheduler.TaskState.
enum class TaskState : uint8_t { pending = 0, running = 1, completed = 2, failed = 3, cancelled = 4 };
TaskState to_state(TaskPhase phase);
const char* name(TaskState state);  // "Pending", ...

/// The states of pygpukit.scheduler.TaskState, which knows no cancelled task: it has failed.
enum class CallState : uint8_t { pending = 0, queued = 1, running = 2, completed = 3, failed = 4 };
CallState to_call_state(TaskPhase phase);
TaskPhase to_phase(CallState state);

/// How a task finds its place among those that may start; see Scheduler for the order.
enum class TaskPolicy : uint8_t { fifo = 0, sjf = 1, priority = 2 };
const char* name(TaskPolicy policy);  // "Fifo", ...

/// Why a task did not complete.
enum class Failure : uint8_t { none, work, dependency, deadline, cancelled };

struct Task;

/// What running work may ask about its task.
class TaskControl {
 public:
  TaskControl(const Task& task, const Clock& clock) : task_(task), clock_(clock) {}
  const std::string& id() const;
  /// The task was cancelled or is past its deadline: its result will be discarded, so it may stop.
  bool stop_requested() const;

 private:
  const Task& task_;
  const Clock& clock_;
};

/// A C++ function, a call of Python, a graph replay. An exception fails the task with its text.
using Work = std::function<void(const TaskControl&)>;

/// Work that throws this fails like any other, and step() or run() throws it on: the caller must stop (a signal).
class Interrupted : public Error {
 public:
  using Error::Error;
};

/// What is submitted.
struct TaskSpec {
  std::string id;  // empty: the scheduler makes one
  std::string name;
  int64_t memory_bytes = 0;
  int64_t priority = 0;
  TaskPolicy policy = TaskPolicy::priority;
  QosClass qos_class = QosClass::best_effort;  // who gets memory first when it is short
  int64_t expected_ns = 0;                     // how long it will run, for sjf
  int64_t timeout_ns = 0;                      // deadline, counted from submission; 0: none
  std::vector<std::string> dependencies;
  Work work;  // empty: the caller takes the task with take() or start() and ends it with complete() or fail()
  std::shared_ptr<void> kept;  // let go when the ended task leaves the scheduler's history
};

/// A copy of what is known about a task. Times are of the scheduler's clock, -1 while they lie ahead.
struct TaskInfo {
  std::string id, name, error;
  TaskPhase phase = TaskPhase::pending;
  TaskPolicy policy = TaskPolicy::priority;
  Failure failure = Failure::none;
  int64_t priority = 0, memory_bytes = 0;
  int64_t submitted_ns = -1, started_ns = -1, finished_ns = -1, deadline_ns = -1;
  std::vector<std::string> dependencies;
  bool reserved = false;        // holds its memory
  bool stop_requested = false;  // cancelled or past its deadline while running

  int64_t wait_ns(int64_t now_ns) const;       // submission to start, to the end, or to now
  int64_t execution_ns(int64_t now_ns) const;  // start to end or to now; 0 before the start
};

/// Nothing for a completed task. Throws DeadlineError or Error with the reason otherwise.
void throw_failure(const TaskInfo& info);

/// The record of a task. Its scheduler's lock guards what changes, `stop` apart.
struct Task : std::enable_shared_from_this<Task> {
  static constexpr size_t kNotInHeap = SIZE_MAX;

  TaskSpec spec;
  TaskPhase phase = TaskPhase::pending;
  Failure failure = Failure::none;
  bool external = false;  // submitted without work
  bool in_work = false;   // a thread of the scheduler runs its work
  bool reserved = false;
  std::atomic<bool> stop{false};
  Failure stop_reason = Failure::none;  // why `stop` is set: deadline or cancelled
  uint64_t sequence = 0;
  int64_t rank = 0;  // lower starts first
  size_t heap_at = kNotInHeap;
  int overtaken = 0;  // grants of memory to others while this one was first in line
  int unmet = 0;      // dependencies that have not ended
  int64_t submitted_ns = -1, started_ns = -1, finished_ns = -1, deadline_ns = -1;
  std::string error;
  std::vector<std::shared_ptr<Task>> dependants;
  std::vector<std::string> missing;  // dependencies nobody has submitted
};

/// Why what depends on an ended task fails: names the task and its reason.
std::string broken_dependency(const Task& dependency);

}  // namespace gpukit::scheduler
