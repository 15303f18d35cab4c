// KernelFuture and its kin, and the scopes of sessions.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "gpukit/python/dispatch_thread.h"
#include "gpukit/python/notify.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/scheduler/context/context_future_py.h"
#include "gpukit/scheduler/context/context_session_py.h"
#include "gpukit/scheduler/context/kernel_future.h"

namespace gpukit {

using python::AsyncRequest;
using python::SessionScopeObject;
using scheduler::AsyncExecStats;
using scheduler::FutureState;
using scheduler::KernelFuture;
using scheduler::KernelResult;
using scheduler::LaunchExtent;

namespace python {

void enter_session(nb::handle scope, scheduler::SessionOwner& owner) {
  settle_beside(owner);
  const runtime::Session outer = outer_session();
  runtime::Session inside = in_scope([&] { return owner.enter(outer); });
  try {
    push_session(scope, std::move(inside));
  } catch (...) {
    in_scope([&] { return owner.leave(outer), 0; });
    throw;
  }
}

namespace {

/// After its scope was popped.
void count_out(scheduler::SessionOwner& owner) {
  const runtime::Session outer = outer_session();
  in_scope([&] { return owner.leave(outer), 0; });
}

}  // namespace

void leave_session(nb::handle scope, scheduler::SessionOwner& owner) {
  pop_session(scope);
  count_out(owner);
}

SessionEntered::SessionEntered(const nb::object& scope) : scope_(scope) {
  enter_session(scope_, *nb::cast<SessionScopeObject&>(scope_).owner);
}

SessionEntered::~SessionEntered() {
  try {
    leave();
  } catch (...) {  // something else is on its way to the caller
  }
}

void SessionEntered::leave() {
  if (!inside_) return;
  inside_ = false;
  std::exception_ptr found;
  for (bool last = false; !last;) {
    const nb::object top = innermost_scope();
    if (!top.is_valid()) break;
    last = top.is(scope_);
    pop_session(top);
    if (!nb::isinstance<SessionScopeObject>(top)) continue;
    try {
      count_out(*nb::cast<SessionScopeObject&>(top).owner);
    } catch (...) {
      found = std::current_exception();  // the scopes around it must be left, too
    }
  }
  if (found != nullptr) std::rethrow_exception(found);
}

}  // namespace python

namespace {

/// Over before it is awaited.
struct Done {
  nb::object value;
};

nb::object enter(nb::handle self) {
  SessionScopeObject& scope = nb::cast<SessionScopeObject&>(self);
  python::enter_session(self, *scope.owner);
  return scope.value.is_none() ? nb::borrow(self) : scope.value;
}

nb::object leave(nb::handle self) {
  python::leave_session(self, *nb::cast<SessionScopeObject&>(self).owner);
  return nb::none();
}

std::array<uint32_t, 3> extent(const char* op, int64_t x, int64_t y, int64_t z) {
  for (int64_t size : {x, y, z})
    if (size < 1 || size > INT32_MAX) throw ArgumentError(op, "every size", "be 1 to 2^31 - 1", std::to_string(size));
  return {static_cast<uint32_t>(x), static_cast<uint32_t>(y), static_cast<uint32_t>(z)};
}

std::string text_of(const std::array<uint32_t, 3>& e) {
  return "(" + std::to_string(e[0]) + ", " + std::to_string(e[1]) + ", " + std::to_string(e[2]) + ")";
}

nb::typed<nb::tuple, int, int, int> tuple_of(const std::array<uint32_t, 3>& e) {
  return nb::make_tuple(e[0], e[1], e[2]);
}

template <typename F>
AsyncRequest changed(const AsyncRequest& from, F&& change) {
  AsyncRequest copy = from;
  change(copy);
  return copy;
}

KernelResult wait(const KernelFuture& future, std::optional<double> timeout) {
  if (timeout && !(*timeout >= 0))
    throw ArgumentError("KernelFuture.wait", "timeout", "be None, or seconds of 0 or more", std::to_string(*timeout));
  const int64_t limit_ns = timeout ? static_cast<int64_t>(std::fmin(*timeout * 1e9, 9e18)) : -1;
  auto result = python::in_scope([&] { return future.wait(limit_ns); });
  if (!result) throw DeadlineError("KernelFuture.wait: " + str(future) + " is not over");
  return *result;
}

python::ShownObject<"bytes | None"> output_of(const KernelResult& result) {
  if (!result.output) return nb::none();
  return nb::bytes(result.output->data(), result.output->size());
}

void bind_scopes(nb::module_& m) {
  using Itself = python::ShownObject<"_Done">;
  nb::class_<Done>(m, "_Done", "An awaitable that is over; internal.")
      .def("__await__", [](Itself self) { return self; })
      .def("__iter__", [](Itself self) { return self; })
      .def(
          "__next__",
          [](Done& self) -> nb::object {
            PyErr_SetObject(PyExc_StopIteration, self.value.ptr());
            nb::raise_python_error();
          },
          nb::sig("def __next__(self) -> typing.NoReturn"));
  nb::class_<SessionScopeObject>(m, "SessionScope",
                                 "`with scope:` or `async with scope:`: everything inside uses the stream, the SMs and "
                                 "the memory wall of a partition or context.")
      .def("__enter__", &enter, nb::sig("def __enter__(self) -> typing.Any"))
      .def(
          "__exit__", [](nb::handle self, nb::args) { return leave(self); },
          nb::sig("def __exit__(self, *args: object) -> None"))
      .def("__aenter__", [](nb::handle self) { return Done{enter(self)}; })
      .def(
          "__aexit__", [](nb::handle self, nb::args) { return Done{leave(self)}; },
          nb::sig("def __aexit__(self, *args: object) -> _Done"))
      .def("__repr__", [](const SessionScopeObject& self) { return "SessionScope(" + self.owner->what() + ")"; });
}

void bind_requests(nb::module_& m) {
  using KernelObject = python::ShownObject<"collections.abc.Callable[..., typing.Any] | int">;
  using ArgumentTuple = nb::typed<nb::tuple, nb::any, nb::ellipsis>;
  nb::class_<AsyncRequest>(m, "AsyncKernelRequest",
                           "What dispatch_async runs. kernel_handle is a kernel of gp.jit, any callable that submits "
                           "work, or an integer whose future is driven by the mark_future_* calls.")
      .def(
          "__init__",
          [](AsyncRequest* self, KernelObject handle) {
            if (!PyLong_Check(handle.ptr()) && PyCallable_Check(handle.ptr()) == 0) {
              throw ArgumentError("AsyncKernelRequest", "kernel_handle", "be a kernel, a callable or an integer",
                                  python::shown(handle));
            }
            new (self) AsyncRequest{std::move(handle), nb::tuple(), {}};
          },
          "kernel_handle"_a)
      .def_static(
          "linear",
          [](KernelObject handle, int64_t n_elements, int64_t block_size) {
            return AsyncRequest{std::move(handle), nb::tuple(), LaunchExtent::linear(n_elements, block_size)};
          },
          "kernel_handle"_a, "n_elements"_a, "block_size"_a = 256, "One thread for each element.")
      .def(
          "with_grid",
          [](const AsyncRequest& self, int64_t x, int64_t y, int64_t z) {
            return changed(self, [&](AsyncRequest& r) { r.extent.grid = extent("with_grid", x, y, z); });
          },
          "x"_a, "y"_a = 1, "z"_a = 1, "The same with another grid.")
      .def(
          "with_block",
          [](const AsyncRequest& self, int64_t x, int64_t y, int64_t z) {
            return changed(self, [&](AsyncRequest& r) { r.extent.block = extent("with_block", x, y, z); });
          },
          "x"_a, "y"_a = 1, "z"_a = 1, "The same with another block.")
      .def(
          "with_shared_mem",
          [](const AsyncRequest& self, uint32_t bytes) {
            return changed(self, [&](AsyncRequest& r) { r.extent.shared_mem = bytes; });
          },
          "bytes"_a, "The same with dynamic shared memory.")
      .def(
          "with_args",
          [](const AsyncRequest& self, python::Shown<"collections.abc.Iterable[typing.Any]"> args) {
            nb::object fixed = nb::steal(PySequence_Tuple(args.ptr()));
            if (!fixed.is_valid()) nb::raise_python_error();
            return changed(self, [&](AsyncRequest& r) { r.args = nb::borrow<nb::tuple>(fixed); });
          },
          "args"_a, "The same with other arguments.")
      .def_prop_ro("kernel_handle", [](const AsyncRequest& r) { return KernelObject(r.handle); })
      .def_prop_ro("args", [](const AsyncRequest& r) { return ArgumentTuple(r.args); })
      .def_prop_ro("grid", [](const AsyncRequest& r) { return tuple_of(r.extent.grid); })
      .def_prop_ro("block", [](const AsyncRequest& r) { return tuple_of(r.extent.block); })
      .def_prop_ro("shared_mem", [](const AsyncRequest& r) { return r.extent.shared_mem; })
      .def("__repr__", [](const AsyncRequest& r) {
        return "AsyncKernelRequest(kernel_handle=" + python::shown(r.handle) + ", grid=" + text_of(r.extent.grid) +
               ", block=" + text_of(r.extent.block) + ", shared_mem=" + std::to_string(r.extent.shared_mem) + ")";
      });
}

void bind_futures(nb::module_& m) {
  nb::enum_<FutureState>(m, "FutureState", nb::is_arithmetic(), "Where a dispatched kernel stands.")
      .value("Pending", FutureState::pending)
      .value("Running", FutureState::running)
      .value("Completed", FutureState::completed)
      .value("Failed", FutureState::failed)
      .value("Cancelled", FutureState::cancelled);
  nb::class_<KernelResult>(m, "KernelResult", "How a dispatched kernel ended.")
      .def_ro("success", &KernelResult::success)
      .def_prop_ro("error",
                   [](const KernelResult& r) { return r.error.empty() ? std::nullopt : std::optional(r.error); })
      .def_ro("exec_time", &KernelResult::exec_time, "Seconds on the device.")
      .def_prop_ro("output", &output_of, "Bytes, or None.")
      .def("__repr__", [](const KernelResult& r) {
        return "KernelResult(success=" + std::string(r.success ? "True" : "False") +
               (r.error.empty() ? "" : ", error='" + r.error + "'") + ", exec_time=" + std::to_string(r.exec_time) +
               ")";
      });
  nb::class_<AsyncExecStats>(m, "AsyncExecStats", "Counts of the kernels dispatched in a context.")
      .def_ro("total_dispatched", &AsyncExecStats::total_dispatched)
      .def_ro("pending_count", &AsyncExecStats::pending_count)
      .def_ro("running_count", &AsyncExecStats::running_count)
      .def_ro("completed_count", &AsyncExecStats::completed_count)
      .def_ro("failed_count", &AsyncExecStats::failed_count)
      .def_ro("cancelled_count", &AsyncExecStats::cancelled_count)
      .def_ro("avg_exec_time", &AsyncExecStats::avg_exec_time)
      .def("__repr__", [](const AsyncExecStats& s) {
        return "AsyncExecStats(total_dispatched=" + std::to_string(s.total_dispatched) +
               ", pending_count=" + std::to_string(s.pending_count) +
               ", running_count=" + std::to_string(s.running_count) +
               ", completed_count=" + std::to_string(s.completed_count) +
               ", failed_count=" + std::to_string(s.failed_count) +
               ", cancelled_count=" + std::to_string(s.cancelled_count) + ")";
      });
  nb::class_<KernelFuture>(m, "KernelFuture",
                           "The end of a dispatched kernel. `await future` gives its KernelResult; cancelling the "
                           "await leaves the kernel alone.")
      .def_prop_ro("id", &KernelFuture::id)
      .def_prop_ro("stream_id", &KernelFuture::stream_id)
      .def_prop_ro("context_id", &KernelFuture::context_id)
      .def_prop_ro("state", &KernelFuture::state)
      .def("is_ready", &KernelFuture::is_ready, "True once it is over, however it ended.")
      .def("wait", &wait, "timeout"_a = nb::none(),
           "Sleeps until it is over and gives the result. Ctrl-C works. Raises DeadlineError after timeout seconds.")
      .def("try_get", &KernelFuture::try_get, "The result, or None while it is not over.")
      .def("exec_time", &KernelFuture::exec_time, "Seconds on the device; 0 until completed.")
      .def("cancel", &KernelFuture::cancel, "True when it was not launched yet and never will be.")
      .def(
          "add_done_callback",
          [](std::shared_ptr<KernelFuture> self,
             python::ShownObject<"collections.abc.Callable[[KernelFuture], typing.Any]"> callback) {
            self->completion()->add_callback(
                python::call_later(nb::cpp_function([self, callback] { callback(self); })));
          },
          "callback"_a, "Calls callback(future) on another thread once it is over.")
      .def(
          "__await__",
          [](std::shared_ptr<KernelFuture> self) {
            return python::await_completion(
                [&](std::function<void()> done) { self->completion()->add_callback(std::move(done)); },
                nb::cpp_function([self] { return self->try_get(); }));
          },
          nb::sig("def __await__(self) -> collections.abc.Generator[typing.Any, None, KernelResult]"))
      .def("__repr__", [](const KernelFuture& self) { return str(self); });
}

}  // namespace

void bind_context_future(nb::module_& core) {
  nb::module_ top = python::runtime_module(core);
  nb::module_ scheduler = python::runtime_module(core, "scheduler");
  python::let_signals_end_waits();
  bind_scopes(top);
  bind_requests(top);
  bind_futures(top);
  for (const char* name :
       {"SessionScope", "AsyncKernelRequest", "FutureState", "KernelResult", "AsyncExecStats", "KernelFuture"})
    scheduler.attr(name) = top.attr(name);
}

}  // namespace gpukit
