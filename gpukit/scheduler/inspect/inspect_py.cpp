// What the process does, for people and tools: snapshot, events, Prometheus, trace, NVTX, simulation.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/base/files.h"
#include "gpukit/driver/nvtx.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/scheduler/inspect/nvtx.h"
#include "gpukit/scheduler/inspect/snapshot.h"
#include "gpukit/scheduler/inspect/snapshot_publish.h"
#include "gpukit/scheduler/inspect/trace.h"
#include "gpukit/scheduler/tasks/scheduler_py.h"
#include "gpukit/scheduler/tasks/simulate.h"

namespace gpukit {

using scheduler::Simulation;
using scheduler::Trace;

namespace {

/// Runs without the GIL; nothing in here calls Python.
template <typename F>
auto released(F&& f) {
  const python::GilReleased release;
  return f();
}

nb::object from_json(const Json& value) {
  if (value.is_null()) return nb::none();
  if (value.is_bool()) return nb::bool_(value.as_bool());
  if (value.is_integer()) return nb::int_(value.as_integer());
  if (value.is_number()) return nb::float_(value.as_number());
  if (value.is_string()) return nb::str(value.as_string().data(), value.as_string().size());
  if (value.is_list()) {
    nb::list list;
    for (const Json& item : value.items()) list.append(from_json(item));
    return list;
  }
  nb::dict dict;
  for (const auto& [name, item] : value.members()) dict[nb::str(name.data(), name.size())] = from_json(item);
  return dict;
}

python::AnyDict dict_of(const Json& value) { return python::AnyDict(nb::borrow<nb::dict>(from_json(value))); }

/// A text, or anything os.fspath takes.
std::string to_path(const char* op, nb::handle value) {
  nb::object path = nb::steal(PyOS_FSPath(value.ptr()));
  if (!path.is_valid()) throw nb::python_error();
  std::string text;
  if (!nb::try_cast(path, text)) throw ArgumentError(op, "path", "be a text", "bytes");
  return text;
}

python::AnyList events_list(uint64_t after, std::optional<size_t> limit) {
  nb::list list;
  for (const Event& event : events(after, limit.value_or(SIZE_MAX))) list.append(from_json(Json::parse(event.json())));
  return list;
}

void bind_snapshot(nb::module_& m) {
  m.def(
      "snapshot", [] { return dict_of(released([] { return scheduler::snapshot(); })); },
      "What the process has and does now: devices, pools, accounts, streams, transfers, dispatch, partitions, "
      "controllers, contexts, schedulers, admission, qos, counters, events, environment. Opens no device and waits for "
      "none.");
  m.def(
      "snapshot_json", [](int indent) { return released([&] { return scheduler::snapshot().dump(indent); }); },
      "indent"_a = 0, "The snapshot as JSON.");
  m.def(
      "prometheus_text", [] { return released([] { return scheduler::prometheus_text(scheduler::snapshot()); }); },
      "The snapshot in Prometheus' text format, version 0.0.4.");
  m.def("events", &events_list, "after"_a = 0, "limit"_a = nb::none(),
        "Evictions, restores, refusals, changes of partitions and contexts, errors: those with a number above `after`, "
        "oldest first. The last 4096 are kept. Decisions about tasks: decisions_json.");
  m.def("events_json", &events_json, "after"_a = 0, nb::call_guard<python::GilReleased>(),
        "The events as lines of JSON.");
  m.def("decisions_json", &scheduler::decisions_json, nb::call_guard<python::GilReleased>(),
        "What every living scheduler, admission controller and QoS evaluator has decided, as lines of JSON.");
  m.def(
      "publish_snapshot",
      [](python::PathArg path, double interval_s) {
        const std::string where = path.is_none() ? "" : to_path("publish_snapshot", path);
        return released([&] { return scheduler::publish_snapshot(where, interval_s); });
      },
      "path"_a = nb::none(), "interval_s"_a = 1.0,
      "Keeps a file fresh with snapshots, whole at any time, for `pygpukit top` in another terminal. Without a path it "
      "lies where `pygpukit top` looks, and goes with the process. Gives the path.");
  m.def("stop_publishing", &scheduler::stop_publishing, nb::call_guard<python::GilReleased>(),
        "Ends publish_snapshot.");
  m.def(
      "published_snapshots",
      [] {
        const auto files = released([] { return scheduler::published_files(); });
        nb::list list;
        for (const auto& file : files) {
          nb::dict d;
          d["path"] = file.path;
          d["process_id"] = file.process_id;
          d["age_s"] = file.age_s;
          d["stale"] = file.stale();
          list.append(d);
        }
        return python::AnyList(list);
      },
      "What programs of this user publish, the freshest first.");
  m.def(
      "_read_snapshot",
      [](python::PathArg path) {
        const std::string where = to_path("read_snapshot", path);
        return released([&] { return scheduler::read_published(where).dump(); });
      },
      "path"_a, "A published snapshot as JSON; internal.");
  m.def(
      "_top_text",
      [](const std::string& snapshot, std::optional<std::string> previous, int width, bool colour) {
        return released([&] {
          std::optional<Json> before;
          if (previous) before = Json::parse(*previous);
          return scheduler::top_text(Json::parse(snapshot), before ? &*before : nullptr, width, colour);
        });
      },
      "snapshot"_a, "previous"_a, "width"_a, "colour"_a, "One screen of `pygpukit top`; internal.");
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { released([] { return scheduler::stop_publishing(), 0; }); }));
}

void bind_trace(nb::module_& m) {
  m.def(
      "trace_start", [](size_t capacity) { released([&] { return Trace::instance().start(capacity), 0; }); },
      "capacity"_a = size_t{1'000'000},
      "Starts recording tasks, submissions, kernels and copies of the whole process. The last trace is forgotten.");
  m.def(
      "trace_stop",
      [](double timeout) {
        const int64_t limit = python::to_ns("trace_stop", "timeout", timeout);
        released([&] { return Trace::instance().stop(limit), 0; });
      },
      "timeout"_a = 5.0, "Ends it once what was submitted is over, after `timeout` seconds in any case.");
  m.def(
      "trace_json", [] { return released([] { return trace_json(Trace::instance().data()); }); },
      "The trace so far, or the last one, as trace-event JSON.");
  m.def(
      "trace_save",
      [](python::PathArg path) {
        const std::string where = to_path("trace_save", path);
        released([&] { return files::write_file(where, trace_json(Trace::instance().data())), 0; });
      },
      "path"_a, "Writes the trace for ui.perfetto.dev or chrome://tracing.");
  m.def(
      "trace_status",
      [] {
        const scheduler::TraceStatus status = Trace::instance().status();
        nb::dict d;
        d["running"] = status.running;
        d["launches"] = status.launches;
        d["tasks"] = status.tasks;
        d["dropped"] = status.dropped;
        return python::AnyDict(d);
      },
      "Whether a trace runs and what it has.");
  m.def(
      "nvtx_start", [] { return released([] { return scheduler::NvtxRanges::instance().start(); }); },
      "Puts an NVTX range around every submission. False, and nothing done, without NVIDIA's library.");
  m.def(
      "nvtx_stop", [] { released([] { return scheduler::NvtxRanges::instance().stop(), 0; }); }, "Ends nvtx_start.");
}

Simulation run_simulation(python::Shown<"str | dict[str, typing.Any]"> workload) {
  std::string text;
  if (PyUnicode_Check(workload.ptr()))
    text = nb::cast<std::string>(workload);
  else
    text = nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(workload));
  return released([&] { return scheduler::simulate(scheduler::read_workload(Json::parse(text))); });
}

void bind_simulation(nb::module_& m) {
  nb::class_<Simulation>(m, "Simulation", "What became of a described workload.")
      .def("text", &scheduler::timeline_text, "width"_a = 60, "Lines of text; `width` columns for the time.")
      .def("svg", &scheduler::timeline_svg, "A picture.")
      .def(
          "json", [](const Simulation& s, int indent) { return timeline_json(s).dump(indent); }, "indent"_a = 0,
          "Everything, the decisions included, as JSON.")
      .def(
          "to_dict", [](const Simulation& s) { return dict_of(timeline_json(s)); }, "The same as objects of Python.")
      .def_prop_ro("end_ms", [](const Simulation& s) { return static_cast<double>(s.end_ns) / 1e6; })
      .def("__repr__", [](const Simulation& s) {
        return "Simulation(" + s.workload.name + ", tasks=" + std::to_string(s.tasks.size()) +
               ", end_ms=" + scheduler::detail::milliseconds(s.end_ns) + ")";
      });
  m.def("simulate", &run_simulation, "workload"_a,
        "Runs a described workload (a dict, or its JSON) through the scheduler, admission and QoS on a virtual clock.");
}

}  // namespace

void bind_inspect(nb::module_& m) {
  nb::module_ runtime = python::runtime_module(m);
  bind_snapshot(runtime);
  bind_trace(runtime);
  bind_simulation(runtime);
}

}  // namespace gpukit
