#include "gpukit/scheduler/partition/partition_rest.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gpukit/runtime/device.h"

namespace gpukit::scheduler {

namespace {

/// Whatever the shares add up to, those without one are not starved.
constexpr double kLeastShare = 0.01;

template <typename T>
struct PerDevice {
  std::mutex mutex;
  std::map<runtime::DeviceState*, T> values;
};

double measure_copies(runtime::DeviceState& state) {
  constexpr size_t kBytes = size_t{32} << 20;
  const driver::Api& api = state.context.api();
  state.context.make_current();
  driver::Stream stream(state.context, 0);
  struct Buffers {
    const driver::Api& api;
    void* host = nullptr;
    driver::Address device = 0;
    ~Buffers() {
      if (device != 0) api.release(device);
      if (host != nullptr) api.release_pinned(host);
    }
  } buffers{api};
  buffers.host = api.allocate_pinned(kBytes);
  buffers.device = api.allocate(kBytes);
  driver::Event start(state.context, true), stop(state.context, true);
  float best_ms = INFINITY;
  for (int i = 0; i < 3; ++i) {
    start.record(stream);
    api.copy_async(nullptr, buffers.device, buffers.host, 0, kBytes, driver::CopyKind::host_to_device, stream.handle());
    stop.record(stream);
    stream.synchronize();
    best_ms = std::min(best_ms, std::max(driver::elapsed_ms(start, stop), 1e-6f));
  }
  return static_cast<double>(kBytes) * 1e3 / best_ms;
}

}  // namespace

double copy_bandwidth(Device device) {
  static auto* table = new PerDevice<double>;
  runtime::DeviceState& state = runtime::open_device(device);
  {
    std::lock_guard lock(table->mutex);
    if (auto found = table->values.find(&state); found != table->values.end()) return found->second;
  }
  const double measured = measure_copies(state);
  std::lock_guard lock(table->mutex);
  return table->values.emplace(&state, measured).first->second;
}

PartitionRest& PartitionRest::of(Device device) {
  static auto* table = new PerDevice<std::unique_ptr<PartitionRest>>;
  runtime::DeviceState& state = runtime::open_device(device);
  PartitionRest* rest = nullptr;
  {
    std::lock_guard lock(table->mutex);
    auto& slot = table->values[&state];
    if (slot != nullptr) return *slot;
    slot.reset(new PartitionRest(device));
    rest = slot.get();
  }
  rest->add_group(state.streams);
  return *rest;
}

void PartitionRest::add_group(const std::shared_ptr<runtime::StreamGroup>& group) {
  group->set_hook([this](const std::shared_ptr<driver::Stream>& stream) { admit_stream(stream); });
  std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& known) { return known.expired(); });
  if (tenant_ != kNoTenant) join_locked(*group, tenant_);
  groups_.push_back(group);
}

void PartitionRest::remove_group(const std::shared_ptr<runtime::StreamGroup>& group) {
  DispatchController& controller = DispatchController::of(device_);
  std::lock_guard lock(mutex_);
  std::erase_if(groups_, [&](const auto& known) { return !known.owner_before(group) && !group.owner_before(known); });
  for (const auto& stream : group->streams()) controller.leave(stream);
}

void PartitionRest::set_guest(TenantId tenant, bool here) {
  std::lock_guard lock(mutex_);
  DispatchController::of(device_).set_turns(tenant, here ? tenant_ : kNoTenant);
  std::erase(guests_, tenant);
  if (here) guests_.push_back(tenant);
}

void PartitionRest::admit_stream(const std::shared_ptr<driver::Stream>& stream) {
  std::lock_guard lock(mutex_);
  if (tenant_ != kNoTenant) DispatchController::of(device_).join(stream, tenant_);
}

void PartitionRest::add_share(double share) {
  std::lock_guard lock(mutex_);
  change_locked(shares_ + 1, total_ + share);
}

void PartitionRest::remove_share(double share) {
  std::lock_guard lock(mutex_);
  change_locked(shares_ - 1, shares_ == 1 ? 0 : total_ - share);
}

/// A stream that another control has stays with it.
void PartitionRest::join_locked(runtime::StreamGroup& group, TenantId tenant) {
  for (const auto& stream : group.streams()) DispatchController::of(device_).join(stream, tenant);
}

/// Nothing has changed when this throws.
void PartitionRest::change_locked(int shares, double total) {
  DispatchController& controller = DispatchController::of(device_);
  const double weight = std::max(1.0 - total, kLeastShare);
  if (shares == 0) {
    if (tenant_ != kNoTenant) controller.remove_tenant(std::exchange(tenant_, kNoTenant));
  } else if (tenant_ != kNoTenant) {
    controller.set_weight(tenant_, weight);
  } else {
    const TenantId tenant = controller.add_tenant({.name = "default", .weight = weight});
    try {
      for (const auto& group : groups_)
        if (auto alive = group.lock()) join_locked(*alive, tenant);
      for (TenantId guest : guests_) controller.set_turns(guest, tenant);
    } catch (...) {
      controller.remove_tenant(tenant);
      throw;
    }
    tenant_ = tenant;
  }
  shares_ = shares;
  total_ = total;
}

}  // namespace gpukit::scheduler
