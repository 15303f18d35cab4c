#include "gpukit/scheduler/tasks/task_call_py.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <atomic>
#include <unordered_set>

#include "gpukit/base/files.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/state.h"

namespace gpukit::python {

using scheduler::CallState;

namespace {

double now_seconds() { return static_cast<double>(files::wall_clock_ns()) * 1e-9; }

std::atomic<bool> g_forbidden{false};
/// Nonzero in a thread that is inside step() or run().
thread_local int t_stepping = 0;
/// What run_stepping raises: a KeyboardInterrupt, a SystemExit. Owned.
thread_local PyObject* t_interrupt = nullptr;

/// Python's ids of the worker threads that are inside a callable; the GIL guards it.
std::unordered_set<unsigned long>& threads_in_callables() {
  static auto* leaked = new std::unordered_set<unsigned long>;
  return *leaked;
}

std::string describe(const nb::python_error& error) {
  std::string text = nb::cast<std::string>(error.type().attr("__name__"));
  PyObject* message = PyObject_Str(error.value().ptr());
  const char* bytes = message != nullptr ? PyUnicode_AsUTF8(message) : nullptr;
  if (bytes != nullptr && *bytes != '\0') text += std::string(": ") + bytes;
  Py_XDECREF(message);
  PyErr_Clear();
  return text;
}

/// The text of what the callable raised; empty when it returned. The GIL is held.
std::string call_locked(CallTask& task, bool* interrupted) {
  task.last_launch = now_seconds();
  ++task.execution_count;
  PyObject* context = task.context.ptr();
  const bool entered = context != nullptr && PyContext_Enter(context) == 0;
  if (!entered) PyErr_Clear();
  PyObject* result = nullptr;
  call_or_park([&] { result = PyObject_CallNoArgs(task.fn.ptr()); });
  if (result != nullptr) {
    task.result = nb::steal(result);
    if (entered) PyContext_Exit(context);
    return {};
  }
  nb::python_error error;  // takes what is raised
  if (entered) PyContext_Exit(context);
  task.exception = nb::borrow(error.value());
  *interrupted = !error.matches(PyExc_Exception);
  return describe(error);
}

void init_task(CallTask* self, python::CallableObject fn, std::optional<Bytes<"Task: memory">> memory,
               std::optional<double> bandwidth, python::Shown<"TaskPolicy | str"> policy, CallState state,
               std::optional<std::string> id, double last_launch, int64_t execution_count, int64_t pacing_delay_count) {
  auto* task = new (self) CallTask;
  task->fn = std::move(fn);
  task->memory = to_bytes(memory);
  task->bandwidth = bandwidth;
  task->policy = to_policy(policy);
  task->own_state = state;
  task->id = id ? std::move(*id) : new_task_id();
  task->last_launch = last_launch;
  task->execution_count = execution_count;
  task->pacing_delay_count = pacing_delay_count;
}

void set_state(CallTask& task, CallState state) {
  if (task.record)
    task.scheduler->set_phase(task.record, scheduler::to_phase(state));
  else
    task.own_state = state;
}

int traverse_task(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const CallTask* task = nb::inst_ptr<CallTask>(self);
  Py_VISIT(task->fn.ptr());
  Py_VISIT(task->result.ptr());
  Py_VISIT(task->exception.ptr());
  Py_VISIT(task->context.ptr());
  return 0;
}

int clear_task(PyObject* self) {
  CallTask* task = nb::inst_ptr<CallTask>(self);
  task->fn.reset();
  task->result.reset();
  task->exception.reset();
  task->context.reset();
  return 0;
}

PyType_Slot task_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_task)},
                            {Py_tp_clear, reinterpret_cast<void*>(clear_task)},
                            {0, nullptr}};

}  // namespace

const char* policy_name(CallPolicy policy) {
  static constexpr const char* kNames[] = {"guaranteed", "burstable", "best_effort"};
  return kNames[static_cast<int>(policy)];
}

const char* state_name(CallState state) {
  static constexpr const char* kNames[] = {"pending", "queued", "running", "completed", "failed"};
  return kNames[static_cast<int>(state)];
}

CallPolicy to_policy(nb::handle value) {
  if (nb::isinstance<CallPolicy>(value)) return nb::cast<CallPolicy>(value);
  if (PyUnicode_Check(value.ptr()) != 0) {
    const std::string text = nb::cast<std::string>(value);
    for (CallPolicy policy : {CallPolicy::guaranteed, CallPolicy::burstable, CallPolicy::best_effort})
      if (text == policy_name(policy)) return policy;
  }
  throw ArgumentError("Scheduler.submit", "policy", "be 'guaranteed', 'burstable' or 'best_effort'", shown(value));
}

CallState CallTask::state() const { return record ? scheduler::to_call_state(scheduler->phase(*record)) : own_state; }

std::string new_task_id() {
  static std::atomic<uint32_t> next{static_cast<uint32_t>(files::wall_clock_ns() / 1000)};
  uint32_t number = next.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B1u;
  number ^= number >> 16;
  std::string id(8, '0');
  for (size_t i = 8; i-- > 0; number >>= 4) id[i] = "0123456789abcdef"[number & 15];
  return id;
}

void call_python(const std::shared_ptr<CallTask*>& here) {
  if (g_forbidden.load(std::memory_order_acquire)) park();
  PyGILState_STATE gil{};
  call_or_park([&] { gil = PyGILState_Ensure(); });
  CallTask* task = *here;
  if (task == nullptr || !task->fn.is_valid()) {
    PyGILState_Release(gil);
    throw Error("the task was destroyed before it ran");
  }
  PyObject* keep = Py_NewRef(nb::find(*task).ptr());
  const bool worker = t_stepping == 0;
  const unsigned long thread = PyThread_get_thread_ident();
  if (worker) threads_in_callables().insert(thread);
  bool interrupted = false;
  const std::string error = call_locked(*task, &interrupted);
  if (worker) threads_in_callables().erase(thread);
  interrupted = interrupted && !worker;
  if (interrupted) {
    PyObject* earlier = std::exchange(t_interrupt, Py_NewRef(task->exception.ptr()));
    Py_XDECREF(earlier);
  }
  Py_DECREF(keep);
  PyGILState_Release(gil);
  if (interrupted) throw scheduler::Interrupted(error);
  if (!error.empty()) throw Error(error);
}

void interrupt_callables() {
  for (unsigned long thread : threads_in_callables()) PyThreadState_SetAsyncExc(thread, PyExc_SystemExit);
}

void forbid_python() noexcept { g_forbidden.store(true, std::memory_order_release); }

void detail::enter_stepping() { ++t_stepping; }
void detail::leave_stepping() { --t_stepping; }

void detail::raise_interrupt() {
  PyObject* value = std::exchange(t_interrupt, nullptr);
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(value))), value, PyException_GetTraceback(value));
  throw nb::python_error();
}

}  // namespace gpukit::python

namespace gpukit {

using python::CallPolicy;
using python::CallTask;
using scheduler::CallState;

void bind_task_call(nb::module_& core) {
  nb::module_ m = core.def_submodule("_tasks", "The classes of pygpukit.scheduler.core; internal.");
  nb::enum_<CallState>(m, "TaskState", "Where a task stands.")
      .value("PENDING", CallState::pending, "May start now.")
      .value("QUEUED", CallState::queued, "Waits for a dependency or for memory.")
      .value("RUNNING", CallState::running)
      .value("COMPLETED", CallState::completed)
      .value("FAILED", CallState::failed, "Raised, was cancelled, missed its deadline, or lost a dependency.");
  nb::enum_<CallPolicy>(m, "TaskPolicy", "Who gets memory first when it is short.")
      .value("GUARANTEED", CallPolicy::guaranteed)
      .value("BURSTABLE", CallPolicy::burstable)
      .value("BEST_EFFORT", CallPolicy::best_effort);

  nb::class_<CallTask>(
      m, "Task", nb::type_slots(python::task_slots),
      "A callable with what it needs and what became of it. The object that Scheduler.get_task gives is "
      "live: it shows the task as it stands, and setting `state` moves the task.")
      .def("__init__", &python::init_task, "fn"_a, "memory"_a = nb::none(), "bandwidth"_a = nb::none(),
           "policy"_a = CallPolicy::best_effort, "state"_a = CallState::pending, "id"_a = nb::none(),
           "last_launch"_a = 0.0, "execution_count"_a = 0, "pacing_delay_count"_a = 0)
      .def_prop_ro("fn", [](const CallTask& t) { return python::CallableObject(t.fn); })
      .def_ro("id", &CallTask::id)
      .def_ro("memory", &CallTask::memory)
      .def_ro("bandwidth", &CallTask::bandwidth)
      .def_ro("policy", &CallTask::policy)
      .def_prop_rw("state", &CallTask::state, &python::set_state,
                   "Raises Error for a move that the state does not allow.")
      .def_rw("last_launch", &CallTask::last_launch, "Seconds since 1970.")
      .def_rw("execution_count", &CallTask::execution_count)
      .def_rw("pacing_delay_count", &CallTask::pacing_delay_count)
      .def_prop_ro(
          "result", [](const CallTask& t) -> python::AnyObject { return t.result.is_valid() ? t.result : nb::none(); },
          "What the callable returned; None before. Scheduler.result() also raises what it raised.")
      .def_prop_ro(
          "exception", [](const CallTask& t) -> python::ShownObject<"BaseException | None"> {
            return t.exception.is_valid() ? t.exception : nb::none();
          },
          "What the callable raised, or None.")
      .def_prop_ro(
          "stop_requested",
          [](const CallTask& t) {
            return t.record && scheduler::TaskControl(*t.record, t.scheduler->clock()).stop_requested();
          },
          "True when the task was cancelled or is past its deadline: its result will be discarded.")
      .def(
          "touch", [](CallTask& t) { t.last_launch = python::now_seconds(); }, "Sets last_launch to now.")
      .def("__repr__", [](const CallTask& t) {
        return "Task(id='" + t.id + "', state=" + python::state_name(t.state()) +
               ", policy=" + python::policy_name(t.policy) + ")";
      });
}

}  // namespace gpukit
