// EvictionGroup, pins and priorities: what may leave the device, when, and together with what.
#include <nanobind/stl/string.h>

#include <memory>

#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/hold.h"
#include "gpukit/memory/pool.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

using python::in_scope;
using python::to_array;

namespace {

struct GroupObject {
  GroupObject(std::string given, Device where)
      : name(std::move(given)),
        device(where),
        group(std::make_unique<memory::EvictionGroup>(*runtime::open_device(where).resource)) {}
  ~GroupObject() {
    // It waits for a launch that is being submitted.
    python::GilReleased released;
    group.reset();
  }
  std::string name;
  Device device;
  std::unique_ptr<memory::EvictionGroup> group;
};

std::string repr(const GroupObject& g) {
  return "EvictionGroup('" + g.name + "', blocks=" + std::to_string(g.group->size()) +
         ", resident=" + (g.group->resident() ? "True" : "False") + ")";
}

python::AnyDict stats(const GroupObject& g) {
  nb::dict result;
  result["blocks"] = g.group->size();
  result["bytes"] = g.group->bytes();
  result["resident"] = g.group->resident();
  return nb::borrow<python::AnyDict>(result);
}

/// Keeps one array where it is until it is released or forgotten.
struct PinObject {
  std::unique_ptr<memory::Pin> pin;
};

}  // namespace

void bind_eviction(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "memory");
  nb::class_<GroupObject>(m, "EvictionGroup",
                          "Arrays of pools that evict which leave the device and come back together: a model with its "
                          "graphs. What a graph uses keeps its address.")
      .def(
          "__init__",
          [](GroupObject* self, std::string name, python::DeviceArg device) {
            const Device where = python::to_device(device);
            in_scope([&] { return new (self) GroupObject(std::move(name), where); });
          },
          "name"_a = "", "device"_a = nb::none())
      .def_ro("name", &GroupObject::name)
      .def_ro("device", &GroupObject::device)
      .def(
          "add",
          [](GroupObject& g, python::ArrayArg array) {
            const auto& storage = to_array("EvictionGroup.add", "array", array).storage();
            in_scope([&] { return g.group->add(storage), 0; });
          },
          "array"_a, "RuntimeError when its pool does not evict, it is evicted, or it belongs to another group.")
      .def(
          "evict", [](GroupObject& g) { return in_scope([&] { return g.group->evict(); }); },
          "Moves all to host memory, or raises and moves none. Waits for running work. The device bytes that became "
          "free.")
      .def(
          "restore", [](GroupObject& g) { in_scope([&] { return g.group->restore(), 0; }); },
          "Brings all back, or raises MemoryError and brings none. A launch or replay does it by itself.")
      .def_prop_ro("resident", [](const GroupObject& g) { return g.group->resident(); })
      .def(
          "set_priority", [](GroupObject& g, int priority) { g.group->set_priority(priority); }, "priority"_a,
          "Higher ones leave later; 0 at the start.")
      .def("stats", &stats, "blocks, bytes, resident.")
      .def("__len__", [](const GroupObject& g) { return g.group->size(); })
      .def("__repr__", [](const GroupObject& g) { return repr(g); });

  nb::class_<PinObject>(m, "Pin", "Keeps an array on its device, where it is, until released.")
      .def(
          "release", [](PinObject& p) { p.pin.reset(); }, "The array may be evicted again. Once is enough.")
      .def(
          "__enter__", [](nb::handle self) { return nb::borrow(self); }, nb::sig("def __enter__(self) -> Pin"))
      .def(
          "__exit__", [](PinObject& p, nb::args) { p.pin.reset(); },
          nb::sig("def __exit__(self, *args: object) -> None"));

  m.def(
      "pin",
      [](python::ArrayArg array) {
        const auto& storage = to_array("pin", "array", array).storage();
        return in_scope([&] { return PinObject{std::make_unique<memory::Pin>(storage)}; });
      },
      "array"_a, "Restores the array where needed and keeps it on its device until the pin is released.");
  m.def(
      "set_eviction_priority",
      [](python::ArrayArg array, int priority) {
        to_array("set_eviction_priority", "array", array).storage()->set_priority(priority);
      },
      "array"_a, "priority"_a, "Higher ones leave later; 0 at the start. Views share it with their array.");

  nb::module_ runtime = python::runtime_module(core);
  for (const char* name : {"EvictionGroup", "Pin", "pin", "set_eviction_priority"}) runtime.attr(name) = m.attr(name);
}

}  // namespace gpukit
