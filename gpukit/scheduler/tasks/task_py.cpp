// The scheduler of Python callables.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpukit/base/files.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/state.h"
#include "gpukit/scheduler/tasks/scheduler.h"
#include "gpukit/scheduler/tasks/scheduler_py.h"
#include "gpukit/scheduler/tasks/task_call_py.h"
#include "gpukit/scheduler/tasks/worker.h"

namespace gpukit {

using python::Bytes;
using python::CallTask;
using scheduler::CallState;
using scheduler::Scheduler;
using scheduler::SchedulerConfig;
using scheduler::SchedulerStats;
using scheduler::Task;
using scheduler::TaskControl;
using scheduler::TaskInfo;
using scheduler::TaskPhase;
using scheduler::TaskSpec;
using scheduler::Workers;

namespace {

// What a process that ends grants the tasks that run: first to end by themselves, then after a SystemExit.
constexpr int64_t kExitGrace = 1'000'000'000, kExitWait = 3'000'000'000;

using TaskTable = std::unordered_map<std::string, nb::object>;

/// A task's place in the table, given up when the core forgets the task.
struct Place {
  std::weak_ptr<TaskTable> table;
  std::string id;
};

/// The GIL is held.
void give_up(void* context) {
  const std::unique_ptr<Place> place(static_cast<Place*>(context));
  const std::shared_ptr<TaskTable> table = place->table.lock();
  if (table == nullptr) return;
  const auto task = table->extract(place->id);  // destroyed when the table is whole again: that may run Python
}

/// Its tasks stay in the table as long as the core knows them. The GIL guards all of it but the core.
struct CallScheduler {
  std::shared_ptr<Scheduler> core;
  std::unique_ptr<Workers> workers;
  std::shared_ptr<TaskTable> table = std::make_shared<TaskTable>();

  explicit CallScheduler(const SchedulerConfig& config)
      : core(std::make_shared<Scheduler>(config)), workers(std::make_unique<Workers>(core)) {}

  /// None when unknown.
  nb::object get(const std::string& id) const {
    python::run_queued_releases();
    const auto found = table->find(id);
    return found == table->end() ? nb::none() : found->second;
  }
  CallTask* find(const std::string& id) const {
    const nb::object task = get(id);
    return task.is_none() ? nullptr : &nb::cast<CallTask&>(task);
  }
  CallTask& at(const char* op, const std::string& id) const {
    if (CallTask* task = find(id)) return *task;
    throw ArgumentError(op, "task_id", "be the id of a known task", "'" + id + "'");
  }
  std::shared_ptr<void> place_of(const std::string& id) const {
    return {new Place{table, id}, [](Place* place) { python::release_with_gil(give_up, place); }};
  }
};

/// A scheduler whose workers run, with a reference to its object.
struct Running {
  nb::object object;
  uint64_t fork_generation;
};
std::unordered_map<CallScheduler*, Running>& with_workers() {  // the GIL guards it
  static auto* leaked = new std::unordered_map<CallScheduler*, Running>;
  return *leaked;
}

void init_scheduler(CallScheduler* self, double sched_tick_ms, double window_ms,
                    std::optional<Bytes<"Scheduler: total_memory">> total_memory, size_t history) {
  SchedulerConfig config;
  config.total_memory = python::to_bytes(total_memory);
  config.tick_ns = python::to_ns("Scheduler", "sched_tick_ms", sched_tick_ms * 1e-3);
  config.window_ns = python::to_ns("Scheduler", "window_ms", window_ms * 1e-3);
  config.history = history;
  new (self) CallScheduler(config);
}

std::string submit(CallScheduler& self, python::CallableObject fn,
                   std::optional<Bytes<"Scheduler.submit: memory">> given_memory, std::optional<double> bandwidth,
                   python::Shown<"TaskPolicy | str"> policy, int64_t priority,
                   std::optional<std::vector<std::string>> dependencies, std::optional<double> timeout) {
  constexpr const char* op = "Scheduler.submit";
  const std::optional<int64_t> memory = python::to_bytes(given_memory);
  if (PyCallable_Check(fn.ptr()) == 0)
    throw nb::type_error(("Scheduler.submit: fn must be callable, got " + python::class_of(fn)).c_str());
  if (bandwidth && !(*bandwidth >= 0 && *bandwidth <= 1))
    throw ArgumentError(op, "bandwidth", "be from 0 to 1", std::to_string(*bandwidth));
  auto* task = new CallTask;
  nb::object object = nb::cast(task, nb::rv_policy::take_ownership);
  task->fn = std::move(fn);
  task->context = nb::steal(PyContext_CopyCurrent());
  task->memory = memory;
  task->bandwidth = bandwidth;
  task->policy = python::to_policy(policy);
  task->scheduler = self.core;
  TaskSpec spec;
  spec.memory_bytes = memory.value_or(0);
  spec.priority = priority;
  spec.qos_class = static_cast<scheduler::QosClass>(task->policy);
  if (timeout) spec.timeout_ns = std::max<int64_t>(python::to_ns(op, "timeout", *timeout), 1);
  if (dependencies) spec.dependencies = std::move(*dependencies);
  do task->id = python::new_task_id();
  while (self.table->count(task->id) != 0);
  spec.id = task->id;
  spec.work = [here = task->here](const TaskControl&) { python::call_python(here); };
  spec.kept = self.place_of(task->id);
  self.table->emplace(task->id, object);
  task->record = self.core->submit(std::move(spec));  // what it refuses gives its place up
  return task->id;
}

bool should_run(const CallScheduler& self, CallTask& task, double now) {
  if (task.state() != CallState::running) return false;
  if (!task.bandwidth) return true;
  const double window_s = static_cast<double>(self.core->config().window_ns) * 1e-9;
  if (scheduler::pacing_allows(*task.bandwidth, task.last_launch, now, window_s)) return true;
  ++task.pacing_delay_count;
  return false;
}

size_t run(CallScheduler& self) {
  size_t ran = 0;
  for (bool idle = false; !idle;) {
    ran +=
        python::run_stepping([&] { return self.core->run(self.core->clock().now_ns() + python::kSignalSlice, &idle); });
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  python::run_queued_releases();
  return ran;
}

bool wait(CallScheduler& self, std::optional<std::string> id, std::optional<double> timeout) {
  std::shared_ptr<Task> record;
  if (id) record = self.at("Scheduler.wait", *id).record;
  const bool over = python::wait_in_slices("Scheduler.wait", self.core->clock(), timeout, [&](int64_t until) {
    return record ? self.core->wait(*record, until) : self.core->wait_idle(until);
  });
  python::run_queued_releases();
  return over;
}

python::AnyObject result_of(CallScheduler& self, const std::string& id, std::optional<double> timeout) {
  CallTask& task = self.at("Scheduler.result", id);
  const nb::object keep = nb::find(task);
  if (!wait(self, id, timeout))
    throw DeadlineError("Scheduler.result: task '" + id + "' has not ended after " + std::to_string(*timeout) + " s");
  const TaskInfo info = self.core->info(*task.record);
  if (info.failure == scheduler::Failure::work && task.exception.is_valid()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(task.exception.ptr())), task.exception.ptr());
    throw nb::python_error();
  }
  throw_failure(info);
  return task.result.is_valid() ? task.result : nb::none();
}

bool cancel(CallScheduler& self, const std::string& id) { return self.core->cancel(id); }

void clear(CallScheduler& self) {
  self.core->clear();
  python::run_queued_releases();
}

// Workers

void start_workers(nb::handle object, int count) {
  CallScheduler& self = nb::cast<CallScheduler&>(object);
  {
    python::GilReleased released;
    self.workers->start(count);
  }
  with_workers().insert_or_assign(&self, Running{nb::borrow(object), files::fork_generation()});
}

bool stop_workers(nb::handle object, std::optional<double> timeout) {
  CallScheduler& self = nb::cast<CallScheduler&>(object);
  const int64_t limit = timeout ? python::to_ns("Scheduler.stop_workers", "timeout", *timeout) : -1;
  bool all = false;
  {
    python::GilReleased released;
    all = self.workers->stop(limit, [] {
      python::GilHeld acquired;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  const nb::object keep = nb::borrow(object);
  // A thread left to itself still uses the tasks; another call may have started new ones.
  if (all && self.workers->count() == 0) with_workers().erase(&self);
  return all;
}

/// Before the interpreter goes: waiting tasks are dropped, running ones are asked to stop, their callables get a
/// SystemExit when they take long, and what does not end even then never enters Python again.
void stop_all_workers() {
  std::vector<std::pair<CallScheduler*, nb::object>> running;
  for (auto& [self, entry] : with_workers())
    if (entry.fork_generation == files::fork_generation()) running.emplace_back(self, entry.object);
  for (auto& [self, object] : running) self->core->clear();
  const int64_t start = real_clock().now_ns();
  bool told = false, all = true;
  {
    python::GilReleased released;
    for (auto& [self, object] : running)
      all &= self->workers->stop(std::max<int64_t>(start + kExitWait - real_clock().now_ns(), 0), [&] {
        if (told || real_clock().now_ns() < start + kExitGrace) return;
        told = true;
        python::GilHeld acquired;
        python::interrupt_callables();
      });
  }
  if (!all) python::forbid_python();  // with_workers() keeps what the threads left behind use
}

// Reports

python::AnyDict stats(CallScheduler& self, const std::string& id) {
  nb::dict d;
  const CallTask* task = self.find(id);
  if (task == nullptr) return d;
  const TaskInfo info = self.core->info(*task->record);
  const int64_t now = self.core->clock().now_ns();
  d["id"] = task->id;
  d["state"] = python::state_name(to_call_state(info.phase));
  d["memory"] = task->memory;
  d["bandwidth"] = task->bandwidth;
  d["policy"] = python::policy_name(task->policy);
  d["execution_count"] = task->execution_count;
  d["pacing_delay_count"] = task->pacing_delay_count;
  d["last_launch"] = task->last_launch;
  d["wait_time"] = static_cast<double>(info.wait_ns(now)) * 1e-9;
  d["exec_time"] = static_cast<double>(info.execution_ns(now)) * 1e-9;
  d["error"] = info.error.empty() ? nb::object(nb::none()) : nb::cast(info.error);
  return d;
}

python::AnyDict global_stats(const CallScheduler& self) {
  const SchedulerStats s = self.core->stats();
  const SchedulerConfig& config = self.core->config();
  nb::dict d;
  d["task_count"] = s.total_submitted;
  d["pending_count"] = s.pending_count;
  d["running_count"] = s.running_count;
  d["completed_count"] = s.completed_count;
  d["failed_count"] = s.failed_count;
  d["cancelled_count"] = s.cancelled_count;
  d["reserved_memory"] = s.reserved_memory;
  d["available_memory"] = s.available_memory;
  d["total_memory"] = config.total_memory;
  d["sched_tick_ms"] = static_cast<double>(config.tick_ns) * 1e-6;
  d["window_ms"] = static_cast<double>(config.window_ns) * 1e-6;
  d["avg_wait_time"] = s.avg_wait_s;
  d["avg_exec_time"] = s.avg_execution_s;
  return d;
}

std::string repr(const CallScheduler& self) {
  const SchedulerStats s = self.core->stats();
  return "Scheduler(pending=" + std::to_string(s.pending_count) + ", running=" + std::to_string(s.running_count) +
         ", completed=" + std::to_string(s.completed_count) + ", reserved_memory=" + std::to_string(s.reserved_memory) +
         ", workers=" + std::to_string(self.workers->count()) + ")";
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [id, task] : *nb::inst_ptr<CallScheduler>(self)->table) Py_VISIT(task.ptr());
  return 0;
}

int clear_references(PyObject* self) {
  const TaskTable tasks = std::exchange(*nb::inst_ptr<CallScheduler>(self)->table, {});
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear_references)},
                       {0, nullptr}};

}  // namespace

void bind_task(nb::module_& core) {
  nb::module_ m = nb::borrow<nb::module_>(core.attr("_tasks"));
  nb::class_<CallScheduler>(m, "Scheduler", nb::type_slots(slots),
                            "Runs callables by dependencies, memory, priority and deadline: in this thread with step() "
                            "and run(), or in worker threads. Thread-safe.")
      .def("__init__", &init_scheduler, "sched_tick_ms"_a = 1.0, "window_ms"_a = 10.0, "total_memory"_a = nb::none(),
           nb::kw_only(), "history"_a = 10000,
           "sched_tick_ms: how finely deadlines are watched. window_ms: of should_run(). total_memory: tasks whose "
           "memory "
           "does not fit beside the others wait. history: ended tasks that can still be asked about.")
      .def(
          "submit", &submit, "fn"_a, "memory"_a = nb::none(), "bandwidth"_a = nb::none(), "policy"_a = "best_effort",
          nb::kw_only(), "priority"_a = 0, "dependencies"_a = nb::none(), "timeout"_a = nb::none(),
          "Takes a callable and gives the id of its task. It runs in a copy of the context of this call. The memory is "
          "reserved until the task ends. timeout: seconds until its deadline.")
      .def(
          "get_task",
          [](const CallScheduler& s, const std::string& id) -> python::ShownObject<"Task | None"> { return s.get(id); },
          "task_id"_a, "The live Task, None when unknown.")
      .def(
          "step",
          [](CallScheduler& s, size_t max_tasks) {
            const size_t ran = python::run_stepping([&] { return s.core->step(max_tasks); });
            python::run_queued_releases();
            return ran;
          },
          "max_tasks"_a = 10, "Runs what may start now, at most max_tasks. What a callable raises fails its task.")
      .def("run", &run, "Runs until no task can start and none runs in a worker. Gives how many ran in this thread.")
      .def("wait", &wait, "task_id"_a = nb::none(), "timeout"_a = nb::none(),
           "Waits for one task, or for all, to end. False after `timeout` seconds.")
      .def("result", &result_of, "task_id"_a, "timeout"_a = nb::none(),
           "Waits for a task and gives what its callable returned, or raises what it raised.")
      .def("cancel", &cancel, "task_id"_a,
           "A waiting task ends at once; a running one is asked to stop and its result discarded. False when it has "
           "ended.")
      .def("should_run", &should_run, "task"_a, "now"_a,
           "Whether a running task that may use the part `bandwidth` of each window may launch at the time `now`.")
      .def("start_workers", &start_workers, "count"_a = 1, "Starts threads that run tasks. All of them or none.")
      .def("stop_workers", &stop_workers, "timeout"_a = nb::none(),
           "Ends the threads after the task each of them runs. False when some did not end in `timeout` seconds.")
      .def_prop_ro("worker_count", [](const CallScheduler& s) { return s.workers->count(); })
      .def("stats", &stats, "task_id"_a, "Facts about one task; empty when unknown.")
      .def("global_stats", &global_stats)
      .def("clear", &clear, "Cancels what has not ended and forgets what has, counts included.")
      .def(
          "decision_log", [](const CallScheduler& s, uint64_t after) { return s.core->log().json_lines(after); },
          "after"_a = 0, "The decisions with a number above `after` as lines of JSON; the last 4096 are kept.")
      .def_prop_ro("task_count", [](const CallScheduler& s) { return s.core->stats().total_submitted; })
      .def_prop_ro("completed_count", [](const CallScheduler& s) { return s.core->stats().completed_count; })
      .def_prop_ro("reserved_memory", [](const CallScheduler& s) { return s.core->stats().reserved_memory; })
      .def_prop_ro(
          "available_memory", [](const CallScheduler& s) { return s.core->stats().available_memory; },
          "None without a total.")
      .def_prop_ro("total_memory", [](const CallScheduler& s) { return s.core->config().total_memory; })
      .def("__repr__", &repr);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&stop_all_workers));
}

}  // namespace gpukit
