// What was decided outside this process about the GPUs it may use: visible devices, MIG, MPS.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpukit/driver/api.h"

namespace gpukit::driver {

struct Visibility {
  /// CUDA_VISIBLE_DEVICES as it is set. An empty text hides every device; nullopt shows all.
  std::optional<std::string> visible_devices;
  /// The device is a MIG instance: a slice of a GPU with its own SMs and memory.
  bool mig = false;
  std::string mig_profile;  // "1g.10gb" where the driver says it

  // MPS, as it is set for this process; nullopt: not set.
  std::optional<std::string> mps_pipe_directory;            // CUDA_MPS_PIPE_DIRECTORY
  std::optional<std::string> mps_active_thread_percentage;  // CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  std::optional<std::string> mps_pinned_device_mem_limit;   // CUDA_MPS_PINNED_DEVICE_MEM_LIMIT

  /// One `name: value` for each thing that is set, the device's kind included. Empty when nothing is.
  std::vector<std::string> lines() const;
};

/// The value of an environment variable, nullopt when it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

/// For the device `ordinal` as it was opened. Without `lookup` the process's own environment is read.
Visibility read_visibility(const DeviceProperties& properties, int ordinal, const EnvironmentLookup& lookup = {});

}  // namespace gpukit::driver
