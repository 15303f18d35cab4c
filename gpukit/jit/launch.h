// launch(kernel, config, write(out), read(x), scalars...): the only way a kernel reaches a stream.
#pragma once

#include <array>
#include <span>
#include <tuple>
#include <type_traits>

#include "gpukit/jit/kernel.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::jit {

struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 256, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;  // above 48 KB the kernel's limit is raised once
  bool overlaps = false;      // may start while one like it before still runs, and waits for that itself (pdl.cuh)
};

/// An array that a kernel moves in boxes: its parameter is a map of it (sm_90 and later).
struct Boxes {
  memory::Use use;
  driver::BoxLayout layout;
};

namespace detail {
/// values[i] points at the i-th parameter; the driver reads them during the call.
/// sizes is used only while capturing, to keep the values for Graph::verify.
void launch_packed(const Kernel& kernel, Device device, const LaunchConfig& config, void** values,
                   std::span<const uint32_t> sizes, std::span<const memory::Use> uses);
/// The same on a given stream. The caller holds the uses and has ordered the stream after their transfers.
void launch_on(const std::shared_ptr<driver::Stream>& stream, const Kernel& kernel, const LaunchConfig& config,
               void** values, std::span<const uint32_t> sizes, std::span<const memory::Use> uses);

/// The driver's map of a layout at an address. It follows from these alone, so each thread keeps those it used last.
driver::BoxMap tensor_map(const driver::Api& api, const driver::BoxLayout& layout, driver::Address address);

template <typename T>
inline constexpr bool is_use = std::is_same_v<std::remove_cvref_t<T>, memory::Use>;

template <typename T>
inline constexpr bool is_boxes = std::is_same_v<std::remove_cvref_t<T>, Boxes>;

inline driver::Address address_of(const memory::Use& use) {
  return use.storage == nullptr ? driver::Address{0}
                                : (*use.storage)->address() + static_cast<driver::Address>(use.offset_bytes);
}

template <typename T>
inline auto parameter(Device device, const T& value) {
  if constexpr (is_use<T>) {
    return address_of(value);
  } else if constexpr (is_boxes<T>) {
    return tensor_map(runtime::borrow_stream(device)->api(), value.layout, address_of(value.use));
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "kernel parameters are plain values");
    return value;
  }
}
}  // namespace detail

/// Scalars must have the exact C type of the kernel's parameter. Throws CudaError, DeviceError, NvrtcError.
template <typename... Args>
void launch(const Kernel& kernel, Device device, const LaunchConfig& config, const Args&... args) {
  constexpr size_t kUses = (size_t{0} + ... + (detail::is_use<Args> || detail::is_boxes<Args> ? 1 : 0));
  std::array<memory::Use, kUses == 0 ? 1 : kUses> uses{};
  size_t n = 0;
  auto collect = [&](const auto& arg) {
    if constexpr (detail::is_use<decltype(arg)>) uses[n++] = arg;
    if constexpr (detail::is_boxes<decltype(arg)>) uses[n++] = arg.use;
  };
  (collect(args), ...);
  const std::span<const memory::Use> used(uses.data(), kUses);
  // Transfers first: whoever waits for them must hold nothing.
  if (runtime::transfers_active()) [[unlikely]]
    runtime::settle_slow(used, *runtime::borrow_stream(device));
  const memory::Hold hold(used);
  std::tuple values{detail::parameter(device, args)...};
  std::apply(
      [&](auto&... v) {
        void* pointers[sizeof...(Args) + 1] = {static_cast<void*>(&v)...};
        const uint32_t sizes[sizeof...(Args) + 1] = {static_cast<uint32_t>(sizeof(v))...};
        detail::launch_packed(kernel, device, config, pointers, {sizes, sizeof...(Args)}, used);
      },
      values);
}

}  // namespace gpukit::jit
