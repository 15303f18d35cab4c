// A device's name: kind and index. What it can do is in runtime/device.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpukit {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int16_t index = 0;
  friend bool operator==(Device a, Device b) { return a.kind == b.kind && a.index == b.index; }
};

/// `cpu`, `cpu:1`, `cuda:0`.
std::string str(Device device);
/// Accepts `cpu`, `cuda`, `cpu:N`, `cuda:N`, `gpu`, `gpu:N`. Throws ArgumentError.
Device device_from_name(std::string_view name);

}  // namespace gpukit
