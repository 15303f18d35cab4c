// Quality of service.
#include "gpukit/scheduler/tasks/qos.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"

namespace gpukit {

using python::Bytes;
using scheduler::QosClass;
using scheduler::QosDecision;
using scheduler::QosEvaluation;
using scheduler::QosPolicy;
using scheduler::QosPolicyEvaluator;
using scheduler::QosStats;
using scheduler::QosTaskMeta;
using scheduler::QosUsage;
using scheduler::ResourceRequirements;

namespace {

std::string text(std::optional<int64_t> value) { return value ? std::to_string(*value) : "None"; }

std::string repr(const QosEvaluation& e) {
  std::string text = std::string("QosEvaluation(") + name(e.decision) + ", qos_class=" + name(e.qos_class);
  text += ", reserved_memory=" + std::to_string(e.reserved_memory);
  if (!e.reject_reason.empty()) text += ", reject_reason='" + e.reject_reason + "'";
  return text + ")";
}

bool is(const QosEvaluation& e, QosDecision decision) { return e.decision == decision; }

void bind_class(nb::module_& m) {
  nb::enum_<QosClass>(m, "QosClass", nb::is_arithmetic(), "How firmly a task holds what it asks for.")
      .value("Guaranteed", QosClass::guaranteed)
      .value("Burstable", QosClass::burstable)
      .value("BestEffort", QosClass::best_effort)
      .def("priority", [](QosClass c) { return scheduler::priority(c); })
      .def(
          "can_preempt", [](QosClass c, QosClass other) { return scheduler::can_preempt(c, other); }, "other"_a,
          "True for a strictly higher class.")
      .def(
          "memory_overcommit_ratio", [](QosClass c) { return scheduler::memory_overcommit_ratio(c); },
          "How far the limits of the class may exceed the memory there is.")
      .def(
          "bandwidth_ratio", [](QosClass c) { return scheduler::bandwidth_ratio(c); },
          "The part of the total bandwidth that requests of the class may fill.");

  nb::class_<ResourceRequirements>(m, "ResourceRequirements", "What a task asks for and the most it may take.")
      .def(
          "__init__",
          [](ResourceRequirements* self, Bytes<"ResourceRequirements: memory_request"> request,
             std::optional<Bytes<"ResourceRequirements: memory_limit">> limit, double bandwidth_request,
             double bandwidth_limit) {
            new (self) ResourceRequirements(request, python::to_bytes(limit), bandwidth_request, bandwidth_limit);
          },
          "memory_request"_a, "memory_limit"_a = nb::none(), "bandwidth_request"_a = 0.0, "bandwidth_limit"_a = 1.0)
      .def_static(
          "guaranteed", [](Bytes<"guaranteed: memory"> memory) { return ResourceRequirements::guaranteed(memory); },
          "memory"_a)
      .def_static(
          "burstable",
          [](Bytes<"burstable: memory_request"> request, double ratio) {
            return ResourceRequirements::burstable(request, ratio);
          },
          "memory_request"_a, "burst_ratio"_a)
      .def_static("best_effort", &ResourceRequirements::best_effort)
      .def_ro("memory_request", &ResourceRequirements::memory_request)
      .def_ro("memory_limit", &ResourceRequirements::memory_limit)
      .def_ro("bandwidth_request", &ResourceRequirements::bandwidth_request)
      .def_ro("bandwidth_limit", &ResourceRequirements::bandwidth_limit)
      .def_prop_ro("qos_class", &ResourceRequirements::qos_class,
                   "Guaranteed when request and limit are equal, BestEffort when neither is given, else Burstable.")
      .def("__repr__", [](const ResourceRequirements& r) {
        return "ResourceRequirements(memory_request=" + std::to_string(r.memory_request) +
               ", memory_limit=" + text(r.memory_limit) + ", bandwidth_request=" + std::to_string(r.bandwidth_request) +
               ", bandwidth_limit=" + std::to_string(r.bandwidth_limit) + ")";
      });

  nb::class_<QosPolicy>(m, "QosPolicy", "What a class sets aside for a task.")
      .def(nb::init<const ResourceRequirements&>(), "requirements"_a, "The class follows from the requirements.")
      .def_static(
          "guaranteed", [](Bytes<"guaranteed: memory"> memory) { return QosPolicy::guaranteed(memory); }, "memory"_a)
      .def_static(
          "burstable",
          [](Bytes<"burstable: memory_request"> request, double ratio) { return QosPolicy::burstable(request, ratio); },
          "memory_request"_a, "burst_ratio"_a)
      .def_static("best_effort", &QosPolicy::best_effort)
      .def_ro("qos_class", &QosPolicy::qos_class)
      .def_ro("requirements", &QosPolicy::requirements)
      .def("memory_to_reserve", &QosPolicy::memory_to_reserve,
           "The limit of a guaranteed task, the request of a burstable one, else 0.")
      .def("bandwidth_to_reserve", &QosPolicy::bandwidth_to_reserve)
      .def("__repr__", [](const QosPolicy& p) {
        return std::string("QosPolicy(") + name(p.qos_class) +
               ", memory_to_reserve=" + std::to_string(p.memory_to_reserve()) + ")";
      });
}

void bind_task_meta(nb::module_& m) {
  nb::class_<QosTaskMeta>(m, "QosTaskMeta", "A task with its class and what it asks for.")
      .def(
          "__init__",
          [](QosTaskMeta* self, std::string id, std::string name, const ResourceRequirements& requirements,
             int64_t priority) {
            new (self) QosTaskMeta{std::move(id), std::move(name), QosPolicy(requirements), priority};
          },
          "id"_a, "name"_a, "requirements"_a, "priority"_a = 0, "The class follows from the requirements.")
      .def_static(
          "guaranteed",
          [](std::string id, std::string name, Bytes<"guaranteed: memory"> memory) {
            return QosTaskMeta::guaranteed(std::move(id), std::move(name), memory);
          },
          "id"_a, "name"_a, "memory"_a)
      .def_static(
          "burstable",
          [](std::string id, std::string name, Bytes<"burstable: memory_request"> request, double ratio) {
            return QosTaskMeta::burstable(std::move(id), std::move(name), request, ratio);
          },
          "id"_a, "name"_a, "memory_request"_a, "burst_ratio"_a)
      .def_static("best_effort", &QosTaskMeta::best_effort, "id"_a, "name"_a)
      .def_ro("id", &QosTaskMeta::id)
      .def_ro("name", &QosTaskMeta::name)
      .def_ro("policy", &QosTaskMeta::policy)
      .def_ro("priority", &QosTaskMeta::priority, "Within the class.")
      .def_prop_ro("qos_class", &QosTaskMeta::qos_class)
      .def_prop_ro("memory_request", [](const QosTaskMeta& t) { return t.policy.requirements.memory_request; })
      .def_prop_ro("memory_limit", [](const QosTaskMeta& t) { return t.policy.requirements.memory_limit; })
      .def_prop_ro("bandwidth_request", [](const QosTaskMeta& t) { return t.policy.requirements.bandwidth_request; })
      .def_prop_ro("burst_ratio", &QosTaskMeta::burst_ratio, "Limit over request; 0 without one of them.")
      .def("effective_priority", &QosTaskMeta::effective_priority, "The class dominates.")
      .def("__repr__", [](const QosTaskMeta& t) {
        return "QosTaskMeta(id='" + t.id + "', name='" + t.name + "', qos_class=" + name(t.qos_class()) +
               ", memory_request=" + std::to_string(t.policy.requirements.memory_request) +
               ", memory_limit=" + text(t.policy.requirements.memory_limit) + ")";
      });
}

void bind_evaluator(nb::module_& m) {
  nb::class_<QosEvaluation>(m, "QosEvaluation", "What was decided about a task, and what reserve() will set aside.")
      .def("is_admitted", [](const QosEvaluation& e) { return is(e, QosDecision::admit); })
      .def("is_throttled", [](const QosEvaluation& e) { return is(e, QosDecision::throttle); })
      .def("is_queued", [](const QosEvaluation& e) { return is(e, QosDecision::queue); })
      .def("is_rejected", [](const QosEvaluation& e) { return is(e, QosDecision::reject); })
      .def_prop_ro(
          "decision_type", [](const QosEvaluation& e) { return std::string(name(e.decision)); },
          "Admit, Throttle, Queue or Reject.")
      .def_ro("qos_class", &QosEvaluation::qos_class)
      .def_ro("reserved_memory", &QosEvaluation::reserved_memory)
      .def_ro("reserved_bandwidth", &QosEvaluation::reserved_bandwidth)
      .def_prop_ro(
          "reject_reason",
          [](const QosEvaluation& e) {
            return e.reject_reason.empty() ? std::nullopt : std::optional(e.reject_reason);
          },
          "None unless rejected.")
      .def("__repr__", [](const QosEvaluation& e) { return repr(e); });

  nb::class_<QosStats>(m, "QosStats", "What each class has reserved.")
      .def_ro("total_memory", &QosStats::total_memory)
      .def_ro("total_bandwidth", &QosStats::total_bandwidth)
      .def_ro("guaranteed_memory", &QosStats::guaranteed_memory)
      .def_ro("guaranteed_bandwidth", &QosStats::guaranteed_bandwidth)
      .def_ro("burstable_memory", &QosStats::burstable_memory)
      .def_ro("best_effort_queue", &QosStats::best_effort_queue)
      .def_ro("available_memory", &QosStats::available_memory)
      .def_ro("available_bandwidth", &QosStats::available_bandwidth)
      .def("__repr__", [](const QosStats& s) {
        return "QosStats(guaranteed_memory=" + std::to_string(s.guaranteed_memory) +
               ", burstable_memory=" + std::to_string(s.burstable_memory) +
               ", available_memory=" + std::to_string(s.available_memory) + " of " + std::to_string(s.total_memory) +
               ", best_effort_queue=" + std::to_string(s.best_effort_queue) + ")";
      });

  nb::class_<QosPolicyEvaluator>(m, "QosPolicyEvaluator",
                                 "Decides by class what may run beside what is already reserved.")
      .def(nb::init<Bytes<"QosPolicyEvaluator: total_memory">, double>(), "total_memory"_a, "total_bandwidth"_a = 1.0)
      .def(
          "evaluate", &QosPolicyEvaluator::evaluate, "task"_a,
          "Guaranteed: Admit or Reject. Burstable: Admit, Throttle when only limit or bandwidth do not fit, or Reject. "
          "BestEffort: Admit while memory is left, else Queue.")
      .def("reserve", &QosPolicyEvaluator::reserve, "evaluation"_a, "Sets aside what the evaluation says.")
      .def(
          "release",
          [](QosPolicyEvaluator& e, QosClass qos_class, Bytes<"release: memory"> memory, double bandwidth) {
            e.release(qos_class, memory, bandwidth);
          },
          "qos_class"_a, "memory"_a, "bandwidth"_a = 0.0, "Gives it back.")
      .def("stats", &QosPolicyEvaluator::stats)
      .def("reset", &QosPolicyEvaluator::reset, "Gives everything back.")
      .def(
          "decision_log", [](const QosPolicyEvaluator& e, uint64_t after) { return e.log().json_lines(after); },
          "after"_a = 0, "The decisions with a number above `after` as lines of JSON; the last 4096 are kept.")
      .def("__repr__", [](const QosPolicyEvaluator& e) {
        const QosStats stats = e.stats();
        return "QosPolicyEvaluator(available_memory=" + std::to_string(stats.available_memory) + " of " +
               std::to_string(stats.total_memory) + ")";
      });

  nb::class_<QosUsage>(m, "QosUsage", "What one tenant holds, for eviction_order.")
      .def(nb::init<QosClass, int64_t, Bytes<"QosUsage: request_bytes">, Bytes<"QosUsage: used_bytes">>(),
           "qos_class"_a, "priority"_a, "request_bytes"_a, "used_bytes"_a)
      .def_ro("qos_class", &QosUsage::qos_class)
      .def_ro("priority", &QosUsage::priority)
      .def_ro("request_bytes", &QosUsage::request_bytes)
      .def_ro("used_bytes", &QosUsage::used_bytes)
      .def("__repr__", [](const QosUsage& u) {
        return std::string("QosUsage(") + name(u.qos_class) + ", priority=" + std::to_string(u.priority) +
               ", request_bytes=" + std::to_string(u.request_bytes) + ", used_bytes=" + std::to_string(u.used_bytes) +
               ")";
      });
  m.def(
      "eviction_order", [](const std::vector<QosUsage>& usages) { return scheduler::qos_eviction_order(usages); },
      "usages"_a,
      "Indices of those above their request, the first to give way first: by class, priority, bytes above the "
      "request.");
}

}  // namespace

void bind_qos(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "scheduler");
  bind_class(m);
  bind_task_meta(m);
  bind_evaluator(m);
  nb::module_ top = python::runtime_module(core);
  for (const char* name : {"QosClass", "ResourceRequirements", "QosPolicy", "QosTaskMeta", "QosEvaluation", "QosStats",
                           "QosPolicyEvaluator"})
    top.attr(name) = m.attr(name);
}

}  // namespace gpukit
