#include "gpukit/scheduler/inspect/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gpukit/base/clock.h"
#include "gpukit/base/files.h"
#include "gpukit/base/json.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/session.h"

namespace gpukit::scheduler {

namespace {

constexpr int kProcess = 0, kKernels = 1, kMemory = 2;
constexpr size_t kNameColumns = 31;

template <typename... Args>
std::string formatted(const char* format, Args... args) {
  char text[160];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string cut(const std::string& name, size_t columns) {
  if (name.size() <= columns) return name;
  size_t end = columns - 3;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // whole characters of UTF-8
  return name.substr(0, end) + "...";
}

Json optional_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json event(const char* phase, int thread, double at_us, const std::string& name) {
  Json made = Json::object();
  made.set("ph", phase);
  made.set("pid", kProcess);
  made.set("tid", thread);
  made.set("ts", at_us);
  made.set("name", name);
  return made;
}

Json label(const char* what, int thread, const std::string& name) {
  Json made = event("M", thread, 0, what);
  Json args = Json::object();
  args.set("name", name);
  made.set("args", std::move(args));
  return made;
}

Json record_event(const KernelRecord& record, double at_us) {
  Json made = event("X", kKernels, at_us, record.name);
  made.set("dur", record.elapsed_us);
  made.set("cat", "kernel");
  Json args = Json::object();
  args.set("elapsed_ms", record.elapsed_ms);
  if (record.flops) args.set("flops", *record.flops);
  if (record.tflops()) args.set("tflops", optional_number(record.tflops()));
  if (record.bytes_transferred) args.set("bytes", *record.bytes_transferred);
  if (record.bandwidth_gb_s()) args.set("bandwidth_gb_s", optional_number(record.bandwidth_gb_s()));
  made.set("args", std::move(args));
  return made;
}

Json snapshot_event(const MemorySnapshot& snapshot, double at_us) {
  Json made = event("i", kMemory, at_us, snapshot.name);
  made.set("s", "t");
  made.set("cat", "memory");
  Json args = Json::object();
  args.set("used_mb", snapshot.used_mb());
  args.set("cached_mb", snapshot.cached_mb());
  args.set("available_mb", snapshot.available_mb());
  args.set("utilization", snapshot.utilization());
  args.set("active_blocks", snapshot.active_blocks);
  args.set("free_blocks", snapshot.free_blocks);
  made.set("args", std::move(args));
  return made;
}

/// When a trace began, in seconds since 1970.
double wall_time(int64_t at_ns) {
  return static_cast<double>(files::wall_clock_ns() - (real_clock().now_ns() - at_ns)) * 1e-9;
}

}  // namespace

std::optional<double> KernelRecord::tflops() const {
  if (!flops || elapsed_us <= 0) return {};
  return *flops / elapsed_us * 1e-6;
}

std::optional<double> KernelRecord::bandwidth_gb_s() const {
  if (!bytes_transferred || elapsed_us <= 0) return {};
  return *bytes_transferred / elapsed_us * 1e-3;
}

double MemorySnapshot::utilization() const {
  return quota == 0 ? 0 : static_cast<double>(used) / static_cast<double>(quota);
}

double MemorySnapshot::reuse_rate() const {
  const int64_t blocks = reuse_count + cudamalloc_count;
  return blocks == 0 ? 0 : static_cast<double>(reuse_count) / static_cast<double>(blocks);
}

std::vector<RecordSummary> summarize(std::span<const KernelRecord> records) {
  std::vector<RecordSummary> all;
  for (const KernelRecord& record : records) {
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& s) { return s.name == record.name; });
    if (found == all.end()) {
      all.push_back({record.name, 0, 0, 0, record.elapsed_ms, record.elapsed_ms});
      found = all.end() - 1;
    }
    ++found->count;
    found->total_ms += record.elapsed_ms;
    found->min_ms = std::min(found->min_ms, record.elapsed_ms);
    found->max_ms = std::max(found->max_ms, record.elapsed_ms);
    found->avg_ms = found->total_ms / static_cast<double>(found->count);
  }
  return all;
}

std::string summary_text(std::span<const KernelRecord> records) {
  std::vector<RecordSummary> all = summarize(records);
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.total_ms > b.total_ms; });
  std::string text = "Profiler Summary\n";
  text += formatted("%-31s %6s %9s %9s %9s %9s\n", "name", "count", "total ms", "mean ms", "min ms", "max ms");
  double total = 0;
  for (const RecordSummary& s : all) {
    total += s.total_ms;
    text += formatted("%-31s %6lld %9.3f %9.3f %9.3f %9.3f\n", cut(s.name, kNameColumns).c_str(),
                      static_cast<long long>(s.count), s.total_ms, s.avg_ms, s.min_ms, s.max_ms);
  }
  return text + formatted("%-31s %6zu %9.3f\n", "all", records.size(), total);
}

MemorySnapshot memory_snapshot(Device device, std::string name) {
  MemorySnapshot made;
  made.name = std::move(name);
  made.timestamp = static_cast<double>(files::wall_clock_ns()) * 1e-9;
  runtime::DeviceState& state = runtime::open_device(device);
  if (const std::shared_ptr<memory::Account> account = runtime::current_account(device)) {
    const memory::AccountStats stats = account->stats();
    made.quota = static_cast<int64_t>(stats.quota);
    made.cached = static_cast<int64_t>(stats.cached_bytes);
    made.used = static_cast<int64_t>(stats.charged_bytes) - made.cached;
    made.active_blocks = stats.live_blocks;
    made.free_blocks = stats.cached_blocks;
    made.allocation_count = stats.allocations;
    made.reuse_count = stats.reuses;
  } else {
    const memory::ResourceStats stats = state.resource->stats();
    made.cached = stats.cached_bytes;
    made.used = stats.live_bytes;
    made.active_blocks = stats.live_blocks;
    made.free_blocks = stats.cached_blocks;
    made.allocation_count = stats.allocations;
    made.reuse_count = stats.reuses;
  }
  if (made.quota == 0) made.quota = state.context.properties().total_memory;
  made.available = std::max<int64_t>(made.quota - made.used, 0);
  made.cudamalloc_count = made.allocation_count - made.reuse_count;
  return made;
}

std::string memory_text(std::span<const MemorySnapshot> snapshots) {
  std::string text = "Memory Profiler Report\n";
  text +=
      formatted("%-31s %11s %11s %6s %7s %7s\n", "snapshot", "used MiB", "cached MiB", "use %", "blocks", "reuse %");
  int64_t peak = 0;
  for (const MemorySnapshot& s : snapshots) {
    peak = std::max(peak, s.used);
    text +=
        formatted("%-31s %11.2f %11.2f %6.1f %7lld %7.1f\n", cut(s.name, kNameColumns).c_str(), s.used_mb(),
                  s.cached_mb(), 100 * s.utilization(), static_cast<long long>(s.active_blocks), 100 * s.reuse_rate());
  }
  return text + formatted("%-31s %11.2f\n", "peak", static_cast<double>(peak) / (1 << 20));
}

std::string memory_difference_text(const MemorySnapshot& before, const MemorySnapshot& after) {
  std::string text = "Memory Profiler: " + cut(before.name, 24) + " to " + cut(after.name, 24) + "\n";
  text += formatted("  used    %+.2f MiB\n", after.used_mb() - before.used_mb());
  text += formatted("  cached  %+.2f MiB\n", after.cached_mb() - before.cached_mb());
  text += formatted("  blocks  %+lld active, %+lld free\n",
                    static_cast<long long>(after.active_blocks - before.active_blocks),
                    static_cast<long long>(after.free_blocks - before.free_blocks));
  text += formatted("  allocations %+lld\n", static_cast<long long>(after.allocation_count - before.allocation_count));
  return text + formatted("  time    %.3f ms\n", (after.timestamp - before.timestamp) * 1e3);
}

std::string profile_json(std::span<const KernelRecord> records, std::span<const MemorySnapshot> snapshots,
                         const std::string& process_name, const std::string& thread_name, const TraceData* trace) {
  double origin = HUGE_VAL;
  for (const KernelRecord& record : records) origin = std::min(origin, record.timestamp);
  for (const MemorySnapshot& snapshot : snapshots) origin = std::min(origin, snapshot.timestamp);
  const double trace_start = trace != nullptr ? wall_time(trace->started_ns) : HUGE_VAL;
  origin = std::min(origin, trace_start);

  Json events = Json::list();
  events.push_back(label("process_name", 0, process_name));
  events.push_back(label("thread_name", kKernels, thread_name));
  double next_us = 0;
  for (const KernelRecord& record : records) {
    const double at = std::max(next_us, (record.timestamp - origin) * 1e6);
    events.push_back(record_event(record, at));
    next_us = at + record.elapsed_us;
  }
  if (!snapshots.empty()) events.push_back(label("thread_name", kMemory, "memory"));
  for (const MemorySnapshot& snapshot : snapshots)
    events.push_back(snapshot_event(snapshot, (snapshot.timestamp - origin) * 1e6));
  if (trace != nullptr) {
    Json ran = Json::parse(trace_json(*trace));
    for (const Json& entry : ran.at("traceEvents").items()) {
      Json moved = entry;
      if (const Json* at = entry.find("ts")) moved.set("ts", at->as_number() + (trace_start - origin) * 1e6);
      events.push_back(std::move(moved));
    }
  }
  Json all = Json::object();
  all.set("displayTimeUnit", "ms");
  all.set("traceEvents", std::move(events));
  return all.dump();
}

}  // namespace gpukit::scheduler
