#include "gpukit/scheduler/inspect/trace_watch.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "gpukit/base/error.h"

namespace gpukit::scheduler {

namespace {

std::atomic<ProcessObserver*> g_observers[4] = {};

template <typename F>
void tell(F&& function) noexcept {
  for (const auto& slot : g_observers)
    if (ProcessObserver* observer = slot.load(std::memory_order_acquire)) function(*observer);
}

class DeviceObserver final : public LaunchObserver {
 public:
  explicit DeviceObserver(Device device) : device_(device) {}
  void on_queued(const LaunchRecord& record) noexcept override {
    tell([&](ProcessObserver& observer) { observer.on_queued(device_, record); });
  }
  void on_launched(const LaunchRecord& record) noexcept override {
    tell([&](ProcessObserver& observer) { observer.on_launched(device_, record); });
  }
  void on_completed(const LaunchRecord& record) noexcept override {
    tell([&](ProcessObserver& observer) { observer.on_completed(device_, record); });
  }

 private:
  const Device device_;
};

struct Installed {
  DispatchController* controller;
  std::shared_ptr<LaunchObserver> observer;
};

struct Watch {
  std::mutex mutex;
  int observers = 0;
  std::vector<Installed> devices;
};

Watch& watch() {
  static auto* value = new Watch;
  return *value;
}

/// The lock is held.
void watch_stream_locked(Watch& all, const runtime::ListedStream& listed) {
  const Device device = listed.stream->device();
  DispatchController& controller = DispatchController::of(device);
  bool known = false;
  for (const Installed& entry : all.devices) known = known || entry.controller == &controller;
  if (!known) {
    all.devices.push_back({&controller, std::make_shared<DeviceObserver>(device)});
    controller.add_observer(all.devices.back().observer);
  }
  controller.watch(listed.stream);
}

void watch_stream(const runtime::ListedStream& listed) {
  Watch& all = watch();
  {
    std::lock_guard lock(all.mutex);
    if (all.observers == 0) return;
    watch_stream_locked(all, listed);
  }
  tell([&](ProcessObserver& observer) { observer.on_stream(listed); });
}

}  // namespace

void add_process_observer(ProcessObserver& observer) {
  Watch& all = watch();
  std::vector<runtime::ListedStream> streams;
  {
    std::lock_guard lock(all.mutex);
    std::atomic<ProcessObserver*>* free = nullptr;
    for (auto& slot : g_observers) {
      ProcessObserver* held = slot.load(std::memory_order_relaxed);
      if (held == &observer) return;
      if (held == nullptr && free == nullptr) free = &slot;
    }
    if (free == nullptr) throw Error("add_process_observer: four watch already");
    free->store(&observer, std::memory_order_release);
    ++all.observers;
    runtime::set_stream_watcher(&watch_stream);
    streams = runtime::listed_streams();
    for (const auto& listed : streams) watch_stream_locked(all, listed);
  }
  for (const auto& listed : streams) observer.on_stream(listed);
}

void remove_process_observer(ProcessObserver& observer) {
  Watch& all = watch();
  std::vector<runtime::ListedStream> streams;  // go after the lock
  std::lock_guard lock(all.mutex);
  bool found = false;
  for (auto& slot : g_observers) {
    ProcessObserver* held = &observer;
    found = found || slot.compare_exchange_strong(held, nullptr);
  }
  if (!found || --all.observers > 0) return;
  runtime::set_stream_watcher(nullptr);
  streams = runtime::listed_streams();
  for (const auto& listed : streams) DispatchController::of(listed.stream->device()).unwatch(listed.stream);
  for (const Installed& entry : std::exchange(all.devices, {})) entry.controller->remove_observer(entry.observer);
}

}  // namespace gpukit::scheduler
