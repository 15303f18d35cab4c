// Slicing of long launches.
#include "gpukit/scheduler/dispatch/slicing.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/scheduler/dispatch/dispatch_py.h"

namespace gpukit {

using python::from_extent3;
using python::text_of;
using scheduler::KernelSlice;
using scheduler::SliceConfig;
using scheduler::SliceInfo;
using scheduler::SliceScheduler;
using scheduler::SliceStats;

namespace {

void bind_values(nb::module_& m) {
  nb::class_<SliceConfig>(m, "SliceConfig", "How launches are cut.")
      .def(
          "__init__",
          [](SliceConfig* self, int64_t items, double duration, int64_t least, int64_t most, bool adaptive) {
            new (self) SliceConfig{items, duration, least, most, adaptive};
          },
          "max_items_per_slice"_a = 65536, "max_duration_ms"_a = 1.0, "min_slices"_a = 1, "max_slices"_a = 256,
          "adaptive"_a = true)
      .def_ro("max_items_per_slice", &SliceConfig::max_items_per_slice)
      .def_ro("max_duration_ms", &SliceConfig::max_duration_ms)
      .def_ro("min_slices", &SliceConfig::min_slices)
      .def_ro("max_slices", &SliceConfig::max_slices)
      .def_ro("adaptive", &SliceConfig::adaptive, "Slices that took too long make the following ones smaller.")
      .def("__repr__", [](const SliceConfig& c) {
        return "SliceConfig(max_items_per_slice=" + std::to_string(c.max_items_per_slice) +
               ", max_duration_ms=" + text_of(c.max_duration_ms) + ", min_slices=" + std::to_string(c.min_slices) +
               ", max_slices=" + std::to_string(c.max_slices) + ", adaptive=" + text_of(c.adaptive) + ")";
      });

  nb::class_<SliceInfo>(m, "SliceInfo", "A slice to launch.")
      .def_ro("kernel_handle", &SliceInfo::kernel_handle)
      .def_prop_ro("block", [](const SliceInfo& s) { return from_extent3(s.block); })
      .def_ro("shared_mem", &SliceInfo::shared_mem)
      .def_ro("slice_id", &SliceInfo::slice_id, "The number of the slice in its kernel.")
      .def_ro("offset", &SliceInfo::offset)
      .def_ro("count", &SliceInfo::count)
      .def_prop_ro("grid", [](const SliceInfo& s) { return from_extent3(s.grid); })
      .def_ro("task_id", &SliceInfo::task_id)
      .def_ro("priority", &SliceInfo::priority)
      .def("__repr__", [](const SliceInfo& s) {
        return "SliceInfo(kernel_handle=" + std::to_string(s.kernel_handle) +
               ", slice_id=" + std::to_string(s.slice_id) + ", offset=" + std::to_string(s.offset) +
               ", count=" + std::to_string(s.count) + ", grid=" + text_of(s.grid) + ")";
      });

  nb::class_<KernelSlice>(m, "KernelSlice", "A slice of a kernel that is under way.")
      .def_ro("id", &KernelSlice::id)
      .def_ro("offset", &KernelSlice::offset)
      .def_ro("count", &KernelSlice::count)
      .def_prop_ro("grid", [](const KernelSlice& s) { return from_extent3(s.grid); })
      .def_ro("executed", &KernelSlice::executed)
      .def_ro("exec_time_ms", &KernelSlice::exec_time_ms)
      .def("__repr__", [](const KernelSlice& s) {
        return "KernelSlice(id=" + std::to_string(s.id) + ", offset=" + std::to_string(s.offset) +
               ", count=" + std::to_string(s.count) + ", executed=" + text_of(s.executed) + ")";
      });

  nb::class_<SliceStats>(m, "SliceStats", "Counts of a slice scheduler. Pending means not completed.")
      .def_ro("total_slices", &SliceStats::total_slices)
      .def_ro("completed_slices", &SliceStats::completed_slices)
      .def_ro("pending_slices", &SliceStats::pending_slices)
      .def_ro("total_kernels", &SliceStats::total_kernels)
      .def_ro("completed_kernels", &SliceStats::completed_kernels)
      .def_ro("pending_kernels", &SliceStats::pending_kernels)
      .def("__repr__", [](const SliceStats& s) {
        return "SliceStats(total_slices=" + std::to_string(s.total_slices) +
               ", completed_slices=" + std::to_string(s.completed_slices) +
               ", total_kernels=" + std::to_string(s.total_kernels) +
               ", completed_kernels=" + std::to_string(s.completed_kernels) + ")";
      });
}

}  // namespace

void bind_slicing(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "dispatch");
  bind_values(m);
  nb::class_<SliceScheduler>(m, "SliceScheduler",
                             "Cuts kernels into slices and hands them out in turn: one of each kernel after the other, "
                             "higher priorities first. Keeps the books; a kernel of gp.jit cuts itself with slice_ms.")
      .def(
          "__init__",
          [](SliceScheduler* self, const std::optional<SliceConfig>& config) {
            new (self) SliceScheduler(config.value_or(SliceConfig()));
          },
          "config"_a = nb::none())
      .def(
          "submit",
          [](SliceScheduler& s, uint64_t handle, int64_t items, python::ExtentArg block, int64_t shared_mem) {
            return s.submit(handle, items, python::to_extent("SliceScheduler.submit", "block", block), shared_mem);
          },
          "kernel_handle"_a, "total_items"_a, "block"_a = nb::make_tuple(256, 1, 1), "shared_mem"_a = 0,
          "Returns the number of slices.")
      .def(
          "submit_for_task",
          [](SliceScheduler& s, const std::string& task, uint64_t handle, int64_t items, python::ExtentArg block,
             int64_t shared_mem, int64_t priority) {
            return s.submit(handle, items, python::to_extent("SliceScheduler.submit_for_task", "block", block),
                            shared_mem, task, priority);
          },
          "task_id"_a, "kernel_handle"_a, "total_items"_a, "block"_a = nb::make_tuple(256, 1, 1), "shared_mem"_a = 0,
          "priority"_a = 0)
      .def("get_next_slice", &SliceScheduler::get_next_slice, "None when every slice was handed out.")
      .def("complete_slice", &SliceScheduler::complete_slice, "exec_time_ms"_a,
           "The slice handed out longest ago is over. False when none is out.")
      .def("pending_slices", &SliceScheduler::pending_slices)
      .def("pending_kernels", &SliceScheduler::pending_kernels)
      .def("slices", &SliceScheduler::slices, "kernel_handle"_a, "Slices handed out of kernels not yet completed.")
      .def("stats", &SliceScheduler::stats)
      .def("clear", &SliceScheduler::clear)
      .def("config", [](const SliceScheduler& s) { return s.config(); })
      .def("__repr__", [](const SliceScheduler& s) {
        const SliceStats stats = s.stats();
        return "SliceScheduler(pending_slices=" + std::to_string(stats.pending_slices) +
               ", pending_kernels=" + std::to_string(stats.pending_kernels) + ")";
      });
  python::lift(core, "dispatch", {"SliceConfig", "SliceScheduler", "SliceInfo", "KernelSlice", "SliceStats"});
}

}  // namespace gpukit
