// Partitions.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/driver/host_table.h"
#include "gpukit/driver/visibility.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/scheduler/context/context_session_py.h"
#include "gpukit/scheduler/partition/partition_manager.h"
#include "gpukit/scheduler/partition/partition_share.h"
#include "gpukit/scheduler/partition/sm_groups.h"

namespace gpukit {

using python::Bytes;
using python::in_scope;
using python::SessionScopeObject;
using scheduler::Partition;
using scheduler::PartitionConfig;
using scheduler::PartitionLimits;
using scheduler::PartitionManager;
using scheduler::PartitionStats;
using scheduler::PartitionUsage;

namespace {

template <typename T>
std::string repr(const T& value) {
  return str(value);
}

void bind_limits(nb::module_& m) {
  nb::class_<PartitionLimits>(
      m, "PartitionLimits",
      "What a partition may use: bytes of memory (0: no wall), shares of the SMs and of the copy "
      "bandwidth (1: no limit of its own), streams.")
      .def(nb::init<Bytes<"PartitionLimits: memory_quota">, double, double, int>(), "memory_quota"_a = 0,
           "compute_share"_a = 1.0, "bandwidth_share"_a = 1.0, "max_streams"_a = 16)
      .def_static(
          "with_memory",
          [](Bytes<"PartitionLimits.with_memory: quota"> quota) { return PartitionLimits::with_memory(quota); },
          "quota"_a)
      .def_static("with_compute", &PartitionLimits::with_compute, "share"_a)
      .def(
          "memory",
          [](const PartitionLimits& limits, Bytes<"PartitionLimits.memory: quota"> quota) {
            return limits.memory(quota);
          },
          "quota"_a, "The same with another memory quota.")
      .def("compute", &PartitionLimits::compute, "share"_a, "The same with another compute share.")
      .def("bandwidth", &PartitionLimits::bandwidth, "share"_a, "The same with another bandwidth share.")
      .def_ro("memory_quota", &PartitionLimits::memory_quota)
      .def_ro("compute_share", &PartitionLimits::compute_share)
      .def_ro("bandwidth_share", &PartitionLimits::bandwidth_share)
      .def_ro("max_streams", &PartitionLimits::max_streams)
      .def(
          "__eq__",
          [](const PartitionLimits& a, nb::handle b) {
            return nb::isinstance<PartitionLimits>(b) && a == nb::cast<PartitionLimits&>(b);
          },
          "other"_a)
      .def("__repr__", &repr<PartitionLimits>);
  nb::class_<PartitionConfig>(m, "PartitionConfig",
                              "What all partitions have together. With allow_overcommit their limits may add up to "
                              "overcommit_ratio times that; a ratio of 1 leaves the sum unchecked.")
      .def(nb::init<Bytes<"PartitionConfig: total_memory">, bool, double>(), "total_memory"_a = int64_t{8} << 30,
           "allow_overcommit"_a = false, "overcommit_ratio"_a = 1.0)
      .def_ro("total_memory", &PartitionConfig::total_memory)
      .def_ro("allow_overcommit", &PartitionConfig::allow_overcommit)
      .def_ro("overcommit_ratio", &PartitionConfig::overcommit_ratio)
      .def("__repr__", &repr<PartitionConfig>);
}

void bind_results(nb::module_& m) {
  nb::class_<PartitionUsage>(m, "PartitionUsage", "What a partition has obtained and used, measured.")
      .def_ro("memory_used", &PartitionUsage::memory_used)
      .def_ro("memory_peak", &PartitionUsage::memory_peak)
      .def_ro("memory_limit", &PartitionUsage::memory_limit)
      .def_ro("active_streams", &PartitionUsage::active_streams)
      .def_ro("pending_kernels", &PartitionUsage::pending_kernels)
      .def_ro("pending_transfers", &PartitionUsage::pending_transfers)
      .def_ro("total_kernels", &PartitionUsage::total_kernels)
      .def_ro("total_transfers", &PartitionUsage::total_transfers)
      .def_ro("bytes_copied", &PartitionUsage::bytes_copied)
      .def_ro("bytes_per_second", &PartitionUsage::bytes_per_second, "What its copies are paced to; 0: not paced.")
      .def_ro("compute_time_ms", &PartitionUsage::compute_time_ms, "On the device.")
      .def_ro("sm_asked", &PartitionUsage::sm_asked, "SMs that the compute share comes to; 0: no share.")
      .def_ro("sm_count", &PartitionUsage::sm_count, "SMs its work runs on; 0: not attached.")
      .def_ro("enforced", &PartitionUsage::enforced, "The limits are enforced on a device.")
      .def_ro("paced", &PartitionUsage::paced, "The share is one of GPU time: this driver has no sets of SMs.")
      .def_ro("note", &PartitionUsage::note, "What lies outside the walls.")
      .def("__repr__", &repr<PartitionUsage>);
  nb::class_<PartitionStats>(m, "PartitionStats", "What the partitions of a manager take together and what is left.")
      .def_ro("partition_count", &PartitionStats::partition_count)
      .def_ro("active_partitions", &PartitionStats::active_partitions)
      .def_ro("total_memory_allocated", &PartitionStats::total_memory_allocated)
      .def_ro("total_compute_allocated", &PartitionStats::total_compute_allocated)
      .def_ro("total_bandwidth_allocated", &PartitionStats::total_bandwidth_allocated)
      .def_ro("available_memory", &PartitionStats::available_memory)
      .def_ro("available_compute", &PartitionStats::available_compute)
      .def_ro("available_bandwidth", &PartitionStats::available_bandwidth)
      .def("__repr__", &repr<PartitionStats>);
  nb::class_<Partition>(m, "Partition", "One partition of a manager.")
      .def_prop_ro("id", &Partition::id)
      .def_prop_ro("name", &Partition::name)
      .def_prop_ro("limits", &Partition::limits)
      .def_prop_ro("usage", &Partition::usage, "Measured now.")
      .def_prop_ro("tasks", &Partition::tasks)
      .def_prop_ro("enabled", &Partition::enabled, "False once it was deleted.")
      .def("memory_utilization", &Partition::memory_utilization, "Used part of the memory quota, 0 without one.")
      .def("__repr__", &repr<Partition>);
}

void bind_manager(nb::module_& m) {
  nb::class_<PartitionManager>(m, "PartitionManager",
                               "Partitions by name. The limits are enforced once attached to a device, at the latest "
                               "when a session of a partition is entered.")
      .def(
          "__init__",
          [](PartitionManager* self, std::optional<PartitionConfig> config, python::DeviceArg device) {
            const bool attached = !device.is_none();
            const Device where = attached ? python::to_device(device) : Device{};
            new (self)
                PartitionManager(config.value_or(PartitionConfig()), attached ? std::optional(where) : std::nullopt);
          },
          "config"_a = nb::none(), "device"_a = nb::none())
      .def_static(
          "with_memory",
          [](Bytes<"PartitionManager.with_memory: total_memory"> total) {
            return PartitionManager::with_memory(total);
          },
          "total_memory"_a)
      .def_prop_ro("config", &PartitionManager::config)
      .def_prop_ro("device", &PartitionManager::device, "Where the limits are enforced, or None.")
      .def(
          "attach",
          [](PartitionManager& self, python::DeviceArg device) {
            const Device where = python::to_device(device);
            in_scope([&] { return self.attach(where), 0; });
          },
          "device"_a = nb::none(), "Enforces the limits on a device, by default the current one.")
      .def("create_partition", &PartitionManager::create, "id"_a, "name"_a, "limits"_a,
           nb::call_guard<python::GilReleased>(),
           "ValueError when the id exists, RuntimeError when too little is left.")
      .def("delete_partition", &PartitionManager::remove, "id"_a, nb::call_guard<python::GilReleased>(),
           "Waits for work in flight, then gives everything back. Raises while sessions are entered.")
      .def("resize_partition", &PartitionManager::resize, "id"_a, "limits"_a, nb::call_guard<python::GilReleased>(),
           "Other limits: new work moves to them, work in flight finishes under the old ones.")
      .def("get", &PartitionManager::get, "id"_a, "The partition, or None.")
      .def("usage", &PartitionManager::usage, "id"_a, "What a partition has obtained and used, measured.")
      .def(
          "session",
          [](PartitionManager& self, const std::string& id) {
            auto share = in_scope([&] { return self.share(id); });
            return SessionScopeObject{share, &share->session(), nb::cast(self.get(id))};
          },
          "id"_a, "A scope for `with` and `async with`: everything inside runs in the partition.")
      .def("assign_task", &PartitionManager::assign_task, "task_id"_a, "partition_id"_a)
      .def("get_task_partition", &PartitionManager::task_partition, "task_id"_a,
           "The id of the task's partition, by default that of the default one.")
      .def("unassign_task", &PartitionManager::unassign_task, "task_id"_a, "False when it was not assigned.")
      .def("set_default", &PartitionManager::set_default, "id"_a)
      .def("default_partition", &PartitionManager::default_partition, "The id of the default partition, or None.")
      .def("partition_ids", &PartitionManager::ids)
      .def("stats", &PartitionManager::stats)
      .def("clear", &PartitionManager::clear, nb::call_guard<python::GilReleased>(), "Deletes all partitions.")
      .def(
          "visibility",
          [](const PartitionManager& self) {
            const Device device = self.device() ? *self.device() : python::to_device(nb::none());
            return in_scope([&] { return driver::read_visibility(runtime::properties(device), device.index).lines(); });
          },
          "What was decided outside the process: CUDA_VISIBLE_DEVICES, MIG and MPS, one `name: value` for each thing "
          "that is set.")
      .def("__repr__", [](const PartitionManager& self) {
        const auto device = self.device();
        return "PartitionManager(partitions=" + std::to_string(self.ids().size()) +
               ", device=" + (device ? "'" + str(*device) + "'" : std::string("None")) + ")";
      });
}

}  // namespace

void bind_partition(nb::module_& core) {
  nb::module_ top = python::runtime_module(core);
  nb::module_ module = python::runtime_module(core, "scheduler");
  bind_limits(top);
  bind_results(top);
  bind_manager(top);
  top.def("_use_sm_sets", &scheduler::SmGroups::use_sets, "on"_a,
          "False: shares are shares of GPU time, as where the driver has no sets of SMs. Internal.");
  core.def("_set_host_sms", &driver::set_host_sms, "count"_a,
           "Pretend SMs of the CPU device, in groups of 8, for trying partitions out; 0: none. Internal.");
  for (const char* name :
       {"PartitionLimits", "PartitionConfig", "PartitionUsage", "PartitionStats", "Partition", "PartitionManager"})
    module.attr(name) = top.attr(name);
}

}  // namespace gpukit
