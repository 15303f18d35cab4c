// Devices of the process: opening, properties, default device, memory, waiting.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpukit/driver/objects.h"
#include "gpukit/memory/pool.h"
#include "gpukit/runtime/health.h"

namespace gpukit::runtime {

struct FaultWord;   // fault.h
class StreamGroup;  // stream_group.h

/// Everything that belongs to one opened device. Created on first use, never destroyed.
struct DeviceState {
  explicit DeviceState(const driver::Api& api, int ordinal);
  driver::Context context;
  std::shared_ptr<StreamGroup> streams;  // of the default session
  std::shared_ptr<driver::Stream> default_stream;
  std::unique_ptr<memory::Pool> resource;
  Health health;
  FaultWord* fault = nullptr;  // page-locked, written by kernels that meet a bad index
};

/// Throws DeviceError with the reason (no driver, no such device, SM < 80, forked child).
DeviceState& open_device(Device device);
/// Those that open_device has opened, without opening another one.
std::vector<DeviceState*> opened_devices();
/// Every device of the process, cuda first; the list is never empty.
std::vector<Device> devices();
bool cuda_available();
/// Why there is no CUDA device, with the paths that were tried; empty when there is one.
/// Starts with one of the promised messages, e.g. `CUDA driver not detected`.
std::string cuda_unavailable_reason();
/// The device new arrays go to: the session's, PYGPUKIT_DEVICE, else cuda:0, else cpu:0 with one warning. In the forked
/// child of a process that used CUDA, where it would be a GPU: throws DeviceError. The CPU can be had by name.
Device default_device();
/// Same choice without the warning and without a session.
Device configured_device();

const driver::DeviceProperties& properties(Device device);
/// Free and total bytes as the driver sees them.
void memory_info(Device device, size_t* free_bytes, size_t* total_bytes);
/// Waits for all work of the device, then raises what it found (health, faults). Signals end the wait for our own
/// streams; work that other libraries submitted is waited for in the driver.
void synchronize(Device device);
/// Waits for one stream, lets signals through, then raises what was found. Throws inside a capture, naming `caller`.
void synchronize(driver::Stream& stream, const char* caller);
/// Waits for the streams of ours on `device` that `wanted` names. Throws as synchronize.
void synchronize_streams(Device device, const char* caller, const std::function<bool(const driver::Stream&)>& wanted);
/// The same, but no signal ends it: for work that uses memory of the caller.
void synchronize_fully(driver::Stream& stream, const char* caller);

/// Replaces the driver behind the CPU device, for tests: drops every opened CPU device. Not thread-safe.
void replace_host_driver(const driver::CudaTable& table);

}  // namespace gpukit::runtime
