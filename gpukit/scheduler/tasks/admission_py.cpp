// Admission.
#include "gpukit/scheduler/tasks/admission.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"

namespace gpukit {

using python::Bytes;
using scheduler::AdmissionConfig;
using scheduler::AdmissionController;
using scheduler::AdmissionDecision;
using scheduler::AdmissionKind;
using scheduler::AdmissionStats;
using scheduler::RejectReason;
using scheduler::RejectReasonDetails;

namespace {

std::string repr(const AdmissionDecision& d) {
  std::string text = std::string("AdmissionDecision(") + name(d.kind);
  if (d.kind == AdmissionKind::admit)
    text += ", reserved_memory=" + std::to_string(d.reserved_memory) +
            ", reserved_bandwidth=" + std::to_string(d.reserved_bandwidth);
  if (d.kind == AdmissionKind::queue) text += ", queue_position=" + std::to_string(d.queue_position);
  if (d.rejection) text += ", " + d.rejection->message();
  return text + ")";
}

std::string repr(const AdmissionStats& s) {
  return "AdmissionStats(admitted_count=" + std::to_string(s.admitted_count) +
         ", rejected_count=" + std::to_string(s.rejected_count) + ", queued_count=" + std::to_string(s.queued_count) +
         ", pending_count=" + std::to_string(s.pending_count) +
         ", reserved_memory=" + std::to_string(s.reserved_memory) +
         ", available_memory=" + std::to_string(s.available_memory) + ")";
}

void bind_decision(nb::module_& m) {
  nb::enum_<RejectReason>(m, "RejectReason", nb::is_arithmetic(), "Why a task was refused.")
      .value("InsufficientMemory", RejectReason::insufficient_memory)
      .value("InsufficientBandwidth", RejectReason::insufficient_bandwidth)
      .value("QueueFull", RejectReason::queue_full)
      .value("UnsatisfiableDependencies", RejectReason::unsatisfiable_dependencies)
      .value("Custom", RejectReason::custom);

  nb::class_<RejectReasonDetails>(m, "RejectReasonDetails", "Why a task was refused, with the numbers.")
      .def_prop_ro(
          "reason_type", [](const RejectReasonDetails& d) { return std::string(name(d.reason)); },
          "The name of the RejectReason.")
      .def_ro("requested_memory", &RejectReasonDetails::requested_memory)
      .def_ro("available_memory", &RejectReasonDetails::available_memory)
      .def("message", &RejectReasonDetails::message, "The reason as a sentence.")
      .def("__repr__", [](const RejectReasonDetails& d) { return "RejectReasonDetails(" + d.message() + ")"; });

  nb::class_<AdmissionDecision>(m, "AdmissionDecision", "Admit, Reject or Queue, and what comes with it.")
      .def_static(
          "Admitted", [] { return AdmissionDecision::admitted(); }, "A plain Admit.")
      .def_static(
          "Queued", [] { return AdmissionDecision::queued(); }, "A plain Queue.")
      .def("is_admitted", [](const AdmissionDecision& d) { return d.kind == AdmissionKind::admit; })
      .def("is_rejected", [](const AdmissionDecision& d) { return d.kind == AdmissionKind::reject; })
      .def("is_queued", [](const AdmissionDecision& d) { return d.kind == AdmissionKind::queue; })
      .def(
          "reject_reason",
          [](const AdmissionDecision& d) { return d.rejection ? std::optional(d.rejection->reason) : std::nullopt; },
          "The RejectReason, None unless rejected.")
      .def_prop_ro("decision_type", [](const AdmissionDecision& d) { return std::string(name(d.kind)); })
      .def_ro("reserved_memory", &AdmissionDecision::reserved_memory, "Bytes set aside; 0 unless admitted.")
      .def_ro("reserved_bandwidth", &AdmissionDecision::reserved_bandwidth)
      .def_ro("queue_position", &AdmissionDecision::queue_position, "Tasks that wait, this one included.")
      .def_ro("estimated_wait_ms", &AdmissionDecision::estimated_wait_ms, "0 when nothing is known.")
      .def_ro("rejection_reason", &AdmissionDecision::rejection, "RejectReasonDetails, None unless rejected.")
      .def("__repr__", [](const AdmissionDecision& d) { return repr(d); });

  nb::class_<AdmissionStats>(m, "AdmissionStats", "Decisions so far and what is reserved now.")
      .def_ro("admitted_count", &AdmissionStats::admitted_count)
      .def_ro("rejected_count", &AdmissionStats::rejected_count)
      .def_ro("queued_count", &AdmissionStats::queued_count)
      .def_ro("pending_count", &AdmissionStats::pending_count, "Tasks that wait now.")
      .def_ro("reserved_memory", &AdmissionStats::reserved_memory)
      .def_ro("used_memory", &AdmissionStats::reserved_memory, "The same as reserved_memory.")
      .def_ro("reserved_bandwidth", &AdmissionStats::reserved_bandwidth)
      .def_ro("used_bandwidth", &AdmissionStats::reserved_bandwidth, "The same as reserved_bandwidth.")
      .def_ro("available_memory", &AdmissionStats::available_memory)
      .def_ro("available_bandwidth", &AdmissionStats::available_bandwidth)
      .def("__repr__", [](const AdmissionStats& s) { return repr(s); });
}

void bind_controller_classes(nb::module_& m) {
  nb::class_<AdmissionConfig>(m, "AdmissionConfig", "What an AdmissionController may hand out.")
      .def(nb::init<Bytes<"AdmissionConfig: max_memory">, double, size_t, bool>(), "max_memory"_a, "max_bandwidth"_a,
           "max_pending_tasks"_a = 1000, "enable_best_effort"_a = true,
           "With enable_best_effort what does not fit waits instead of being refused.")
      .def_ro("max_memory", &AdmissionConfig::max_memory)
      .def_ro("max_bandwidth", &AdmissionConfig::max_bandwidth)
      .def_ro("max_pending_tasks", &AdmissionConfig::max_pending_tasks)
      .def_ro("enable_best_effort", &AdmissionConfig::enable_best_effort)
      .def("__repr__", [](const AdmissionConfig& c) {
        return "AdmissionConfig(max_memory=" + std::to_string(c.max_memory) +
               ", max_bandwidth=" + std::to_string(c.max_bandwidth) +
               ", max_pending_tasks=" + std::to_string(c.max_pending_tasks) +
               ", enable_best_effort=" + (c.enable_best_effort ? "True" : "False") + ")";
      });

  nb::class_<AdmissionController>(
      m, "AdmissionController",
      "Lets tasks reserve memory and bandwidth, or makes them wait, or refuses them. The same "
      "requests in the same order give the same decisions.")
      .def(nb::init<const AdmissionConfig&>(), "config"_a)
      .def(
          "try_admit",
          [](AdmissionController& c, const std::string& task_id, Bytes<"try_admit: memory"> memory, double bandwidth) {
            return c.try_admit(task_id, memory, bandwidth);
          },
          "task_id"_a, "memory"_a, "bandwidth"_a,
          "Decides about one task. It needs the bandwidth given, at least memory / max_memory.")
      .def("release", &AdmissionController::release, "task_id"_a, "Gives back what the task reserved.")
      .def("stats", &AdmissionController::stats)
      .def(
          "decision_log", [](const AdmissionController& c, uint64_t after) { return c.log().json_lines(after); },
          "after"_a = 0, "The decisions with a number above `after` as lines of JSON; the last 4096 are kept.")
      .def("__repr__", [](const AdmissionController& c) {
        const AdmissionStats stats = c.stats();
        return "AdmissionController(reserved_memory=" + std::to_string(stats.reserved_memory) + " of " +
               std::to_string(c.config().max_memory) + ", pending_count=" + std::to_string(stats.pending_count) + ")";
      });
}

}  // namespace

void bind_admission(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "scheduler");
  bind_decision(m);
  bind_controller_classes(m);
  nb::module_ top = python::runtime_module(core);
  for (const char* name : {"RejectReason", "RejectReasonDetails", "AdmissionDecision", "AdmissionStats",
                           "AdmissionConfig", "AdmissionController"})
    top.attr(name) = m.attr(name);
}

}  // namespace gpukit
