// MultiLLMController: contexts, their sessions and futures.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "gpukit/base/error.h"
#include "gpukit/jit/user_kernel.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/dispatch_thread.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/scheduler/context/context_future_py.h"
#include "gpukit/scheduler/context/context_session_py.h"
#include "gpukit/scheduler/context/controller.h"

namespace gpukit {

using python::AsyncRequest;
using python::Bytes;
using python::in_scope;
using python::SessionScopeObject;
using scheduler::ContextOptions;
using scheduler::ContextState;
using scheduler::ContextStats;
using scheduler::ContextUsage;
using scheduler::ControllerStats;
using scheduler::ExecutionContext;
using scheduler::KernelFuture;
using scheduler::MultiLLMController;
using scheduler::QosClass;

namespace {

/// A controller, and the scopes of sessions that were started by name.
struct ControllerObject {
  MultiLLMController controller;
  std::map<std::string, nb::object> scopes;  // by context
};

std::optional<QosClass> to_qos(nb::handle value) {
  if (value.is_none()) return std::nullopt;
  QosClass known{};
  if (nb::try_cast(value, known)) return known;
  std::string text = PyUnicode_Check(value.ptr()) ? nb::cast<std::string>(value) : std::string();
  std::string letters;
  for (char c : text)
    if (c != '_' && c != '-') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (letters == "guaranteed") return QosClass::guaranteed;
  if (letters == "burstable") return QosClass::burstable;
  if (letters == "besteffort") return QosClass::best_effort;
  throw ArgumentError("create_context", "qos", "be None, 'guaranteed', 'burstable', 'best_effort' or a QosClass",
                      python::shown(value));
}

python::ShownObject<"SessionScope"> make_scope(const std::shared_ptr<ExecutionContext>& context, nb::object value) {
  return nb::cast(SessionScopeObject{context, &context->session(), std::move(value)});
}

/// Never throws because of what Python does: the text of an exception may itself raise.
std::string text_of(const nb::python_error& error) {
  std::string text = Py_TYPE(error.value().ptr())->tp_name;
  try {
    text = python::class_of(error.value());
    const char* bytes = PyUnicode_AsUTF8(nb::str(error.value()).ptr());
    if (bytes == nullptr) nb::raise_python_error();
    text += std::string(": ") + bytes;
  } catch (nb::python_error&) {
  }
  return text;
}

/// Calls the kernel or callable of a request. Bytes that it returns are the output.
void run_request(const AsyncRequest& request, KernelFuture& future) {
  if (nb::isinstance<jit::UserKernel>(request.handle)) {
    const auto& grid = request.extent.grid;
    const auto& block = request.extent.block;
    request.handle.attr("launch")(request.args, "grid"_a = nb::make_tuple(grid[0], grid[1], grid[2]),
                                  "block"_a = nb::make_tuple(block[0], block[1], block[2]),
                                  "shared_mem"_a = request.extent.shared_mem);
    return;
  }
  nb::object result;
  python::call_or_park([&] { result = nb::steal(PyObject_CallObject(request.handle.ptr(), request.args.ptr())); });
  if (!result.is_valid()) nb::raise_python_error();
  if (PyBytes_Check(result.ptr()))
    future.set_output(
        std::string(PyBytes_AS_STRING(result.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(result.ptr()))));
}

/// Inside the context's session. An Exception fails the future; anything stronger (KeyboardInterrupt) also goes on to
/// the caller. Sessions that the callable entered and did not leave end with it.
void run_in_context(const std::shared_ptr<ExecutionContext>& context, const AsyncRequest& request,
                    const std::shared_ptr<KernelFuture>& future) {
  python::SessionEntered inside(make_scope(context, nb::none()));
  if (!in_scope([&] { return context->begin_dispatch(future); })) return;
  try {
    run_request(request, *future);
    in_scope([&] { return context->end_dispatch(future), 0; });
  } catch (nb::python_error& error) {
    context->fail_dispatch(future, text_of(error));
    if (!error.matches(PyExc_Exception)) throw;
  } catch (const std::exception& error) {
    context->fail_dispatch(future, error.what());
  }
  inside.leave();
}

std::shared_ptr<KernelFuture> dispatch(ControllerObject& self, const std::string& llm_id, const AsyncRequest& request) {
  auto context = self.controller.get("dispatch_async", llm_id);
  std::shared_ptr<KernelFuture> future = context->dispatch();
  if (PyLong_Check(request.handle.ptr())) return future;
  if (python::would_block_a_loop(context->session().device())) {
    python::run_beside(context->session(), nb::cpp_function([context, request, future] {
                         try {
                           run_in_context(context, request, future);
                         } catch (nb::python_error& error) {
                           future->fail(text_of(error));
                         } catch (const std::exception& error) {
                           future->fail(error.what());
                         }
                       }));
    return future;
  }
  try {
    run_in_context(context, request, future);
  } catch (const Error& error) {
    future->fail(error.what());  // the session could not be entered or left
    throw;
  }
  return future;
}

nb::object scope_by_name(ControllerObject& self, const char* op, const std::string& llm_id) {
  auto context = self.controller.get(op, llm_id);
  nb::object& scope = self.scopes[llm_id];
  if (!scope.is_valid() || nb::cast<SessionScopeObject&>(scope).owner != &context->session())
    scope = make_scope(context, nb::none());
  return scope;
}

bool destroy(ControllerObject& self, const std::string& llm_id) {
  const auto context = self.controller.find(llm_id);
  if (context != nullptr) python::settle_beside(context->session());
  const bool known = in_scope([&] { return self.controller.destroy_context(llm_id); });
  self.scopes.erase(llm_id);
  if (context != nullptr) python::forget_beside(context->session());
  return known;
}

python::AnyDict usage_of(const MultiLLMController& controller, const ExecutionContext& context) {
  const ContextStats stats = controller.context_stats(context);
  const ContextUsage usage = context.usage();
  nb::dict d;
  d["llm_id"] = stats.llm_id;
  d["state"] = name(stats.state);
  d["stream_id"] = stats.stream_id;
  d["qos"] = name(usage.qos);
  d["max_vram"] = stats.max_vram;
  d["base_vram"] = usage.base_vram;
  d["used_vram"] = stats.used_vram;
  d["peak_vram"] = usage.peak_vram;
  d["cached_vram"] = usage.cached_vram;
  d["available_vram"] = stats.available_vram;
  d["buffer_count"] = stats.buffer_count;
  d["sessions"] = usage.sessions;
  d["launches"] = usage.launches;
  d["partition"] = usage.partition.enforced ? nb::cast(usage.partition) : nb::none();
  return d;
}

void bind_stats(nb::module_& m) {
  nb::enum_<ContextState>(m, "ContextState", nb::is_arithmetic(), "What a context is doing.")
      .value("Idle", ContextState::idle)
      .value("Running", ContextState::running)
      .value("Paused", ContextState::paused);
  nb::class_<ContextStats>(m, "ContextStats", "One context of a controller.")
      .def_ro("llm_id", &ContextStats::llm_id)
      .def_ro("state", &ContextStats::state)
      .def_ro("stream_id", &ContextStats::stream_id)
      .def_ro("max_vram", &ContextStats::max_vram)
      .def_ro("used_vram", &ContextStats::used_vram, "Bytes of its arrays and of what was tracked.")
      .def_ro("available_vram", &ContextStats::available_vram)
      .def_ro("buffer_count", &ContextStats::buffer_count)
      .def("__repr__", [](const ContextStats& s) {
        return "ContextStats(llm_id='" + s.llm_id + "', state=" + name(s.state) +
               ", stream_id=" + std::to_string(s.stream_id) + ", max_vram=" + std::to_string(s.max_vram) +
               ", used_vram=" + std::to_string(s.used_vram) + ", buffer_count=" + std::to_string(s.buffer_count) + ")";
      });
  nb::class_<ControllerStats>(m, "ControllerStats", "A controller as a whole.")
      .def_ro("initialized", &ControllerStats::initialized)
      .def_ro("device_id", &ControllerStats::device_id)
      .def_ro("total_vram_budget", &ControllerStats::total_vram_budget)
      .def_ro("device_total_memory", &ControllerStats::device_total_memory)
      .def_ro("used_vram", &ControllerStats::used_vram)
      .def_ro("available_vram", &ControllerStats::available_vram)
      .def_ro("context_count", &ControllerStats::context_count)
      .def_ro("stream_pool_size", &ControllerStats::stream_pool_size)
      .def("__repr__", [](const ControllerStats& s) {
        return "ControllerStats(initialized=" + std::string(s.initialized ? "True" : "False") +
               ", device_id=" + std::to_string(s.device_id) +
               ", total_vram_budget=" + std::to_string(s.total_vram_budget) +
               ", used_vram=" + std::to_string(s.used_vram) + ", context_count=" + std::to_string(s.context_count) +
               ")";
      });
}

void bind_contexts(nb::class_<ControllerObject>& c) {
  c.def(
       "create_context",
       [](ControllerObject& self, const std::string& llm_id, Bytes<"create_context: max_vram"> max_vram,
          Bytes<"create_context: base_vram"> base_vram, python::Shown<"QosClass | str"> qos, double compute,
          double bandwidth, int device_id, bool initialize) {
         const ContextOptions options{max_vram, base_vram, to_qos(qos), compute, bandwidth, device_id, initialize};
         return in_scope([&] { return self.controller.create_context(llm_id, options)->stream_id(); });
       },
       "llm_id"_a, "max_vram"_a = 0, "base_vram"_a = 0, "qos"_a = nb::none(), "compute"_a = 1.0, "bandwidth"_a = 1.0,
       nb::kw_only(), "device_id"_a = 0, "initialize"_a = false,
       "A context with its own stream: max_vram is its memory wall, base_vram what is kept for it, compute its share "
       "of the SMs, bandwidth its share of the copies. Gives the stream's number. device_id: 0, or the controller's. "
       "initialize: initialises a controller that is not yet.")
      .def(
          "get_context",
          [](const ControllerObject& self, const std::string& llm_id) -> std::optional<ContextStats> {
            auto context = self.controller.find(llm_id);
            if (context == nullptr) return std::nullopt;
            return self.controller.context_stats(*context);
          },
          "llm_id"_a, "What a context has and uses, or None.")
      .def("destroy_context", &destroy, "llm_id"_a,
           "Waits for the context's work and gives everything back. False when unknown; raises inside its session.")
      .def("list_contexts", [](const ControllerObject& self) { return self.controller.list_contexts(); })
      .def("context_count", [](const ControllerObject& self) { return self.controller.list_contexts().size(); })
      .def(
          "get_stream_id",
          [](const ControllerObject& self, const std::string& llm_id) -> std::optional<int> {
            auto context = self.controller.find(llm_id);
            return context == nullptr ? std::nullopt : std::optional(context->stream_id());
          },
          "llm_id"_a)
      .def(
          "track_allocation",
          [](ControllerObject& self, const std::string& llm_id, uint64_t buffer_id,
             Bytes<"track_allocation: size"> size) {
            auto context = self.controller.get("track_allocation", llm_id);
            return in_scope([&] { return context->track_allocation(buffer_id, size); });
          },
          "llm_id"_a, "buffer_id"_a, "size"_a,
          "Counts memory that was allocated elsewhere against the context's wall. False when it does not fit.")
      .def(
          "track_deallocation",
          [](ControllerObject& self, const std::string& llm_id, uint64_t buffer_id) {
            self.controller.get("track_deallocation", llm_id)->track_deallocation(buffer_id);
          },
          "llm_id"_a, "buffer_id"_a)
      .def(
          "context_usage",
          [](const ControllerObject& self, const std::string& llm_id) {
            return usage_of(self.controller, *self.controller.get("context_usage", llm_id));
          },
          "llm_id"_a, "What a context has and uses, measured.")
      .def(
          "context_session",
          [](const ControllerObject& self, const std::string& llm_id, python::AnyObject value) {
            return make_scope(self.controller.get("context_session", llm_id), std::move(value));
          },
          "llm_id"_a, "value"_a = nb::none(), "A scope for `with` and `async with`; entering gives value.")
      .def(
          "start_context_session",
          [](ControllerObject& self, const std::string& llm_id) {
            nb::object scope = scope_by_name(self, "start_context_session", llm_id);
            python::enter_session(scope, *nb::cast<SessionScopeObject&>(scope).owner);
          },
          "llm_id"_a, "Enters the context's session here, until end_context_session.")
      .def(
          "end_context_session",
          [](ControllerObject& self, const std::string& llm_id) {
            nb::object scope = scope_by_name(self, "end_context_session", llm_id);
            python::leave_session(scope, *nb::cast<SessionScopeObject&>(scope).owner);
          },
          "llm_id"_a)
      .def(
          "is_context_session_active",
          [](const ControllerObject& self, const std::string& llm_id) {
            return self.controller.get("is_context_session_active", llm_id)->session().entered() > 0;
          },
          "llm_id"_a);
}

void bind_futures(nb::class_<ControllerObject>& c) {
  auto future = [](const ControllerObject& self, const char* op, const std::string& llm_id, uint64_t id) {
    return self.controller.get(op, llm_id)->future(id);
  };
  c.def("dispatch_async", &dispatch, "llm_id"_a, "request"_a,
        "Launches the request's kernel, or calls its callable, inside the context's session. With an integer handle "
        "nothing is launched: the mark_future_* calls drive the future. On the CPU, in a thread with a running event "
        "loop, the callable runs in a thread of the context, in the order of the calls; whoever enters the context's "
        "session waits for it.")
      .def(
          "get_pending_futures",
          [](const ControllerObject& self, const std::string& llm_id) {
            return self.controller.get("get_pending_futures", llm_id)->pending_futures();
          },
          "llm_id"_a)
      .def(
          "mark_future_launched",
          [future](const ControllerObject& self, const std::string& llm_id, uint64_t id) {
            return future(self, "mark_future_launched", llm_id, id)->mark_launched();
          },
          "llm_id"_a, "future_id"_a)
      .def(
          "mark_future_completed",
          [future](const ControllerObject& self, const std::string& llm_id, uint64_t id, double exec_time) {
            return future(self, "mark_future_completed", llm_id, id)->complete(exec_time);
          },
          "llm_id"_a, "future_id"_a, "exec_time"_a)
      .def(
          "mark_future_failed",
          [future](const ControllerObject& self, const std::string& llm_id, uint64_t id, const std::string& error) {
            return future(self, "mark_future_failed", llm_id, id)->fail(error);
          },
          "llm_id"_a, "future_id"_a, "error"_a)
      .def(
          "cancel_future",
          [future](const ControllerObject& self, const std::string& llm_id, uint64_t id) {
            return future(self, "cancel_future", llm_id, id)->cancel();
          },
          "llm_id"_a, "future_id"_a, "True when it was not launched yet.")
      .def(
          "get_future",
          [](const ControllerObject& self, const std::string& llm_id, uint64_t id) -> std::shared_ptr<KernelFuture> {
            auto context = self.controller.get("get_future", llm_id);
            try {
              return context->future(id);
            } catch (const ArgumentError&) {
              return nullptr;
            }
          },
          "llm_id"_a, "future_id"_a, "The future, or None when unknown or long over.")
      .def(
          "async_stats",
          [](const ControllerObject& self, const std::string& llm_id) {
            return self.controller.get("async_stats", llm_id)->async_stats();
          },
          "llm_id"_a);
}

}  // namespace

void bind_controller(nb::module_& core) {
  nb::module_ top = python::runtime_module(core);
  nb::module_ module = python::runtime_module(core, "scheduler");
  bind_stats(top);
  nb::class_<ControllerObject> c(top, "MultiLLMController",
                                 "Several models on one device, each in a context with its own stream, memory wall and "
                                 "share.");
  c.def(nb::init<>())
      .def(
          "initialize",
          [](ControllerObject& self, int device_id, Bytes<"initialize: device_total_memory"> device_total_memory,
             Bytes<"initialize: total_vram_budget"> total_vram_budget) {
            in_scope([&] { return self.controller.initialize(device_id, device_total_memory, total_vram_budget), 0; });
          },
          "device_id"_a = 0, "device_total_memory"_a = 0, "total_vram_budget"_a = 0,
          "Memory 0: the GPU's, on the CPU 8 GiB. Budget 0: all of it.")
      .def("is_initialized", [](const ControllerObject& self) { return self.controller.is_initialized(); })
      .def("used_vram", [](const ControllerObject& self) { return self.controller.used_vram(); })
      .def("available_vram", [](const ControllerObject& self) { return self.controller.available_vram(); })
      .def("start_session", [](ControllerObject& self) { self.controller.start_session(); })
      .def("end_session", [](ControllerObject& self) { self.controller.end_session(); })
      .def("is_session_active", [](const ControllerObject& self) { return self.controller.is_session_active(); })
      .def("stats", [](const ControllerObject& self) { return self.controller.stats(); })
      .def(
          "reset",
          [](ControllerObject& self) {
            std::vector<std::shared_ptr<ExecutionContext>> contexts;
            for (const std::string& id : self.controller.list_contexts())
              if (auto context = self.controller.find(id)) contexts.push_back(std::move(context));
            for (const auto& context : contexts) python::settle_beside(context->session());
            in_scope([&] { return self.controller.reset(), 0; });
            self.scopes.clear();
            for (const auto& context : contexts) python::forget_beside(context->session());
          },
          "Destroys every context and starts anew. Raises while a session of one is entered.")
      .def("__repr__", [](const ControllerObject& self) {
        const ControllerStats s = self.controller.stats();
        return "MultiLLMController(initialized=" + std::string(s.initialized ? "True" : "False") +
               ", contexts=" + std::to_string(s.context_count) + ")";
      });
  bind_contexts(c);
  bind_futures(c);
  for (const char* name : {"ContextState", "ContextStats", "ControllerStats", "MultiLLMController"})
    module.attr(name) = top.attr(name);
}

}  // namespace gpukit
