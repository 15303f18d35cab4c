#include "gpukit/scheduler/inspect/snapshot.h"

#include <cmath>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/events.h"
#include "gpukit/base/files.h"
#include "gpukit/base/metrics.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/base/version.h"
#include "gpukit/driver/nvtx.h"
#include "gpukit/driver/visibility.h"
#include "gpukit/memory/residency.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/stream_list.h"
#include "gpukit/runtime/transfer_engine.h"
#include "gpukit/scheduler/inspect/nvtx.h"
#include "gpukit/scheduler/inspect/trace.h"

namespace gpukit::scheduler {

namespace detail {

Json known(bool is_known, Json value) {
  if (is_known) return value;
  return {};
}
Json number(double value) { return known(std::isfinite(value), value); }
Json limit(int64_t bytes) { return known(bytes != 0, bytes); }
Json size(size_t bytes) { return static_cast<int64_t>(bytes); }

}  // namespace detail

using detail::known;
using detail::limit;
using detail::number;
using detail::size;

namespace {

constexpr size_t kKernels = 20, kRecentEvents = 20, kActiveTransfers = 100;

Json object(std::initializer_list<std::pair<const char*, Json>> members) {
  Json made = Json::object();
  for (const auto& [name, value] : members) made.set(name, value);
  return made;
}

Json device_json(runtime::DeviceState& state) {
  const driver::DeviceProperties& p = state.context.properties();
  Json d = object({{"device", str(state.context.device())},
                   {"name", p.name},
                   {"uuid", p.uuid},
                   {"sm", p.sm_major * 10 + p.sm_minor},
                   {"multiprocessors", p.sm_count},
                   {"virtual_memory", p.vmm},
                   {"total_bytes", p.total_memory},
                   {"usable", !state.health.dead()},
                   {"last_launches", state.health.recent_launches()}});
  d.set("free_bytes", Json());
  try {
    size_t free_bytes = 0, total_bytes = 0;
    runtime::memory_info(state.context.device(), &free_bytes, &total_bytes);
    d.set("free_bytes", size(free_bytes));
  } catch (const Error& error) {
    d.set("error", error.what());
  }
  return d;
}

Json pool_json(Device device, memory::Resource& resource) {
  const memory::ResourceStats s = resource.stats();
  memory::Residency* const residency = resource.residency();
  const memory::MovedBytes moved = residency != nullptr ? residency->moved() : memory::MovedBytes();
  return object({{"device", str(device)},
                 {"live_bytes", s.live_bytes},
                 {"cached_bytes", s.cached_bytes},
                 {"peak_live_bytes", s.peak_live_bytes},
                 {"live_blocks", s.live_blocks},
                 {"cached_blocks", s.cached_blocks},
                 {"reserved_bytes", s.reserved_bytes},
                 {"peak_reserved_bytes", s.peak_reserved_bytes},
                 {"retained_bytes", s.retained_bytes},
                 {"retained_limit_bytes", s.retained_limit},
                 {"slabs", s.slabs},
                 {"slab_bytes", s.slab_bytes},
                 {"virtual_memory", s.virtual_memory},
                 {"mappings", s.mappings},
                 {"allocations", s.allocations},
                 {"reuses", s.reuses},
                 {"driver_allocations", s.driver_allocations},
                 {"driver_frees", s.driver_frees},
                 {"trims", s.trims},
                 {"waits", s.waits},
                 {"wait_s", static_cast<double>(s.wait_ns) * 1e-9},
                 {"evictions", s.evictions},
                 {"restores", s.restores},
                 {"evicted_bytes", s.evicted_bytes},
                 {"copied_out_bytes", moved.copied_out},
                 {"copied_in_bytes", moved.copied_in},
                 {"reread_bytes", moved.reread},
                 {"host_bytes", s.host_bytes},
                 {"host_limit_bytes", s.host_limit}});
}

Json account_json(const memory::AccountStats& s) {
  return object({{"name", s.name},
                 {"parent", known(!s.parent.empty(), s.parent)},
                 {"device", str(s.device)},
                 {"eviction", s.eviction},
                 {"quota_bytes", limit(static_cast<int64_t>(s.quota))},
                 {"charged_bytes", size(s.charged_bytes)},
                 {"peak_charged_bytes", size(s.peak_charged_bytes)},
                 {"live_bytes", size(s.live_bytes)},
                 {"peak_live_bytes", size(s.peak_live_bytes)},
                 {"cached_bytes", size(s.cached_bytes)},
                 {"evicted_bytes", size(s.evicted_bytes)},
                 {"live_blocks", s.live_blocks},
                 {"cached_blocks", s.cached_blocks},
                 {"evicted_blocks", s.evicted_blocks},
                 {"allocations", s.allocations},
                 {"reuses", s.reuses},
                 {"evictions", s.evictions},
                 {"restores", s.restores},
                 {"refusals", s.refusals}});
}

Json stream_json(const runtime::ListedStream& listed) {
  const driver::Stream& stream = *listed.stream;
  const Device device = stream.device();
  return object({{"id", size(stream.id())},
                 {"device", str(device)},
                 {"owner", listed.label},
                 {"priority", stream.priority()},
                 {"multiprocessors",
                  known(stream.green() != nullptr, stream.green() != nullptr ? stream.green()->sm_count() : 0)},
                 {"submitted", size(stream.sequence.load(std::memory_order_relaxed))},
                 {"in_flight", DispatchController::of(device).in_flight(stream)},
                 {"capturing", stream.capture.load(std::memory_order_relaxed) != nullptr},
                 {"controlled", stream.control.load(std::memory_order_relaxed) != nullptr}});
}

Json transfers_json(Device device, runtime::TransferEngine& engine) {
  const runtime::TransferStats s = engine.stats();
  const runtime::PinnedRing::Stats ring = engine.ring().stats();
  Json active = Json::list();
  for (const runtime::TransferRecord& record : engine.active()) {
    if (active.items().size() == kActiveTransfers) break;
    active.push_back(object({{"id", size(record.id)},
                             {"type", runtime::str(record.type)},
                             {"state", runtime::str(record.state)},
                             {"bytes", size(record.bytes)},
                             {"bytes_done", size(record.bytes_done)},
                             {"priority", record.priority}}));
  }
  return object({{"device", str(device)},
                 {"queued", s.total_queued},
                 {"completed", s.completed_count},
                 {"failed", s.failed_count},
                 {"cancelled", s.cancelled_count},
                 {"pending", s.pending_count},
                 {"in_progress", s.in_progress_count},
                 {"bytes", s.total_bytes},
                 {"to_device_bytes", s.h2d_bytes},
                 {"to_host_bytes", s.d2h_bytes},
                 {"to_device_gb_per_s", number(s.h2d_gigabytes_per_second())},
                 {"to_host_gb_per_s", number(s.d2h_gigabytes_per_second())},
                 {"ring", object({{"chunks", size(ring.chunks)},
                                  {"bytes", size(ring.bytes)},
                                  {"held", size(ring.held)},
                                  {"in_flight", size(ring.in_flight)},
                                  {"acquired", size(ring.acquired)},
                                  {"waited", size(ring.waited)}})},
                 {"active", std::move(active)}});
}

Json dispatch_json(Device device, const DispatchController& controller) {
  Json tenants = Json::list(), kernels = Json::list();
  for (const TenantUsage& u : controller.usage()) {
    tenants.push_back(object({{"name", u.name},
                              {"weight", number(u.weight)},
                              {"bytes_per_second", known(u.bytes_per_second > 0, number(u.bytes_per_second))},
                              {"streams", u.streams},
                              {"pending_kernels", u.pending_kernels},
                              {"pending_copies", u.pending_copies},
                              {"kernels", u.kernels},
                              {"copies", u.copies},
                              {"failed", u.failed},
                              {"bytes", u.bytes},
                              {"device_s", number(u.device_us * 1e-6)},
                              {"wait_s", number(u.wait_us * 1e-6)}}));
  }
  for (const KernelStatistics& k : controller.kernel_statistics()) {
    if (kernels.items().size() == kKernels) break;
    kernels.push_back(object({{"name", k.name},
                              {"count", k.count},
                              {"failed", k.failed},
                              {"total_us", number(k.total_us)},
                              {"min_us", number(k.min_us)},
                              {"max_us", number(k.max_us)}}));
  }
  return object({{"device", str(device)},
                 {"waiting", controller.waiting()},
                 {"tenants", std::move(tenants)},
                 {"kernels", std::move(kernels)}});
}

Json events_member() {
  Json recent = Json::list();
  const uint64_t count = event_count();
  for (const Event& event : events(count > kRecentEvents ? count - kRecentEvents : 0))
    recent.push_back(Json::parse(event.json()));
  return object({{"count", size(count)}, {"capacity", size(kEventCapacity)}, {"recent", std::move(recent)}});
}

Json environment_json(const std::vector<runtime::DeviceState*>& opened) {
  Json variables = Json::object(), lines = Json::list();
  for (const env::Variable& variable : env::list())
    if (variable.value) variables.set(variable.name, *variable.value);
  for (const runtime::DeviceState* state : opened) {
    if (state->context.device().kind != DeviceKind::cuda) continue;
    for (std::string& line : driver::read_visibility(state->context.properties(), state->context.ordinal()).lines())
      lines.push_back(str(state->context.device()) + ": " + line);
  }
  int64_t free_bytes = 0, total_bytes = 0;
  files::host_memory(&free_bytes, &total_bytes);
  const driver::NvtxLibrary& nvtx = driver::nvtx();
  const TraceStatus trace = Trace::instance().status();
  return object({{"variables", std::move(variables)},
                 {"devices", std::move(lines)},
                 {"threads", num_threads()},
                 {"host_free_bytes", free_bytes},
                 {"host_total_bytes", total_bytes},
                 {"nvtx", object({{"available", nvtx.table != nullptr},
                                  {"running", NvtxRanges::instance().running()},
                                  {"path", known(!nvtx.path.empty(), nvtx.path)},
                                  {"reason", nvtx.reason}})},
                 {"trace", object({{"running", trace.running},
                                   {"launches", size(trace.launches)},
                                   {"tasks", size(trace.tasks)},
                                   {"dropped", size(trace.dropped)}})}});
}

}  // namespace

Json snapshot() {
  Json s = Json::object();
  s.set("version", version());
  s.set("process_id", files::process_id());
  s.set("time_s", static_cast<double>(files::wall_clock_ns()) * 1e-9);
  const std::vector<runtime::DeviceState*> opened = runtime::opened_devices();
  Json devices = Json::list(), pools = Json::list(), transfers = Json::list(), dispatch = Json::list();
  for (runtime::DeviceState* state : opened) {
    const Device device = state->context.device();
    devices.push_back(device_json(*state));
    pools.push_back(pool_json(device, *state->resource));
    if (runtime::TransferEngine* engine = runtime::find_transfer_engine(state->context))
      transfers.push_back(transfers_json(device, *engine));
    dispatch.push_back(dispatch_json(device, DispatchController::of(device)));
  }
  Json accounts = Json::list(), streams = Json::list(), counters = Json::object();
  for (const auto& account : memory::accounts()) accounts.push_back(account_json(account->stats()));
  for (const runtime::ListedStream& listed : runtime::listed_streams()) streams.push_back(stream_json(listed));
  for (const auto& [name, value] : metrics()) counters.set(name, value);
  s.set("devices", std::move(devices));
  s.set("pools", std::move(pools));
  s.set("accounts", std::move(accounts));
  s.set("streams", std::move(streams));
  s.set("transfers", std::move(transfers));
  s.set("dispatch", std::move(dispatch));
  detail::add_scheduling(s);
  s.set("counters", std::move(counters));
  s.set("events", events_member());
  s.set("environment", environment_json(opened));
  return s;
}

}  // namespace gpukit::scheduler
