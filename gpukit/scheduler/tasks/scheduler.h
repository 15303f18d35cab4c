// The scheduler: tasks with dependencies, priorities, memory, deadlines; run by step(), run(), worker threads or the
// caller.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gpukit/base/clock.h"
#include "gpukit/scheduler/inspect/snapshot_registry.h"
#include "gpukit/scheduler/tasks/admission.h"
#include "gpukit/scheduler/tasks/decision_log.h"
#include "gpukit/scheduler/tasks/task.h"
#include "gpukit/scheduler/tasks/task_queue.h"

namespace gpukit::scheduler {

struct SchedulerConfig {
  std::optional<int64_t> total_memory;  // none: reservations are counted but nothing waits
  int64_t tick_ns = 10'000'000;         // a waiting thread looks at deadlines at most once a tick
  int64_t window_ns = 100'000'000;      // of pacing_allows
  int64_t aging = 1000;                 // tasks that one level of priority may overtake
  int max_overtakes = 64;               // grants of memory past a task that is first in line but does not fit
  size_t history = 10'000;              // ended tasks that can still be asked about
  size_t max_pending_tasks = 1000;      // for admit() only
  size_t log_capacity = 4096;
};

struct SchedulerStats {
  uint64_t total_submitted = 0;
  size_t pending_count = 0;  // not started: pending and queued
  size_t queued_count = 0;   // the part of them that waits for a dependency or memory
  size_t running_count = 0;
  uint64_t completed_count = 0, failed_count = 0, cancelled_count = 0;
  int64_t reserved_memory = 0;
  std::optional<int64_t> available_memory;  // none without a total
  double avg_wait_s = 0, avg_execution_s = 0;
};

/// Whether work that may use the part `bandwidth` of a window may be launched at `now_s`: `window_s * (1 - bandwidth)`
/// must have passed since the last launch.
bool pacing_allows(double bandwidth, double last_launch_s, double now_s, double window_s);

/// Order. A task's rank is its number in the order of submission, lower for each level of priority by `aging` (priority
/// counts from -1000 to 1000), higher for sjf by a place for each expected millisecond, `aging` at most. Lower ranks
/// start first. Ranks do not change, so no task starves: of the tasks submitted after a task of priority p, at most
/// (1000 - p) * aging (and `aging` more if it is sjf) can have a lower rank.
///
/// Memory. A task holds its memory from submission, or from the end of its last dependency, until it ends, whichever
/// way. What does not fit waits, by rank (guaranteed and burstable tasks count as two and one levels higher). While the
/// first in line does not fit, smaller ones may be granted memory past it, `max_overtakes` times; then memory is kept
/// for it. So a task gets its memory after at most (r + 1) * (max_overtakes + 1) grants, where r counts those that come
/// before it by rank, provided that tasks which hold memory end. Nothing that holds memory waits for something that
/// needs memory.
///
/// Dependencies. One that fails or is cancelled fails its dependants with a reason that names it. One that nobody has
/// submitted counts as done; if it is submitted before the dependant starts, the dependant waits for it.
///
/// Deadlines. A task past its deadline fails. If it runs, it is asked to stop and its result is discarded.
///
/// Thread-safe. Work, and the destruction of work and of what is kept with it, happen with no lock held.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig& config = {}, Clock& clock = real_clock());
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Throws ArgumentError (id in use, dependencies in a circle, negative sizes) and OutOfMemoryError (can never fit).
  std::shared_ptr<Task> submit(TaskSpec spec);
  /// Decides whether submit() would let it start, make it wait, or refuse it, without submitting. (A task that others
  /// named as a dependency before it came takes their turn, so it may start although the decision was to wait.)
  AdmissionDecision evaluate_admission(const TaskSpec& spec);
  /// The same, and submits unless it is rejected.
  AdmissionDecision admit(TaskSpec spec);
  AdmissionStats admission_stats();

  // For tasks without work, which the caller runs. False: the state does not allow it, or the id is unknown.
  /// The ids of at most `max` tasks that may start, now running.
  std::vector<std::string> take(size_t max = 1);
  bool may_start(std::string_view id);
  bool start(std::string_view id);
  /// False as well, and the task fails, when it is past its deadline.
  bool complete(std::string_view id);
  bool fail(std::string_view id, const std::string& error);
  /// A task that has not started ends at once, as does one without work. Running work is asked to stop; the task is
  /// cancelled, its result discarded and its memory given back when it returns. For all tasks.
  bool cancel(std::string_view id);
  /// Moves a task as if by the functions above. Throws Error when the state does not allow it.
  void set_phase(const std::shared_ptr<Task>& task, TaskPhase phase);

  // For tasks with work.
  /// Runs what may start, at most `max` tasks, on this thread. Gives how many.
  size_t step(size_t max = 10);
  /// Runs work until none can start and no work runs elsewhere. Gives how many tasks this thread ran. Stops waiting for
  /// others when the clock reaches `until_ns`; `idle` says whether that is why it returned (false).
  size_t run(int64_t until_ns = Clock::kForever, bool* idle = nullptr);
  /// Runs work until `stop` is set and wake() called: the body of a worker thread.
  void serve(const std::atomic<bool>& stop);
  void wake();

  /// True when the task has ended; false when the clock has reached `until_ns` first.
  bool wait(const Task& task, int64_t until_ns = Clock::kForever);
  /// True when no task is left that has not ended.
  bool wait_idle(int64_t until_ns = Clock::kForever);

  std::shared_ptr<Task> find(std::string_view id) const;  // null when unknown or collected
  // Who looks sees deadlines that have passed.
  TaskInfo info(const Task& task);
  TaskPhase phase(const Task& task);
  SchedulerStats stats();
  /// Without the deadlines that passed since the last call: it ends no task, so it destroys no work.
  SchedulerStats stats_so_far() const;
  /// Cancels what has not ended and forgets what has, counts included. Running work is asked to stop and stays known
  /// until it returns.
  void clear();

  const SchedulerConfig& config() const { return config_; }
  Clock& clock() const { return clock_; }
  const DecisionLog& log() const { return log_; }
  /// Clock time as seconds since 1970; on another clock than the machine's, seconds of that clock.
  double to_seconds(int64_t at_ns) const { return static_cast<double>(at_ns + wall_offset_ns_) * 1e-9; }

 private:
  /// What must be destroyed after the lock is given up.
  struct Garbage {
    std::vector<Work> work;
    std::vector<std::shared_ptr<Task>> tasks;
    std::vector<std::shared_ptr<void>> kept;
    bool empty() const { return work.empty() && tasks.empty() && kept.empty(); }
    void clear() { work.clear(), tasks.clear(), kept.clear(); }
    void collect(std::shared_ptr<Task>&& task) {
      if (task->spec.kept) kept.push_back(std::move(task->spec.kept));
      tasks.push_back(std::move(task));
    }
  };
  struct Broken {
    std::shared_ptr<Task> task;
    std::string reason;
  };
  using Lock = std::unique_lock<std::mutex>;

  // Every function below needs the lock.
  void check(const TaskSpec& spec) const;
  AdmissionDecision decide(const TaskSpec& spec) const;
  std::shared_ptr<Task> add(TaskSpec&& spec, Garbage& garbage);
  std::string new_id();
  void check_circle(const TaskSpec& spec) const;
  void link(const std::shared_ptr<Task>& task, std::string* broken);
  void link_late(const std::shared_ptr<Task>& task);
  Task* lookup(std::string_view id) const;
  int64_t start_rank(const TaskSpec& spec, uint64_t sequence) const;
  int64_t grant_rank(const TaskSpec& spec, uint64_t sequence) const;
  void move_to(Task& task, TaskPhase phase);
  bool can_hold(const TaskSpec& spec, uint64_t sequence) const;
  void ask_for_memory(Task& task, int64_t now);
  void note_overtake(Task& first, const Task& other, int64_t now);
  void make_ready(Task& task);
  void leave_queue(Task& task);
  void forget_missing(Task& task);
  void hold_memory(Task& task);
  void release_memory(Task& task);
  void grant(int64_t now);
  void begin(Task& task, int64_t now);
  void finish(Task& task, TaskPhase phase, Failure failure, std::string error, int64_t now, Garbage& garbage);
  void end_one(Task& task, TaskPhase phase, Failure failure, std::string&& error, int64_t now, Garbage& garbage,
               std::vector<Broken>& broken);
  bool finish_running(Task& task, TaskPhase phase, std::string error, int64_t now, Garbage& garbage);
  bool cancel_one(Task& task, int64_t now, Garbage& garbage);
  void expire(int64_t now, Garbage& garbage);
  /// Gives the lock up while the work runs.
  bool run_first(Lock& lock, Garbage& garbage, std::exception_ptr& interrupted);
  size_t run_some(size_t max, int64_t until_ns, bool* idle);
  int64_t next_look() const;
  SchedulerStats stats_locked() const;
  bool fits(int64_t bytes) const { return !config_.total_memory || bytes <= *config_.total_memory - reserved_memory_; }
  int64_t available() const { return config_.total_memory ? *config_.total_memory - reserved_memory_ : -1; }
  size_t count(TaskPhase phase) const { return counts_[static_cast<size_t>(phase)]; }
  size_t not_started() const { return count(TaskPhase::pending) + count(TaskPhase::queued); }
  void note(const Task& task, const char* action, const char* reason, int64_t now, std::string_view detail = {});

  const SchedulerConfig config_;
  Clock& clock_;
  int64_t wall_offset_ns_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable work_ready_, ended_;
  std::unordered_map<std::string_view, std::shared_ptr<Task>> tasks_;   // keys live in the tasks
  std::unordered_map<std::string, std::unordered_set<Task*>> missing_;  // who waits for ids nobody submitted
  TaskQueue ready_, ready_external_;
  MemoryQueue waiting_;
  std::map<std::pair<int64_t, uint64_t>, Task*> deadlines_;
  std::deque<std::shared_ptr<Task>> ended_tasks_;
  uint64_t next_sequence_ = 0, next_id_ = 0;
  int64_t reserved_memory_ = 0;
  size_t counts_[kTaskPhases] = {};  // of tasks in a phase; for ended phases, ever
  size_t running_work_ = 0;          // running tasks that have work
  uint64_t submitted_ = 0, started_ = 0, executed_ = 0;
  double total_wait_s_ = 0, total_execution_s_ = 0;
  uint64_t admitted_count_ = 0, rejected_count_ = 0, queued_count_ = 0;
  DecisionLog log_;
  const Listed<Scheduler> listed_{*this};
};

}  // namespace gpukit::scheduler
