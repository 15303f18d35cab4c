// The scheduler of tasks that the caller runs.
#include "gpukit/scheduler/tasks/scheduler.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/files.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/scheduler/tasks/scheduler_py.h"
#include "gpukit/scheduler/tasks/scheduler_rate.h"

namespace gpukit {

using python::Bytes;
using scheduler::QosClass;
using scheduler::Scheduler;
using scheduler::SchedulerConfig;
using scheduler::SchedulerStats;
using scheduler::Task;
using scheduler::TaskInfo;
using scheduler::TaskPhase;
using scheduler::TaskPolicy;
using scheduler::TaskSpec;
using scheduler::TaskState;

namespace {

/// A task as submitted, or as found in a scheduler: a copy, its times in seconds since 1970.
struct TaskMeta {
  TaskSpec spec;
  TaskPhase phase = TaskPhase::pending;
  std::string error;
  double submitted_at = 0;
  std::optional<double> started_at, completed_at;
};

struct TaskStats {
  std::string id, name;
  TaskState state;
  double wait_time, exec_time;
  int64_t memory_used;
};

double now_seconds() { return static_cast<double>(files::wall_clock_ns()) * 1e-9; }

void init_meta(TaskMeta* self, std::string id, std::string name, Bytes<"TaskMeta: memory_estimate"> estimate,
               int64_t priority, std::optional<std::vector<std::string>> dependencies, std::optional<TaskPolicy> policy,
               double expected_ms, std::optional<double> timeout, QosClass qos_class) {
  if (id.empty()) throw ArgumentError("TaskMeta", "id", "not be empty", "''");
  const int64_t memory_estimate = estimate;
  if (memory_estimate < 0)
    throw ArgumentError("TaskMeta", "memory_estimate", "not be negative", std::to_string(memory_estimate));
  TaskMeta meta;
  meta.spec.id = std::move(id);
  meta.spec.name = std::move(name);
  meta.spec.memory_bytes = memory_estimate;
  meta.spec.priority = priority;
  meta.spec.policy = policy.value_or(priority != 0 ? TaskPolicy::priority : TaskPolicy::fifo);
  meta.spec.qos_class = qos_class;
  meta.spec.expected_ns = python::to_ns("TaskMeta", "expected_ms", expected_ms * 1e-3);
  if (timeout) meta.spec.timeout_ns = std::max<int64_t>(python::to_ns("TaskMeta", "timeout", *timeout), 1);
  if (dependencies) meta.spec.dependencies = std::move(*dependencies);
  meta.submitted_at = now_seconds();
  new (self) TaskMeta(std::move(meta));
}

TaskMeta meta_of(const Scheduler& scheduler, const TaskInfo& info) {
  TaskMeta meta;
  meta.spec.id = info.id;
  meta.spec.name = info.name;
  meta.spec.memory_bytes = info.memory_bytes;
  meta.spec.priority = info.priority;
  meta.spec.policy = info.policy;
  meta.spec.dependencies = info.dependencies;
  meta.phase = info.phase;
  meta.error = info.error;
  meta.submitted_at = scheduler.to_seconds(info.submitted_ns);
  if (info.started_ns >= 0) meta.started_at = scheduler.to_seconds(info.started_ns);
  if (info.finished_ns >= 0) meta.completed_at = scheduler.to_seconds(info.finished_ns);
  return meta;
}

std::optional<TaskInfo> find(Scheduler& scheduler, std::string_view id) {
  const std::shared_ptr<Task> task = scheduler.find(id);
  return task ? std::optional(scheduler.info(*task)) : std::nullopt;
}

std::optional<TaskStats> stats_of(Scheduler& scheduler, std::string_view id) {
  const std::optional<TaskInfo> info = find(scheduler, id);
  if (!info) return std::nullopt;
  const int64_t now = scheduler.clock().now_ns();
  return TaskStats{info->id,
                   info->name,
                   to_state(info->phase),
                   static_cast<double>(info->wait_ns(now)) * 1e-9,
                   static_cast<double>(info->execution_ns(now)) * 1e-9,
                   info->memory_bytes};
}

void init_scheduler(Scheduler* self, std::optional<Bytes<"Scheduler: total_memory">> total_memory, double sched_tick_ms,
                    double window_ms, int64_t aging, int max_overtakes, size_t history, size_t max_pending_tasks) {
  SchedulerConfig config;
  config.total_memory = python::to_bytes(total_memory);
  config.tick_ns = python::to_ns("Scheduler", "sched_tick_ms", sched_tick_ms * 1e-3);
  config.window_ns = python::to_ns("Scheduler", "window_ms", window_ms * 1e-3);
  config.aging = aging;
  config.max_overtakes = max_overtakes;
  config.history = history;
  config.max_pending_tasks = max_pending_tasks;
  new (self) Scheduler(config);
}

bool wait(Scheduler& self, std::optional<std::string> id, std::optional<double> timeout) {
  std::shared_ptr<Task> task;
  if (id) {
    task = self.find(*id);
    if (task == nullptr) throw ArgumentError("Scheduler.wait", "id", "be the id of a known task", "'" + *id + "'");
  }
  return python::wait_in_slices("Scheduler.wait", self.clock(), timeout,
                                [&](int64_t until) { return task ? self.wait(*task, until) : self.wait_idle(until); });
}

void bind_task_classes(nb::module_& m) {
  nb::enum_<TaskState>(m, "TaskState", nb::is_arithmetic(), "Where a task stands.")
      .value("Pending", TaskState::pending)
      .value("Running", TaskState::running)
      .value("Completed", TaskState::completed)
      .value("Failed", TaskState::failed)
      .value("Cancelled", TaskState::cancelled);
  nb::enum_<TaskPolicy>(m, "TaskPolicy", nb::is_arithmetic(), "How a task finds its place among those that may start.")
      .value("Fifo", TaskPolicy::fifo, "In the order of submission.")
      .value("Sjf", TaskPolicy::sjf, "Shorter tasks, by expected_ms, somewhat earlier.")
      .value("Priority", TaskPolicy::priority, "Higher priorities earlier; waiting makes up for a lower one.");

  nb::class_<TaskMeta>(m, "TaskMeta", "A task: what is submitted, and a copy of what a scheduler knows about it.")
      .def("__init__", &init_meta, "id"_a, "name"_a, "memory_estimate"_a = 0, "priority"_a = 0,
           "dependencies"_a = nb::none(), nb::kw_only(), "policy"_a = nb::none(), "expected_ms"_a = 0.0,
           "timeout"_a = nb::none(), "qos_class"_a = QosClass::best_effort,
           "policy: Priority when a priority is given, else Fifo. timeout: seconds from submission to the deadline. "
           "qos_class: who gets memory first when it is short.")
      .def_prop_ro("id", [](const TaskMeta& t) { return t.spec.id; })
      .def_prop_ro("name", [](const TaskMeta& t) { return t.spec.name; })
      .def_prop_ro("state", [](const TaskMeta& t) { return to_state(t.phase); })
      .def_prop_ro("policy", [](const TaskMeta& t) { return t.spec.policy; })
      .def_prop_ro("priority", [](const TaskMeta& t) { return t.spec.priority; })
      .def_prop_ro("memory_estimate", [](const TaskMeta& t) { return t.spec.memory_bytes; })
      .def_prop_ro("dependencies", [](const TaskMeta& t) { return t.spec.dependencies; })
      .def_ro("submitted_at", &TaskMeta::submitted_at, "Seconds since 1970; before submission, when it was made.")
      .def_ro("started_at", &TaskMeta::started_at)
      .def_ro("completed_at", &TaskMeta::completed_at, "When it ended, whichever way.")
      .def_prop_ro(
          "error", [](const TaskMeta& t) { return t.error.empty() ? std::nullopt : std::optional(t.error); },
          "Why it did not complete, or None.")
      .def("is_terminal", [](const TaskMeta& t) { return is_terminal(t.phase); })
      .def(
          "elapsed",
          [](const TaskMeta& t) { return std::max(t.completed_at.value_or(now_seconds()) - t.submitted_at, 0.0); },
          "Seconds since it was submitted, up to its end.")
      .def(
          "duration",
          [](const TaskMeta& t) {
            return t.started_at && t.completed_at ? std::optional(*t.completed_at - *t.started_at) : std::nullopt;
          },
          "Seconds it ran; None until it has.")
      .def("__repr__", [](const TaskMeta& t) {
        return "TaskMeta(id='" + t.spec.id + "', name='" + t.spec.name + "', state=" + name(to_state(t.phase)) +
               ", memory_estimate=" + std::to_string(t.spec.memory_bytes) +
               ", priority=" + std::to_string(t.spec.priority) + ")";
      });

  nb::class_<TaskStats>(m, "TaskStats", "Times and memory of one task.")
      .def_ro("id", &TaskStats::id)
      .def_ro("name", &TaskStats::name)
      .def_ro("state", &TaskStats::state)
      .def_ro("wait_time", &TaskStats::wait_time, "Seconds from submission to start.")
      .def_ro("exec_time", &TaskStats::exec_time, "Seconds from start to end, or to now.")
      .def_ro("memory_used", &TaskStats::memory_used)
      .def("__repr__", [](const TaskStats& s) {
        return "TaskStats(id='" + s.id + "', state=" + name(s.state) + ", wait_time=" + std::to_string(s.wait_time) +
               ", exec_time=" + std::to_string(s.exec_time) + ")";
      });
}

void bind_scheduler_classes(nb::module_& m) {
  nb::class_<SchedulerStats>(m, "SchedulerStats", "Counts, memory and mean times of a scheduler.")
      .def_ro("total_submitted", &SchedulerStats::total_submitted)
      .def_ro("pending_count", &SchedulerStats::pending_count)
      .def_ro("queued_count", &SchedulerStats::queued_count,
              "The pending ones that wait for a dependency or for memory.")
      .def_ro("running_count", &SchedulerStats::running_count)
      .def_ro("completed_count", &SchedulerStats::completed_count)
      .def_ro("failed_count", &SchedulerStats::failed_count)
      .def_ro("cancelled_count", &SchedulerStats::cancelled_count)
      .def_ro("reserved_memory", &SchedulerStats::reserved_memory)
      .def_ro("available_memory", &SchedulerStats::available_memory, "None without a total.")
      .def_ro("avg_wait_time", &SchedulerStats::avg_wait_s, "Seconds.")
      .def_ro("avg_exec_time", &SchedulerStats::avg_execution_s, "Seconds.")
      .def("__repr__", [](const SchedulerStats& s) {
        return "SchedulerStats(total_submitted=" + std::to_string(s.total_submitted) +
               ", pending_count=" + std::to_string(s.pending_count) +
               ", running_count=" + std::to_string(s.running_count) +
               ", completed_count=" + std::to_string(s.completed_count) +
               ", failed_count=" + std::to_string(s.failed_count) +
               ", cancelled_count=" + std::to_string(s.cancelled_count) +
               ", reserved_memory=" + std::to_string(s.reserved_memory) + ")";
      });

  nb::class_<Scheduler>(m, "Scheduler",
                        "Says which tasks may run now, by dependencies, memory, priority and deadline; the caller runs "
                        "them. A task holds its memory from submission (or the end of its last dependency) to its end; "
                        "what does not fit waits.")
      .def("__init__", &init_scheduler, "total_memory"_a = nb::none(), "sched_tick_ms"_a = 10.0, "window_ms"_a = 100.0,
           nb::kw_only(), "aging"_a = 1000, "max_overtakes"_a = 64, "history"_a = 10000, "max_pending_tasks"_a = 1000,
           "aging: tasks that one level of priority may overtake. max_overtakes: grants of memory past a task that is "
           "first in line. history: ended tasks that can still be asked about. max_pending_tasks: for admit().")
      .def(
          "submit", [](Scheduler& s, const TaskMeta& task) { return s.submit(task.spec)->spec.id; }, "task"_a,
          "Takes the task and gives its id. Raises MemoryError when it can never fit.")
      .def(
          "admit", [](Scheduler& s, const TaskMeta& task) { return s.admit(task.spec); }, "task"_a,
          "Decides about the task and takes it unless it is rejected.")
      .def(
          "evaluate_admission", [](Scheduler& s, const TaskMeta& task) { return s.evaluate_admission(task.spec); },
          "task"_a, "What admit() would decide.")
      .def("admission_stats", &Scheduler::admission_stats)
      .def("get_runnable_tasks", &Scheduler::take, "max_tasks"_a = 1,
           "Ids of tasks that may start, now Running. A dependency that was never submitted counts as done.")
      .def("should_run", &Scheduler::may_start, "id"_a, "True when the task may start now.")
      .def("start_task", &Scheduler::start, "id"_a, "False unless it may start now.")
      .def("complete_task", &Scheduler::complete, "id"_a,
           "False unless it is Running; False as well, and it fails, past its deadline.")
      .def("fail_task", &Scheduler::fail, "id"_a, "error"_a, "False when it has ended.")
      .def("cancel_task", &Scheduler::cancel, "id"_a, "False when it has ended.")
      .def(
          "get_task",
          [](Scheduler& s, std::string_view id) {
            const std::optional<TaskInfo> info = find(s, id);
            return info ? std::optional(meta_of(s, *info)) : std::nullopt;
          },
          "id"_a, "A copy of the task as it stands, None when unknown.")
      .def(
          "get_task_state",
          [](Scheduler& s, std::string_view id) {
            const std::shared_ptr<Task> task = s.find(id);
            return task ? std::optional(to_state(s.phase(*task))) : std::nullopt;
          },
          "id"_a)
      .def("stats", &Scheduler::stats)
      .def("task_stats", &stats_of, "id"_a)
      .def("clear", &Scheduler::clear, "Cancels what has not ended and forgets what has, counts included.")
      .def("wait", &wait, "id"_a = nb::none(), "timeout"_a = nb::none(),
           "Waits for one task, or for all, to end. False after `timeout` seconds.")
      .def(
          "decision_log", [](const Scheduler& s, uint64_t after) { return s.log().json_lines(after); }, "after"_a = 0,
          "The decisions with a number above `after` as lines of JSON; the last 4096 are kept.")
      .def_prop_ro("total_memory", [](const Scheduler& s) { return s.config().total_memory; })
      .def_prop_ro("sched_tick_ms", [](const Scheduler& s) { return static_cast<double>(s.config().tick_ns) * 1e-6; })
      .def_prop_ro("window_ms", [](const Scheduler& s) { return static_cast<double>(s.config().window_ns) * 1e-6; })
      .def("__repr__", [](Scheduler& s) {
        const SchedulerStats stats = s.stats();
        return "Scheduler(pending=" + std::to_string(stats.pending_count) +
               ", running=" + std::to_string(stats.running_count) +
               ", reserved_memory=" + std::to_string(stats.reserved_memory) + ")";
      });
}

}  // namespace

void bind_scheduler(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "scheduler");
  bind_task_classes(m);
  bind_scheduler_classes(m);
  nb::module_ top = python::runtime_module(core);
  for (const char* name : {"TaskMeta", "Scheduler", "SchedulerStats", "TaskStats"}) top.attr(name) = m.attr(name);
  top.def("_bench_scheduler", &scheduler::measure_scheduler, "pending"_a, "count"_a,
          nb::call_guard<python::GilReleased>(),
          "Tasks per second from submission to completion on one core with `pending` others waiting.");
  top.def("_bench_admission", &scheduler::measure_admission, "count"_a, nb::call_guard<python::GilReleased>(),
          "Admissions per second on one core, each with its release.");
}

}  // namespace gpukit
