#include "gpukit/base/device.h"

#include <charconv>

#include "gpukit/base/error.h"

namespace gpukit {

std::string str(Device device) {
  if (device.kind == DeviceKind::cuda) return "cuda:" + std::to_string(device.index);
  return device.index == 0 ? "cpu" : "cpu:" + std::to_string(device.index);
}

Device device_from_name(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  Device device;
  bool valid = true;
  if (kind == "cpu")
    device.kind = DeviceKind::cpu;
  else if (kind == "cuda" || kind == "gpu")
    device.kind = DeviceKind::cuda;
  else
    valid = false;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), device.index);
    valid = valid && error == std::errc() && end == digits.data() + digits.size() && device.index >= 0;
  }
  if (!valid)
    throw ArgumentError("device", "name", "be one of cpu, cpu:N, cuda, cuda:N, gpu, gpu:N",
                        "'" + std::string(name) + "'");
  return device;
}

}  // namespace gpukit
