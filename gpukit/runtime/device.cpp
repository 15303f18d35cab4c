#include "gpukit/runtime/device.h"

#include <atomic>
#include <memory>
#include <mutex>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/files.h"
#include "gpukit/base/fork.h"
#include "gpukit/base/log.h"
#include "gpukit/driver/cuda.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/memory/fence.h"
#include "gpukit/runtime/fault.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/stream_list.h"
#include "gpukit/runtime/transfer_engine.h"
#include "gpukit/runtime/waiter.h"
#include "gpukit/runtime/workspace.h"

namespace gpukit::runtime {

namespace {

constexpr int kMaxDevices = 16;
constexpr int kMinimumSm = 80;
constexpr int kUnknown = -1;

/// What the first look at the CUDA driver found. `reason` is empty when there is a device to use.
struct CudaProbe {
  int num_devices = 0;
  std::string reason;
};

/// Read by every submission: no constructor to check for.
constinit std::atomic<DeviceState*> g_opened[2][kMaxDevices] = {};

struct Registry {
  std::mutex mutex;
  std::atomic<const driver::CudaTable*> host{nullptr};
  std::vector<DeviceState*> dropped;  // by replace_host_driver: arrays may still refer to them
  std::unique_ptr<CudaProbe> probe;
  uint64_t cuda_generation = 0;  // of the process that initialised the driver
};

Registry& registry() {
  static auto* value = new Registry;
  return *value;
}

// A thread that opens a device holds it, so a fork waits until the device is there.
std::mutex& registry_mutex() { return registry().mutex; }
[[maybe_unused]] const bool g_held_at_fork = hold_at_fork<registry_mutex>(ForkOrder::devices);

driver::Api host_api() {
  const driver::CudaTable* table = registry().host.load(std::memory_order_acquire);
  driver::Api api(table != nullptr ? *table : driver::host_table(), DeviceKind::cpu);
  api.init();
  return api;
}

driver::Api cuda_api() { return driver::Api(*driver::cuda_table(), DeviceKind::cuda); }

CudaProbe look_for_cuda() {
  if (driver::cuda_table() == nullptr) return {0, driver::cuda_load_report()};
  driver::Api api = cuda_api();
  int count = 0;
  try {
    api.init();
    count = api.device_count();
  } catch (const CudaError& error) {
    if (error.code != driver::kErrorNoDevice)
      return {0, std::string("No GPU devices found (cudaGetDeviceCount == 0): ") + error.what()};
  }
  if (count == 0) {
    std::string visible = env::get("CUDA_VISIBLE_DEVICES").value_or("not set");
    return {0, "No GPU devices found (cudaGetDeviceCount == 0): CUDA_VISIBLE_DEVICES is " + visible};
  }
  return {std::min(count, kMaxDevices), ""};
}

const CudaProbe& cuda_probe() {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  if (r.probe == nullptr) {
    r.cuda_generation = files::fork_generation();
    r.probe = std::make_unique<CudaProbe>(look_for_cuda());
  }
  return *r.probe;
}

bool forked_since_cuda() {
  Registry& r = registry();
  return r.probe != nullptr && r.probe->num_devices > 0 && r.cuda_generation != files::fork_generation();
}

constexpr const char* kForkText =
    "CUDA was initialised before this process was forked and cannot be used in the child; start processes with the "
    "spawn method, or use the device 'cpu' here";

void check_chip(const driver::DeviceProperties& p) {
  int sm = p.sm_major * 10 + p.sm_minor;
  if (sm >= kMinimumSm) return;
  throw DeviceError("PyGPUkit requires SM >= 80 (Ampere): " + p.name + " has SM " + std::to_string(sm));
}

DeviceState& open_slow(Device device) {
  env::check();
  if (device.index < 0 || device.index >= kMaxDevices)
    throw DeviceError("device index must be 0 to " + std::to_string(kMaxDevices - 1) + ", got " + str(device));
  const bool cuda = device.kind == DeviceKind::cuda;
  if (cuda) {
    const CudaProbe& probe = cuda_probe();
    if (!probe.reason.empty()) throw DeviceError(probe.reason);
    if (device.index >= probe.num_devices)
      throw DeviceError(str(device) + " does not exist: " + std::to_string(probe.num_devices) +
                        " CUDA device(s) found");
  } else if (int count = host_api().device_count(); device.index >= count) {
    throw DeviceError(str(device) + " does not exist: " + std::to_string(count) + " CPU device(s)");
  }
  driver::Api api = cuda ? cuda_api() : host_api();
  if (cuda) check_chip(api.properties(device.index));
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  std::atomic<DeviceState*>& slot = g_opened[static_cast<int>(device.kind)][device.index];
  if (DeviceState* state = slot.load(std::memory_order_acquire)) return *state;
  auto state = std::make_unique<DeviceState>(api, device.index);
  slot.store(state.get(), std::memory_order_release);
  return *state.release();
}

}  // namespace

DeviceState::DeviceState(const driver::Api& api, int ordinal) : context(api, ordinal) {
  context.make_current();
  streams = StreamGroup::make(context);
  default_stream = streams->make_stream(0);
  memory::PoolConfig config;
  config.debug = env::memory_debug();
  config.reclaim = &reclaim_workspaces;
  resource = std::make_unique<memory::Pool>(context, config);
  fault = new (api.allocate_pinned(sizeof(FaultWord))) FaultWord;
  install_mover(context);
}

DeviceState& open_device(Device device) {
  if (static_cast<uint16_t>(device.index) < kMaxDevices) [[likely]] {
    DeviceState* state = g_opened[static_cast<int>(device.kind)][device.index].load(std::memory_order_acquire);
    if (state != nullptr && device.kind == DeviceKind::cpu) return *state;
    if (device.kind == DeviceKind::cuda && forked_since_cuda()) throw DeviceError(kForkText);
    if (state != nullptr) return *state;
  }
  return open_slow(device);
}

std::vector<DeviceState*> opened_devices() {
  std::vector<DeviceState*> list;
  for (const DeviceKind kind : {DeviceKind::cuda, DeviceKind::cpu}) {
    if (kind == DeviceKind::cuda && forked_since_cuda()) continue;
    for (auto& slot : g_opened[static_cast<int>(kind)])
      if (DeviceState* state = slot.load(std::memory_order_acquire)) list.push_back(state);
  }
  return list;
}

std::vector<Device> devices() {
  std::vector<Device> list;
  for (int i = 0; i < cuda_probe().num_devices; ++i) list.push_back({DeviceKind::cuda, static_cast<int16_t>(i)});
  for (int i = 0; i < host_api().device_count(); ++i) list.push_back({DeviceKind::cpu, static_cast<int16_t>(i)});
  return list;
}

bool cuda_available() { return cuda_unavailable_reason().empty(); }

std::string cuda_unavailable_reason() {
  const CudaProbe& probe = cuda_probe();
  if (!probe.reason.empty()) return probe.reason;
  if (forked_since_cuda()) return kForkText;
  try {
    check_chip(cuda_api().properties(0));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Device configured_device() {
  if (auto chosen = env::device()) return chosen->device;
  // No guarded static: a fork while another thread looks would leave the child waiting for it.
  static constinit std::atomic<int> found{kUnknown};
  int cuda = found.load(std::memory_order_relaxed);
  if (cuda != 0 && forked_since_cuda()) throw DeviceError(kForkText);
  if (cuda == kUnknown) found.store(cuda = cuda_available() ? 1 : 0, std::memory_order_relaxed);
  return {cuda != 0 ? DeviceKind::cuda : DeviceKind::cpu, 0};
}

Device default_device() {
  if (const auto& session = current_session(); session.device) return *session.device;
  Device device = configured_device();
  if (device.kind == DeviceKind::cpu && !env::device()) {
    static constinit std::atomic<bool> told{false};
    if (log_enabled(LogLevel::warning) && !told.exchange(true, std::memory_order_relaxed))
      log(LogLevel::warning, "Falling back to CPU simulation backend: " + cuda_unavailable_reason());
  }
  return device;
}

const driver::DeviceProperties& properties(Device device) { return open_device(device).context.properties(); }

void memory_info(Device device, size_t* free_bytes, size_t* total_bytes) {
  DeviceState& state = open_device(device);
  state.health.check();
  state.context.make_current();
  state.context.api().memory_info(free_bytes, total_bytes);
}

namespace {

template <typename Wait>
void wait_and_raise(DeviceState& state, const char* caller, Wait&& wait) {
  refuse_in_capture(caller, "waits for the device");
  state.health.check();
  state.context.make_current();
  if (int code = code_of(wait); code != 0) {
    std::string name = state.context.api().error_name(code);
    std::string recent = state.health.note_error(code, std::string(caller) + " found " + name);
    throw CudaError(caller, code, name, "last launches, newest first: " + recent);
  }
  memory::run_pending_releases(false);
  state.resource->raise_faults();
  raise_fault(state.context.device());
}

/// `wait`: what to do where no signal can end it. The CPU needs its cores for the work itself, so there no one spins.
void wait_for_stream(const driver::Stream& stream, const std::function<bool()>& over,
                     const std::function<void()>& wait) {
  wait_for_device(over, wait, stream.device().kind == DeviceKind::cpu);
}

}  // namespace

namespace {

/// Streams that have work, each with the number of its last submission.
class BusyStreams {
 public:
  template <typename Predicate>
  BusyStreams(Device device, Predicate&& wanted) {
    for (auto& [stream, label] : listed_streams()) {
      const uint64_t submitted = stream->sequence.load(std::memory_order_relaxed);
      if (stream->device() == device && submitted != stream->idle_sequence.load(std::memory_order_relaxed) &&
          wanted(*stream))
        list_.emplace_back(std::move(stream), submitted);
    }
  }
  /// Signals end the wait; where none can, `wait(stream)` is called.
  template <typename Wait>
  void wait_for_all(Wait&& wait) const {
    for (const auto& entry : list_) {
      const driver::Stream& stream = *entry.first;
      // To ask about a stream that captures would end the capture.
      wait_for_stream(
          stream, [&] { return memory::is_capturing(stream) || stream.query(); }, [&] { wait(stream); });
    }
  }
  void note_idle() const {
    for (const auto& [stream, submitted] : list_) stream->idle_sequence.store(submitted, std::memory_order_relaxed);
  }

 private:
  std::vector<std::pair<std::shared_ptr<driver::Stream>, uint64_t>> list_;
};

}  // namespace

void synchronize(Device device) {
  DeviceState& state = open_device(device);
  const BusyStreams busy(device, [](const driver::Stream&) { return true; });
  wait_and_raise(state, "synchronize", [&] {
    busy.wait_for_all([](const driver::Stream&) {});
    state.context.api().synchronize_context();
  });
  busy.note_idle();
}

void synchronize_streams(Device device, const char* caller, const std::function<bool(const driver::Stream&)>& wanted) {
  const BusyStreams busy(device, wanted);
  wait_and_raise(open_device(device), caller, [&] {
    busy.wait_for_all([](const driver::Stream& stream) {
      if (!memory::is_capturing(stream)) stream.synchronize();
    });
  });
  busy.note_idle();
}

void synchronize(driver::Stream& stream, const char* caller) {
  const uint64_t submitted = stream.sequence.load(std::memory_order_relaxed);
  wait_and_raise(open_device(stream.device()), caller, [&] {
    wait_for_stream(
        stream, [&] { return stream.query(); }, [&] { stream.synchronize(); });
  });
  stream.idle_sequence.store(submitted, std::memory_order_relaxed);
}

void synchronize_fully(driver::Stream& stream, const char* caller) {
  const uint64_t submitted = stream.sequence.load(std::memory_order_relaxed);
  wait_and_raise(open_device(stream.device()), caller, [&] { stream.synchronize(); });
  stream.idle_sequence.store(submitted, std::memory_order_relaxed);
}

void replace_host_driver(const driver::CudaTable& table) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  for (auto& slot : g_opened[static_cast<int>(DeviceKind::cpu)]) {
    if (DeviceState* state = slot.exchange(nullptr, std::memory_order_acq_rel)) {
      r.dropped.push_back(state);
      reclaim_workspaces(state->context, nullptr);
    }
  }
  r.host.store(&table, std::memory_order_release);
}

}  // namespace gpukit::runtime
