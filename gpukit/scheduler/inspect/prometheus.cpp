// The snapshot in Prometheus' text format.
#include <map>
#include <string_view>
#include <vector>

#include "gpukit/scheduler/inspect/snapshot.h"

namespace gpukit::scheduler {

namespace {

/// Where samples come from: a list of the snapshot, or a list inside each of its items, and their labels.
struct Source {
  const char* list;
  const char* inner;                                                      // null: the items themselves
  std::vector<std::pair<const char*, const char*>> labels, inner_labels;  // label, member
};

struct Metric {
  const char* name;  // without the prefix
  const char* type;
  const char* help;
  const char* member;  // dots lead into objects
};

struct Family {
  Source source;
  std::vector<Metric> metrics;
};

const std::vector<Family>& families() {
  static const auto* table = new std::vector<Family>{
      {{"devices", nullptr, {{"device", "device"}}, {}},
       {{"device_memory_total_bytes", "gauge", "Memory of the device.", "total_bytes"},
        {"device_memory_free_bytes", "gauge", "Memory that the driver reports as free.", "free_bytes"},
        {"device_multiprocessors", "gauge", "Multiprocessors of the device.", "multiprocessors"},
        {"device_usable", "gauge", "0 once an error has made the device unusable.", "usable"}}},
      {{"pools", nullptr, {{"device", "device"}}, {}},
       {{"pool_live_bytes", "gauge", "Bytes in use.", "live_bytes"},
        {"pool_cached_bytes", "gauge", "Bytes kept for reuse.", "cached_bytes"},
        {"pool_reserved_bytes", "gauge", "Bytes taken from the driver.", "reserved_bytes"},
        {"pool_retained_bytes", "gauge", "Bytes in wholly free pages.", "retained_bytes"},
        {"pool_evicted_bytes", "gauge", "Bytes that lie in host memory.", "evicted_bytes"},
        {"pool_allocations_total", "counter", "Blocks handed out.", "allocations"},
        {"pool_reuses_total", "counter", "Blocks handed out without the driver.", "reuses"},
        {"pool_driver_allocations_total", "counter", "Calls that took memory from the driver.", "driver_allocations"},
        {"pool_evictions_total", "counter", "Blocks moved to host memory.", "evictions"},
        {"pool_restores_total", "counter", "Blocks moved back.", "restores"},
        {"pool_copied_out_bytes_total", "counter", "Bytes that evictions copied to host memory.", "copied_out_bytes"},
        {"pool_copied_in_bytes_total", "counter", "Bytes that restores copied back.", "copied_in_bytes"},
        {"pool_reread_bytes_total", "counter", "Bytes that restores read from files instead.", "reread_bytes"},
        {"pool_wait_seconds_total", "counter", "Time that slow paths waited for the device.", "wait_s"}}},
      {{"accounts", nullptr, {{"device", "device"}, {"account", "name"}}, {}},
       {{"account_quota_bytes", "gauge", "The wall, where there is one.", "quota_bytes"},
        {"account_charged_bytes", "gauge", "What counts against the wall.", "charged_bytes"},
        {"account_live_bytes", "gauge", "Bytes in use by blocks of this account.", "live_bytes"},
        {"account_cached_bytes", "gauge", "Bytes kept for this account.", "cached_bytes"},
        {"account_evicted_bytes", "gauge", "Bytes of this account in host memory.", "evicted_bytes"},
        {"account_peak_bytes", "gauge", "The most that was charged.", "peak_charged_bytes"},
        {"account_refusals_total", "counter", "Charges that the wall refused.", "refusals"}}},
      {{"partitions", nullptr, {{"manager", "manager"}, {"partition", "id"}}, {}},
       {{"partition_memory_bytes", "gauge", "Memory in use.", "obtained.memory_bytes"},
        {"partition_memory_limit_bytes", "gauge", "The wall, where there is one.", "obtained.memory_limit_bytes"},
        {"partition_compute_share", "gauge", "The share asked for.", "asked.compute"},
        {"partition_multiprocessors", "gauge", "Multiprocessors obtained.", "obtained.multiprocessors"},
        {"partition_kernels_total", "counter", "Kernels that ran.", "obtained.kernels"},
        {"partition_compute_seconds_total", "counter", "Time on the device.", "obtained.compute_s"},
        {"partition_copied_bytes_total", "counter", "Bytes moved by copies.", "obtained.bytes_copied"}}},
      {{"contexts", nullptr, {{"controller", "controller"}, {"context", "id"}}, {}},
       {{"context_memory_bytes", "gauge", "Memory in use.", "used_bytes"},
        {"context_memory_quota_bytes", "gauge", "The wall, where there is one.", "quota_bytes"},
        {"context_sessions", "gauge", "Sessions entered now.", "sessions"},
        {"context_tokens_total", "counter", "Tokens that its language models drew.", "tokens"},
        {"context_computed_tokens_total", "counter", "Tokens they computed, those of prompts too.", "computed_tokens"},
        {"context_steps_seconds_total", "counter", "Time of their steps.", "steps_s"},
        {"context_launches_total", "counter", "Work submitted to its streams.", "launches"},
        {"context_pending_futures", "gauge", "Dispatches that are not over.", "pending_futures"}}},
      {{"streams", nullptr, {{"device", "device"}, {"stream", "id"}, {"owner", "owner"}}, {}},
       {{"stream_submitted_total", "counter", "Work submitted to the stream.", "submitted"},
        {"stream_in_flight", "gauge", "Submitted and not completed, where it is counted.", "in_flight"}}},
      {{"transfers", nullptr, {{"device", "device"}}, {}},
       {{"transfers_pending", "gauge", "Transfers that wait.", "pending"},
        {"transfers_in_progress", "gauge", "Transfers that run.", "in_progress"},
        {"transfers_completed_total", "counter", "Transfers that completed.", "completed"},
        {"transfers_failed_total", "counter", "Transfers that failed.", "failed"},
        {"transfers_to_device_bytes_total", "counter", "Bytes copied to the device.", "to_device_bytes"},
        {"transfers_to_host_bytes_total", "counter", "Bytes copied to the host.", "to_host_bytes"}}},
      {{"dispatch", nullptr, {{"device", "device"}}, {}},
       {{"gate_waiting", "gauge", "Threads held back at the launch gate.", "waiting"}}},
      {{"dispatch", "tenants", {{"device", "device"}}, {{"tenant", "name"}}},
       {{"tenant_kernels_total", "counter", "Kernels of the tenant that ran.", "kernels"},
        {"tenant_device_seconds_total", "counter", "Time of its kernels on the device.", "device_s"},
        {"tenant_wait_seconds_total", "counter", "Time it was held back at the gate.", "wait_s"},
        {"tenant_copied_bytes_total", "counter", "Bytes it moved.", "bytes"}}},
      {{"dispatch", "kernels", {{"device", "device"}}, {{"kernel", "name"}}},
       {{"kernel_launches_total", "counter", "Recorded launches by name.", "count"}}},
      {{"schedulers", nullptr, {{"scheduler", "number"}}, {}},
       {{"scheduler_pending_tasks", "gauge", "Tasks that have not started.", "pending"},
        {"scheduler_running_tasks", "gauge", "Tasks that run.", "running"},
        {"scheduler_submitted_tasks_total", "counter", "Tasks submitted.", "submitted"},
        {"scheduler_completed_tasks_total", "counter", "Tasks completed.", "completed"},
        {"scheduler_failed_tasks_total", "counter", "Tasks failed.", "failed"},
        {"scheduler_cancelled_tasks_total", "counter", "Tasks cancelled.", "cancelled"},
        {"scheduler_reserved_bytes", "gauge", "Memory that tasks hold.", "reserved_bytes"}}},
      {{"admission", nullptr, {{"controller", "number"}}, {}},
       {{"admission_admitted_total", "counter", "Requests admitted.", "admitted"},
        {"admission_rejected_total", "counter", "Requests rejected.", "rejected"},
        {"admission_queued_total", "counter", "Requests queued.", "queued"},
        {"admission_reserved_bytes", "gauge", "Memory set aside.", "reserved_bytes"}}},
  };
  return *table;
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.as_string();
  return value.dump();
}

void add_label(std::string& labels, const char* label, const Json* value) {
  labels += labels.empty() ? "" : ",";
  labels += std::string(label) + "=\"";
  for (const char c : value == nullptr || value->is_null() ? std::string() : text_of(*value)) {
    if (c == '\\' || c == '"') labels += '\\';
    if (c == '\n')
      labels += "\\n";
    else
      labels += c;
  }
  labels += '"';
}

const Json* member(const Json* value, std::string_view path) {
  while (value != nullptr && value->is_object()) {
    const size_t dot = path.find('.');
    value = value->find(path.substr(0, dot));
    if (dot == std::string_view::npos) return value;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

using Samples = std::vector<std::pair<std::string, const Json*>>;  // labels and item

Samples samples_of(const Json& snapshot, const Source& source) {
  Samples samples;
  const Json* list = snapshot.find(source.list);
  if (list == nullptr) return samples;
  for (const Json& item : list->items()) {
    std::string labels;
    for (const auto& [label, name] : source.labels) add_label(labels, label, item.find(name));
    if (source.inner == nullptr) {
      samples.emplace_back(std::move(labels), &item);
      continue;
    }
    for (const Json& inner : item.at(source.inner).items()) {
      std::string all = labels;
      for (const auto& [label, name] : source.inner_labels) add_label(all, label, inner.find(name));
      samples.emplace_back(std::move(all), &inner);
    }
  }
  return samples;
}

void head(std::string& out, const Metric& metric) {
  const std::string name = std::string("pygpukit_") + metric.name;
  out += "# HELP " + name + " " + metric.help + "\n# TYPE " + name + " " + metric.type + "\n";
}

void sample(std::string& out, const char* name, const std::string& labels, const Json& value) {
  out += std::string("pygpukit_") + name + (labels.empty() ? "" : "{" + labels + "}") + " " + value.dump() + "\n";
}

Json plus(const Json& a, const Json& b) {
  if (a.is_integer() && b.is_integer()) return a.as_integer() + b.as_integer();
  return a.as_number() + b.as_number();
}

}  // namespace

std::string prometheus_text(const Json& snapshot) {
  std::string out;
  const Metric info{"info", "gauge", "The version of the library.", nullptr};
  head(out, info);
  std::string labels;
  add_label(labels, "version", snapshot.find("version"));
  sample(out, info.name, labels, 1);
  for (const Family& family : families()) {
    const Samples samples = samples_of(snapshot, family.source);
    for (const Metric& metric : family.metrics) {
      // Objects of one name are one series.
      std::vector<std::string> order;
      std::map<std::string, Json> sums;
      for (const auto& [where, item] : samples) {
        const Json* value = member(item, metric.member);
        if (value == nullptr || value->is_null()) continue;
        const Json amount = value->is_bool() ? Json(value->as_bool() ? 1 : 0) : *value;
        const auto [entry, added] = sums.try_emplace(where, amount);
        if (added)
          order.push_back(where);
        else
          entry->second = plus(entry->second, amount);
      }
      if (order.empty()) continue;
      head(out, metric);
      for (const std::string& where : order) sample(out, metric.name, where, sums.at(where));
    }
  }
  if (const Json* counters = snapshot.find("counters"); counters != nullptr && !counters->members().empty()) {
    const Metric metric{"counter", "gauge", "Counters of the library by name.", nullptr};
    head(out, metric);
    for (const auto& [name, value] : counters->members()) {
      std::string name_label;
      const Json name_value(name);
      add_label(name_label, "name", &name_value);
      sample(out, metric.name, name_label, value);
    }
  }
  if (const Json* events = member(&snapshot, "events.count"); events != nullptr) {
    const Metric metric{"events_total", "counter", "Events noted in the event log.", nullptr};
    head(out, metric);
    sample(out, metric.name, "", *events);
  }
  return out;
}

}  // namespace gpukit::scheduler
