// The part of a snapshot that tells of schedulers, admission, partitions and contexts.
#include "gpukit/base/error.h"
#include "gpukit/base/metrics.h"
#include "gpukit/scheduler/context/controller.h"
#include "gpukit/scheduler/inspect/snapshot.h"
#include "gpukit/scheduler/partition/partition_manager.h"
#include "gpukit/scheduler/tasks/qos.h"
#include "gpukit/scheduler/tasks/scheduler.h"

namespace gpukit::scheduler {

using detail::known;
using detail::limit;
using detail::number;
using detail::size;

namespace {

Json named(uint64_t index) {
  Json made = Json::object();
  made.set("number", size(index));
  return made;
}

Json scheduler_json(uint64_t index, const Scheduler& scheduler) {
  const SchedulerStats s = scheduler.stats_so_far();
  Json j = named(index);
  j.set("total_bytes", known(scheduler.config().total_memory.has_value(), scheduler.config().total_memory.value_or(0)));
  j.set("reserved_bytes", s.reserved_memory);
  j.set("available_bytes", known(s.available_memory.has_value(), s.available_memory.value_or(0)));
  j.set("submitted", size(s.total_submitted));
  j.set("pending", size(s.pending_count));
  j.set("queued", size(s.queued_count));
  j.set("running", size(s.running_count));
  j.set("completed", size(s.completed_count));
  j.set("failed", size(s.failed_count));
  j.set("cancelled", size(s.cancelled_count));
  j.set("average_wait_s", number(s.avg_wait_s));
  j.set("average_run_s", number(s.avg_execution_s));
  j.set("decisions", size(scheduler.log().count()));
  return j;
}

Json admission_json(uint64_t index, const AdmissionController& controller) {
  const AdmissionStats s = controller.stats();
  Json j = named(index);
  j.set("admitted", size(s.admitted_count));
  j.set("rejected", size(s.rejected_count));
  j.set("queued", size(s.queued_count));
  j.set("pending", size(s.pending_count));
  j.set("reserved_bytes", s.reserved_memory);
  j.set("available_bytes", s.available_memory);
  j.set("reserved_bandwidth", number(s.reserved_bandwidth));
  j.set("available_bandwidth", number(s.available_bandwidth));
  j.set("decisions", size(controller.log().count()));
  return j;
}

Json qos_json(uint64_t index, const QosPolicyEvaluator& evaluator) {
  const QosStats s = evaluator.stats();
  Json j = named(index);
  j.set("total_bytes", s.total_memory);
  j.set("guaranteed_bytes", s.guaranteed_memory);
  j.set("burstable_bytes", s.burstable_memory);
  j.set("available_bytes", s.available_memory);
  j.set("best_effort_queue", s.best_effort_queue);
  j.set("available_bandwidth", number(s.available_bandwidth));
  j.set("decisions", size(evaluator.log().count()));
  return j;
}

Json obtained_json(const PartitionUsage& u) {
  Json j = Json::object();
  j.set("enforced", u.enforced);
  j.set("memory_bytes", u.memory_used);
  j.set("peak_memory_bytes", u.memory_peak);
  j.set("memory_limit_bytes", limit(u.memory_limit));
  j.set("multiprocessors_asked", u.sm_asked);
  j.set("multiprocessors", u.sm_count);
  j.set("paced", u.paced);
  j.set("bytes_per_second", known(u.bytes_per_second > 0, number(u.bytes_per_second)));
  j.set("streams", u.active_streams);
  j.set("pending_kernels", u.pending_kernels);
  j.set("pending_transfers", u.pending_transfers);
  j.set("kernels", u.total_kernels);
  j.set("transfers", u.total_transfers);
  j.set("bytes_copied", u.bytes_copied);
  j.set("compute_s", number(u.compute_time_ms * 1e-3));
  j.set("note", u.note);
  return j;
}

Json partition_json(uint64_t manager, const Json& device, const Partition& partition) {
  const PartitionLimits limits = partition.limits();
  Json asked = Json::object();
  asked.set("memory_bytes", limit(limits.memory_quota));
  asked.set("compute", number(limits.compute_share));
  asked.set("bandwidth", number(limits.bandwidth_share));
  asked.set("max_streams", limits.max_streams);
  Json j = Json::object();
  j.set("manager", size(manager));
  j.set("device", device);
  j.set("id", partition.id());
  j.set("name", partition.name());
  j.set("tasks", size(partition.tasks().size()));
  j.set("asked", std::move(asked));
  try {
    j.set("obtained", obtained_json(partition.usage()));
  } catch (const Error& error) {
    j.set("obtained", Json());
    j.set("error", error.what());
  }
  return j;
}

Json controller_json(uint64_t index, const MultiLLMController& controller) {
  const ControllerStats s = controller.stats();
  Json j = named(index);
  j.set("initialized", s.initialized);
  j.set("device", Json());
  try {
    j.set("device", str(controller.device()));
  } catch (const Error&) {
    // Not initialised.
  }
  j.set("budget_bytes", s.total_vram_budget);
  j.set("used_bytes", s.used_vram);
  j.set("available_bytes", s.available_vram);
  j.set("contexts", s.context_count);
  return j;
}

/// What engines of language models have counted for the account of a context.
void add_tokens(Json& j, const std::string& account) {
  const int64_t drawn = counter_value(owned_name("llm.drawn_tokens", account));
  const double time_s = static_cast<double>(counter_value(owned_name("llm.steps_ns", account))) * 1e-9;
  j.set("tokens", drawn);
  j.set("computed_tokens", counter_value(owned_name("llm.tokens", account)));
  j.set("steps_s", number(time_s));
  j.set("tokens_per_second", known(time_s > 0, number(static_cast<double>(drawn) / time_s)));
}

Json context_json(uint64_t index, const MultiLLMController& controller, const ExecutionContext& context) {
  const ContextStats s = controller.context_stats(context);
  Json j = Json::object();
  j.set("controller", size(index));
  j.set("id", s.llm_id);
  j.set("state", name(s.state));
  j.set("stream", s.stream_id);
  j.set("quota_bytes", limit(s.max_vram));
  j.set("used_bytes", s.used_vram);
  j.set("available_bytes", s.available_vram);
  j.set("buffers", s.buffer_count);
  add_tokens(j, context.account().name());
  try {
    const ContextUsage u = context.usage();
    const AsyncExecStats futures = context.async_stats();
    j.set("qos", name(u.qos));
    j.set("request_bytes", u.base_vram);
    j.set("peak_bytes", u.peak_vram);
    j.set("cached_bytes", u.cached_vram);
    j.set("sessions", u.sessions);
    j.set("launches", u.launches);
    j.set("pending_futures", futures.pending_count + futures.running_count);
    j.set("obtained", known(u.partition.enforced, obtained_json(u.partition)));
  } catch (const Error& error) {
    j.set("error", error.what());
  }
  return j;
}

template <typename T, typename F>
Json all_of(F&& describe) {
  Json list = Json::list();
  Listed<T>::each([&](uint64_t index, const T& owner) { list.push_back(describe(index, owner)); });
  return list;
}

void add_decisions(std::string& out, const std::string& log, const DecisionLog& decisions) {
  for (const Decision& decision : decisions.read()) {
    Json line = Json::object();
    line.set("log", log);
    const Json entry = Json::parse(decision.json());
    for (const auto& [name, value] : entry.members()) line.set(name, value);
    out += line.dump() + "\n";
  }
}

template <typename T>
void add_logs(std::string& out, const char* kind) {
  Listed<T>::each([&](uint64_t index, const T& owner) {
    add_decisions(out, std::string(kind) + " " + std::to_string(index), owner.log());
  });
}

}  // namespace

std::string decisions_json() {
  std::string out;
  add_logs<Scheduler>(out, "scheduler");
  add_logs<AdmissionController>(out, "admission");
  add_logs<QosPolicyEvaluator>(out, "qos");
  return out;
}

void detail::add_scheduling(Json& snapshot) {
  Json partitions = Json::list(), contexts = Json::list();
  Listed<PartitionManager>::each([&](uint64_t index, const PartitionManager& manager) {
    const std::optional<Device> device = manager.device();
    const Json where = known(device.has_value(), str(device.value_or(Device())));
    for (const std::string& id : manager.ids())
      if (auto partition = manager.get(id)) partitions.push_back(partition_json(index, where, *partition));
  });
  Json controllers = all_of<MultiLLMController>([&](uint64_t index, const MultiLLMController& controller) {
    for (const std::string& id : controller.list_contexts())
      if (auto context = controller.find(id)) contexts.push_back(context_json(index, controller, *context));
    return controller_json(index, controller);
  });
  snapshot.set("partitions", std::move(partitions));
  snapshot.set("controllers", std::move(controllers));
  snapshot.set("contexts", std::move(contexts));
  snapshot.set("schedulers", all_of<Scheduler>(scheduler_json));
  snapshot.set("admission", all_of<AdmissionController>(admission_json));
  snapshot.set("qos", all_of<QosPolicyEvaluator>(qos_json));
}

}  // namespace gpukit::scheduler
