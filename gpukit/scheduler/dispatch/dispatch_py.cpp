// Launch requests, and the controller at the launch gate.
#include "gpukit/scheduler/dispatch/dispatch_py.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/arguments.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/notify.h"
#include "gpukit/python/objects.h"
#include "gpukit/runtime/gate_cost.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/scheduler/dispatch/dispatch_controller.h"

namespace gpukit {

using python::from_extent3;
using python::quoted;
using python::text_of;
using scheduler::DispatchController;
using scheduler::DispatchStats;
using scheduler::KernelDispatcher;
using scheduler::KernelLaunchRequest;
using scheduler::KernelState;
using scheduler::LaunchConfig;
using scheduler::LaunchRecord;
using scheduler::TenantId;

namespace {

// Requests

std::string repr(const LaunchConfig& c) {
  return "LaunchConfig(grid=" + text_of(c.grid) + ", block=" + text_of(c.block) +
         ", shared_mem=" + std::to_string(c.shared_mem) + ", stream_id=" + std::to_string(c.stream_id) + ")";
}

void bind_requests(nb::module_& m) {
  nb::enum_<KernelState>(m, "KernelState", "Where a launch stands.")
      .value("Queued", KernelState::queued)
      .value("Launched", KernelState::launched)
      .value("Completed", KernelState::completed)
      .value("Failed", KernelState::failed)
      .value("Cancelled", KernelState::cancelled)
      .def(
          "is_terminal", [](KernelState s) { return scheduler::is_terminal(s); },
          "True for a state that never changes.");

  nb::class_<LaunchConfig>(m, "LaunchConfig", "The shape of a launch.")
      .def(
          "__init__",
          [](LaunchConfig* self, python::ExtentArg grid, python::ExtentArg block, int64_t shared_mem,
             int64_t stream_id) {
            new (self) LaunchConfig(python::to_extent("LaunchConfig", "grid", grid),
                                    python::to_extent("LaunchConfig", "block", block), shared_mem, stream_id);
          },
          "grid"_a = nb::make_tuple(1, 1, 1), "block"_a = nb::make_tuple(256, 1, 1), "shared_mem"_a = 0,
          "stream_id"_a = 0)
      .def_static("linear", &LaunchConfig::linear, "n_elements"_a, "block_size"_a = 256,
                  "Enough blocks for one thread per element.")
      .def_static("grid_2d", &LaunchConfig::grid_2d, "grid_x"_a, "grid_y"_a, "block_x"_a, "block_y"_a,
                  "A grid and a block of two dimensions.")
      .def_prop_ro("grid", [](const LaunchConfig& c) { return from_extent3(c.grid); })
      .def_prop_ro("block", [](const LaunchConfig& c) { return from_extent3(c.block); })
      .def_rw("shared_mem", &LaunchConfig::shared_mem, "Bytes of dynamic shared memory.")
      .def_rw("stream_id", &LaunchConfig::stream_id)
      .def(
          "__eq__", [](const LaunchConfig& a, const LaunchConfig& b) { return a == b; }, nb::is_operator(),
          nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__repr__", &repr);

  nb::class_<KernelLaunchRequest>(m, "KernelLaunchRequest", "A launch that was asked for, as it stood then.")
      .def_ro("id", &KernelLaunchRequest::id)
      .def_ro("kernel_handle", &KernelLaunchRequest::kernel_handle)
      .def_ro("config", &KernelLaunchRequest::config)
      .def_ro("args", &KernelLaunchRequest::args)
      .def_ro("state", &KernelLaunchRequest::state)
      .def_ro("task_id", &KernelLaunchRequest::task_id)
      .def_ro("priority", &KernelLaunchRequest::priority)
      .def_ro("queued_at", &KernelLaunchRequest::queued_at, "Seconds since 1970.")
      .def_ro("launched_at", &KernelLaunchRequest::launched_at)
      .def_ro("completed_at", &KernelLaunchRequest::completed_at)
      .def_ro("error", &KernelLaunchRequest::error)
      .def("duration", &KernelLaunchRequest::duration, "Seconds from launched to completed, or None.")
      .def("__repr__", [](const KernelLaunchRequest& r) {
        return "KernelLaunchRequest(id=" + std::to_string(r.id) + ", kernel_handle=" + std::to_string(r.kernel_handle) +
               ", state=" + name(r.state) + ", stream_id=" + std::to_string(r.config.stream_id) +
               ", priority=" + std::to_string(r.priority) + ")";
      });

  nb::class_<DispatchStats>(m, "DispatchStats", "Counts of a dispatcher.")
      .def_ro("total_queued", &DispatchStats::total_queued)
      .def_ro("completed_count", &DispatchStats::completed_count)
      .def_ro("failed_count", &DispatchStats::failed_count)
      .def_ro("pending_count", &DispatchStats::pending_count)
      .def_ro("in_flight_count", &DispatchStats::in_flight_count)
      .def_ro("avg_exec_time", &DispatchStats::avg_exec_time, "Seconds, of completed launches.")
      .def_ro("launches_per_stream", &DispatchStats::launches_per_stream)
      .def("__repr__", [](const DispatchStats& s) {
        return "DispatchStats(total_queued=" + std::to_string(s.total_queued) +
               ", pending_count=" + std::to_string(s.pending_count) +
               ", in_flight_count=" + std::to_string(s.in_flight_count) +
               ", completed_count=" + std::to_string(s.completed_count) +
               ", failed_count=" + std::to_string(s.failed_count) + ")";
      });
}

using Arguments = python::Shown<"collections.abc.Sequence[int] | None">;

/// The items as they are now: code that reading one of them runs may change the list.
std::vector<uint64_t> to_arguments(const char* op, nb::handle value) {
  if (value.is_none()) return {};
  return nb::cast<std::vector<uint64_t>>(python::to_items(op, "args", value));
}

void bind_dispatcher(nb::module_& m) {
  nb::class_<KernelDispatcher>(m, "KernelDispatcher",
                               "Launch requests in order of priority, with an in-flight limit per stream. Keeps the "
                               "books; the caller launches.")
      .def(
          "__init__", [](KernelDispatcher* self, int64_t limit) { new (self) KernelDispatcher(limit); },
          "max_in_flight"_a = 4)
      .def_prop_ro("max_in_flight", &KernelDispatcher::max_in_flight)
      .def(
          "queue",
          [](KernelDispatcher& d, uint64_t handle, const LaunchConfig& config, Arguments args,
             std::optional<std::string> task,
             int64_t priority) { return d.queue(handle, config, to_arguments("queue", args), task, priority); },
          "kernel_handle"_a, "config"_a, "args"_a = nb::none(), "task_id"_a = nb::none(), "priority"_a = 0,
          "Asks for a launch; returns its id.")
      .def(
          "queue_for_task",
          [](KernelDispatcher& d, const std::string& task, uint64_t handle, const LaunchConfig& config,
             Arguments args) { return d.queue(handle, config, to_arguments("queue_for_task", args), task); },
          "task_id"_a, "kernel_handle"_a, "config"_a, "args"_a = nb::none())
      .def("get_ready", &KernelDispatcher::get_ready, "max"_a, "What may be launched now. Changes nothing.")
      .def("mark_launched", &KernelDispatcher::mark_launched, "id"_a, "False when it may not be launched now.")
      .def("mark_completed", &KernelDispatcher::mark_completed, "id"_a)
      .def("mark_failed", &KernelDispatcher::mark_failed, "id"_a, "error"_a)
      .def("cancel", &KernelDispatcher::cancel, "id"_a, "False unless it was still queued.")
      .def("get_request", &KernelDispatcher::get_request, "id"_a)
      .def("get_in_flight", &KernelDispatcher::get_in_flight, "stream_id"_a)
      .def("get_requests_for_task", &KernelDispatcher::get_requests_for_task, "task"_a)
      .def("has_pending_work", &KernelDispatcher::has_pending_work)
      .def("stats", &KernelDispatcher::stats)
      .def("gc", &KernelDispatcher::gc, "Forgets what is over; returns how many.")
      .def("clear", &KernelDispatcher::clear)
      .def("__repr__", [](const KernelDispatcher& d) {
        const DispatchStats s = d.stats();
        return "KernelDispatcher(max_in_flight=" + std::to_string(d.max_in_flight()) +
               ", pending=" + std::to_string(s.pending_count) + ", in_flight=" + std::to_string(s.in_flight_count) +
               ")";
      });
}

// The controller

constexpr const char* kKindNames[] = {"kernel", "host_function", "copy_in", "copy_out", "copy_device", "fill", "graph"};

const char* kind_name(runtime::SubmitKind kind) { return kKindNames[static_cast<int>(kind)]; }

python::AnyDict from_record(const LaunchRecord& r) {
  nb::dict d;
  d["id"] = r.id;
  d["name"] = r.name;
  d["kind"] = kind_name(r.kind);
  d["bytes"] = r.bytes;
  d["stream_id"] = r.stream_id;
  d["context"] = r.context;
  d["note"] = r.note;
  d["state"] = r.state;
  d["queued_ns"] = r.queued_ns;
  d["launched_ns"] = r.launched_ns;
  d["completed_ns"] = r.completed_ns;
  d["device_us"] = r.device_us < 0 ? nb::none() : nb::object(nb::float_(r.device_us));
  d["code"] = r.code;
  return nb::borrow<python::AnyDict>(d);
}

python::AnyDict from_usage(const scheduler::TenantUsage& u) {
  nb::dict d;
  d["id"] = u.id;
  d["name"] = u.name;
  d["weight"] = u.weight;
  d["bytes_per_second"] = u.bytes_per_second;
  d["streams"] = u.streams;
  d["pending_kernels"] = u.pending_kernels;
  d["pending_copies"] = u.pending_copies;
  d["kernels"] = u.kernels;
  d["copies"] = u.copies;
  d["failed"] = u.failed;
  d["bytes"] = u.bytes;
  d["device_us"] = u.device_us;
  d["wait_us"] = u.wait_us;
  return nb::borrow<python::AnyDict>(d);
}

python::AnyDict from_kernel(const scheduler::KernelStatistics& k) {
  nb::dict d;
  d["name"] = k.name;
  d["kind"] = kind_name(k.kind);
  d["count"] = k.count;
  d["failed"] = k.failed;
  d["total_us"] = k.total_us;
  d["min_us"] = k.min_us;
  d["max_us"] = k.max_us;
  return nb::borrow<python::AnyDict>(d);
}

template <typename List, typename Convert>
python::AnyList list_of(const List& list, Convert&& convert) {
  nb::list result;
  for (const auto& item : list) result.append(convert(item));
  return nb::borrow<python::AnyList>(result);
}

void bind_controller(nb::module_& m) {
  nb::class_<DispatchController>(
      m, "DispatchController",
      "The control at the launch gate of a device: what its streams submit is recorded, held "
      "to limits, and shared out by weight.")
      .def(
          "attach",
          [](DispatchController& c, python::StreamArg stream, TenantId tenant, int max_in_flight,
             double launch_bandwidth) {
            c.attach(python::to_stream("attach", stream, python::to_device(nb::none())),
                     {tenant, max_in_flight, launch_bandwidth});
          },
          "stream"_a, "tenant"_a = 0, "max_in_flight"_a = 0, "launch_bandwidth"_a = 0.0,
          "Takes a stream under control, or changes how. 0 means no limit.")
      .def(
          "detach",
          [](DispatchController& c, python::StreamArg stream) {
            c.detach(python::to_stream("detach", stream, python::to_device(nb::none())));
          },
          "stream"_a, "Lets a stream's later work pass freely.")
      .def(
          "add_tenant",
          [](DispatchController& c, const std::string& name, double weight, double bytes_per_second) {
            return c.add_tenant({name, weight, bytes_per_second});
          },
          "name"_a, "weight"_a = 0.0, "bytes_per_second"_a = 0.0,
          "Someone whose streams get a share of the device's time by weight, and of the copies by bytes; returns an "
          "id.")
      .def("set_weight", &DispatchController::set_weight, "tenant"_a, "weight"_a)
      .def("set_bytes_per_second", &DispatchController::set_bytes_per_second, "tenant"_a, "bytes_per_second"_a)
      .def("remove_tenant", &DispatchController::remove_tenant, "tenant"_a, "Detaches its streams too.")
      .def(
          "in_flight",
          [](const DispatchController& c, python::StreamArg stream) {
            return c.in_flight(*python::to_stream("in_flight", stream, python::to_device(nb::none())));
          },
          "stream"_a, "Let through and not completed.")
      .def_prop_ro("waiting", &DispatchController::waiting, "Threads held back now.")
      .def(
          "drain", [](const DispatchController& c) { python::in_scope([&] { return c.drain(), 0; }); },
          "Waits until nothing is held back or in flight.")
      .def(
          "usage", [](const DispatchController& c) { return list_of(c.usage(), from_usage); },
          "One dict for each tenant.")
      .def(
          "kernel_statistics", [](const DispatchController& c) { return list_of(c.kernel_statistics(), from_kernel); },
          "Counts and device times by name, the one with the most time first.")
      .def(
          "records", [](const DispatchController& c, size_t limit) { return list_of(c.records(limit), from_record); },
          "limit"_a = DispatchController::kRecords, "The last submissions, oldest first, then those not yet over.")
      .def("reset_statistics", &DispatchController::reset_statistics)
      .def("__repr__", [](const DispatchController& c) {
        return "DispatchController(tenants=" + std::to_string(c.usage().size()) +
               ", waiting=" + std::to_string(c.waiting()) + ")";
      });
  m.def(
      "controller",
      [](python::DeviceArg device) -> DispatchController& { return DispatchController::of(python::to_device(device)); },
      "device"_a = nb::none(), nb::rv_policy::reference, "The controller of a device; nothing is attached at first.");
}

/// Before the interpreter goes: callbacks may hold Python objects.
void stop_waiters_at_exit() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    const python::GilReleased released;
    runtime::stop_waiters();
  }));
}

}  // namespace

void bind_dispatch(nb::module_& m) {
  nb::module_ dispatch = python::runtime_module(m, "dispatch");
  bind_requests(dispatch);
  bind_dispatcher(dispatch);
  bind_controller(dispatch);
  python::lift(m, "dispatch", {"LaunchConfig", "KernelDispatcher", "DispatchStats", "DispatchController"});
  python::runtime_module(m).def(
      "_bench_gate",
      [](int count) {
        const runtime::GateCost cost = python::in_scope([&] { return runtime::measure_gate(count); });
        return nb::typed<nb::tuple, double, double>(nb::make_tuple(cost.gated_ns, cost.without_ns));
      },
      "count"_a = 20000,
      "Nanoseconds of a submission on the CPU through the gate with nothing attached, and with the gate compiled out.");
  python::let_signals_end_waits();
  stop_waiters_at_exit();
}

}  // namespace gpukit
