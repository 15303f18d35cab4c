#include "gpukit/scheduler/partition_rest.h"

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
  groups_.push_back(group);
  update_locked();
}

void PartitionRest::admit_stream(const std::shared_ptr<driver::Stream>& stream) {
  std::lock_guard lock(mutex_);
  if (tenant_ != kNoTenant) DispatchController::of(device_).attach(stream, {.tenant = tenant_});
}

void PartitionRest::add_share(double share) {
  std::lock_guard lock(mutex_);
  ++shares_;
  total_ += share;
  update_locked();
}

void PartitionRest::remove_share(double share) {
  std::lock_guard lock(mutex_);
  --shares_;
  total_ = shares_ == 0 ? 0 : total_ - share;
  update_locked();
}

void PartitionRest::update_locked() {
  if (shares_ == 0 && tenant_ == kNoTenant) return;
  DispatchController& controller = DispatchController::of(device_);
  if (shares_ == 0) {
    controller.remove_tenant(std::exchange(tenant_, kNoTenant));
    return;
  }
  const double weight = std::max(1.0 - total_, kLeastShare);
  if (tenant_ == kNoTenant)
    tenant_ = controller.add_tenant({.name = "default", .weight = weight});
  else
    controller.set_weight(tenant_, weight);
  for (const auto& group : groups_) {
    auto alive = group.lock();
    if (alive == nullptr) continue;
    for (const auto& stream : alive->streams()) controller.attach(stream, {.tenant = tenant_});
  }
}

}  // namespace gpukit::scheduler
