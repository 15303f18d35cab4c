// Devices: names, properties, the default, waiting, and `with gp.device(...)`.
#include "gpukit/runtime/device.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/error.h"
#include "gpukit/memory/resource.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/health.h"

namespace gpukit::python {

namespace {

AnyDict stats_of(Device device) {
  memory::ResourceStats stats = runtime::open_device(device).resource->stats();
  nb::dict d;
  d["live_bytes"] = stats.live_bytes;
  d["cached_bytes"] = stats.cached_bytes;
  d["peak_live_bytes"] = stats.peak_live_bytes;
  d["allocations"] = stats.allocations;
  d["reuses"] = stats.reuses;
  d["driver_allocations"] = stats.driver_allocations;
  d["driver_frees"] = stats.driver_frees;
  d["live_blocks"] = stats.live_blocks;
  d["cached_blocks"] = stats.cached_blocks;
  d["virtual_memory"] = stats.virtual_memory;
  d["reserved_bytes"] = stats.reserved_bytes;
  d["peak_reserved_bytes"] = stats.peak_reserved_bytes;
  d["retained_bytes"] = stats.retained_bytes;
  d["retained_limit"] = stats.retained_limit;
  d["slab_bytes"] = stats.slab_bytes;
  d["slabs"] = stats.slabs;
  d["mappings"] = stats.mappings;
  d["trims"] = stats.trims;
  d["waits"] = stats.waits;
  d["wait_ns"] = stats.wait_ns;
  d["evictions"] = stats.evictions;
  d["restores"] = stats.restores;
  d["evicted_bytes"] = stats.evicted_bytes;
  d["host_bytes"] = stats.host_bytes;
  d["host_limit"] = stats.host_limit;
  return d;
}

nb::list accounts_of(Device device) {
  runtime::open_device(device);
  nb::list list;
  for (const auto& account : memory::accounts(device)) {
    const memory::AccountStats stats = account->stats();
    nb::dict d;
    d["name"] = stats.name;
    d["parent"] = stats.parent;
    d["quota"] = stats.quota;
    d["eviction"] = stats.eviction;
    d["charged_bytes"] = stats.charged_bytes;
    d["peak_charged_bytes"] = stats.peak_charged_bytes;
    d["live_bytes"] = stats.live_bytes;
    d["peak_live_bytes"] = stats.peak_live_bytes;
    d["cached_bytes"] = stats.cached_bytes;
    d["evicted_bytes"] = stats.evicted_bytes;
    d["live_blocks"] = stats.live_blocks;
    d["cached_blocks"] = stats.cached_blocks;
    d["evicted_blocks"] = stats.evicted_blocks;
    d["allocations"] = stats.allocations;
    d["reuses"] = stats.reuses;
    d["evictions"] = stats.evictions;
    d["restores"] = stats.restores;
    d["refusals"] = stats.refusals;
    list.append(d);
  }
  return list;
}

AnyDict health_of(Device device) {
  runtime::DeviceState& state = runtime::open_device(device);
  nb::dict d;
  d["ok"] = !state.health.dead();
  d["recent_launches"] = state.health.recent_launches();
  return d;
}

IntTuple memory_info_of(Device device) {
  size_t free_bytes = 0, total_bytes = 0;
  in_scope([&] {
    runtime::memory_info(device, &free_bytes, &total_bytes);
    return 0;
  });
  return nb::make_tuple(free_bytes, total_bytes);
}

bool equals(Device self, nb::handle other) {
  if (nb::isinstance<Device>(other)) return self == nb::cast<Device>(other);
  if (!PyUnicode_Check(other.ptr())) return false;
  try {
    return self == device_from_name(to_text("Device", "other", other));
  } catch (const ArgumentError&) {
    return false;
  }
}

void bind_properties(nb::module_& m) {
  using driver::DeviceProperties;
  nb::class_<DeviceProperties>(m, "DeviceProperties", "What the driver says about a device.")
      .def_ro("name", &DeviceProperties::name)
      .def_ro("uuid", &DeviceProperties::uuid)
      .def_ro("pci_bus", &DeviceProperties::pci_bus)
      .def_ro("total_memory", &DeviceProperties::total_memory, "Bytes.")
      .def_ro("compute_capability_major", &DeviceProperties::sm_major, "0 on the CPU.")
      .def_ro("compute_capability_minor", &DeviceProperties::sm_minor)
      .def_ro("multiprocessor_count", &DeviceProperties::sm_count)
      .def_ro("max_threads_per_block", &DeviceProperties::max_threads_per_block)
      .def_ro("max_threads_per_multiprocessor", &DeviceProperties::max_threads_per_sm)
      .def_ro("warp_size", &DeviceProperties::warp_size)
      .def_ro("shared_memory_per_block", &DeviceProperties::shared_per_block)
      .def_ro("shared_memory_per_block_optin", &DeviceProperties::shared_per_block_optin)
      .def_ro("shared_memory_per_multiprocessor", &DeviceProperties::shared_per_sm)
      .def_ro("registers_per_block", &DeviceProperties::registers_per_block)
      .def_ro("l2_cache_size", &DeviceProperties::l2_bytes)
      .def_ro("clock_khz", &DeviceProperties::clock_khz)
      .def_ro("memory_clock_khz", &DeviceProperties::memory_clock_khz)
      .def_ro("memory_bus_bits", &DeviceProperties::memory_bus_bits)
      .def_ro("copy_engines", &DeviceProperties::copy_engines)
      .def_ro("virtual_memory", &DeviceProperties::vmm)
      .def("__repr__", [](const DeviceProperties& p) {
        return "DeviceProperties(name='" + p.name + "', total_memory=" + std::to_string(p.total_memory) + ")";
      });
}

}  // namespace

void bind_devices(nb::module_& m) {
  bind_properties(m);

  nb::class_<Device>(m, "Device",
                     "A device by name: 'cpu', 'cuda', 'cuda:1'. As a context manager it is where new arrays go.")
      .def(
          "__init__", [](Device* self, DeviceArg name) { new (self) Device(to_device(name)); }, "name"_a = nb::none(),
          "None is the default device.")
      .def_prop_ro(
          "kind", [](Device d) { return d.kind == DeviceKind::cpu ? "cpu" : "cuda"; }, "'cpu' or 'cuda'.")
      .def_prop_ro("index", [](Device d) { return static_cast<int>(d.index); })
      .def_prop_ro(
          "properties", [](Device d) { return in_scope([&] { return runtime::properties(d); }); },
          "Opens the device. DeviceError when it is missing or refused.")
      .def("memory_info", &memory_info_of, "(free, total) bytes as the driver sees them.")
      .def("memory_stats", &stats_of, "Counters of the memory pool.")
      .def("memory_accounts", &accounts_of, nb::sig("def memory_accounts(self) -> list[dict[str, typing.Any]]"),
           "The quota walls of the device and what is charged to each, in the order of their making.")
      .def(
          "trim", [](Device d) { return in_scope([&] { return runtime::open_device(d).resource->trim(); }); },
          "Returns cached memory to the driver; gives the number of bytes. May wait.")
      .def(
          "synchronize", [](Device d) { in_scope([&] { return runtime::synchronize(d), 0; }); },
          "Waits for all work of the device and raises what it finds.")
      .def("health", &health_of, "{'ok': bool, 'recent_launches': str}.")
      .def("__str__", [](Device d) { return str(d); })
      .def("__repr__", [](Device d) { return "Device('" + str(d) + "')"; })
      .def("__eq__", &equals, "other"_a)
      .def("__hash__", [](Device d) { return nb::hash(nb::str(str(d).c_str())); })
      .def("__reduce__",
           [](Device d) -> nb::typed<nb::tuple, nb::any, nb::ellipsis> {
             return nb::make_tuple(nb::type<Device>(), nb::make_tuple(str(d)));
           })
      .def(
          "__enter__",
          [](nb::handle self) {
            push_session(self, outer_session().with_device(nb::cast<Device>(self)));
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Device"))
      .def(
          "__exit__", [](nb::handle self, nb::args) { pop_session(self); },
          nb::sig("def __exit__(self, *args: object) -> None"));

  m.def(
      "devices", [] { return in_scope([] { return runtime::devices(); }); },
      "Every device of the process, CUDA first. Never empty.");
  m.def(
      "default_device", [] { return to_device(nb::none()); }, "The device new arrays go to.");
  m.def(
      "_configured_device", [] { return in_scope([] { return runtime::configured_device(); }); },
      "The default device outside any session, without the warning of a fallback; internal.");
  m.def(
      "is_cuda_available", [] { return in_scope([] { return runtime::cuda_available(); }); },
      "A CUDA device can be used, whatever the default device is.");
  m.def(
      "cuda_unavailable_reason", [] { return in_scope([] { return runtime::cuda_unavailable_reason(); }); },
      "Why there is no CUDA device, with the paths that were tried; empty when there is one.");
  m.def(
      "synchronize",
      [](DeviceArg device) {
        Device d = to_device(device);
        in_scope([&] { return runtime::synchronize(d), 0; });
      },
      "device"_a = nb::none(), "Waits for all work of a device and raises what it finds.");
  m.def(
      "health", [](DeviceArg device) { return health_of(to_device(device)); }, "device"_a = nb::none(),
      "{'ok': bool, 'recent_launches': str} of a device.");
  m.def(
      "_set_backend_device",
      [](DeviceArg device) {
        set_backend_device(device.is_none() ? std::nullopt : std::optional<Device>(to_device(device)));
      },
      "device"_a = nb::none(), "Default device chosen by core.backend; internal.");
}

}  // namespace gpukit::python
