#include "gpukit/driver/visibility.h"

#include <cstdlib>
#include <string_view>

namespace gpukit::driver {

namespace {

constexpr std::string_view kMigName = " MIG ", kMigUuid = "MIG-";

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// The entry of a comma-separated list, without spaces around it; empty when the list is shorter.
std::string_view entry(std::string_view list, int number) {
  for (; number > 0 && !list.empty(); --number) {
    size_t comma = list.find(',');
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  list = list.substr(0, list.find(','));
  size_t first = list.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view()
                                         : list.substr(first, list.find_last_not_of(' ') + 1 - first);
}

}  // namespace

Visibility read_visibility(const DeviceProperties& properties, int ordinal, const EnvironmentLookup& lookup) {
  auto get = [&](const char* name) { return lookup ? lookup(name) : environment(name); };
  Visibility v;
  v.visible_devices = get("CUDA_VISIBLE_DEVICES");
  v.mps_pipe_directory = get("CUDA_MPS_PIPE_DIRECTORY");
  v.mps_active_thread_percentage = get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  v.mps_pinned_device_mem_limit = get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  // The driver names an instance "<GPU> MIG <profile>".
  size_t mark = properties.name.find(kMigName);
  if (mark != std::string::npos) v.mig_profile = properties.name.substr(mark + kMigName.size());
  v.mig = mark != std::string::npos || properties.uuid.starts_with(kMigUuid) ||
          entry(v.visible_devices.value_or(""), ordinal).starts_with(kMigUuid);
  return v;
}

std::vector<std::string> Visibility::lines() const {
  std::vector<std::string> result;
  auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) result.push_back(std::string(name) + ": " + (value->empty() ? "(empty)" : *value));
  };
  add("CUDA_VISIBLE_DEVICES", visible_devices);
  if (mig) result.push_back("MIG instance" + (mig_profile.empty() ? "" : ": " + mig_profile));
  add("CUDA_MPS_PIPE_DIRECTORY", mps_pipe_directory);
  add("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", mps_active_thread_percentage);
  add("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", mps_pinned_device_mem_limit);
  return result;
}

}  // namespace gpukit::driver
