// What pygpukit.profiling shows: records, memory snapshots, their texts and their trace.
#include "gpukit/scheduler/inspect/profile.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gpukit/base/files.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/path.h"

namespace gpukit {

using scheduler::KernelRecord;
using scheduler::MemorySnapshot;

namespace {

double now_s() { return static_cast<double>(files::wall_clock_ns()) * 1e-9; }

KernelRecord copy_of(nb::handle native) {
  const auto number = [&](const char* name) { return nb::cast<std::optional<double>>(nb::getattr(native, name)); };
  return {nb::cast<std::string>(nb::getattr(native, "name")),
          number("elapsed_ms").value_or(0),
          number("elapsed_us").value_or(0),
          number("flops"),
          number("bytes_transferred"),
          nb::cast<double>(nb::getattr(native, "timestamp", nb::float_(now_s())))};
}

void bind_records(nb::module_& m) {
  nb::class_<KernelRecord>(m, "KernelRecord", "What ran between two events.")
      .def(
          "__init__",
          [](KernelRecord* self, std::string name, double elapsed_ms, double elapsed_us, std::optional<double> flops,
             std::optional<double> bytes_transferred, std::optional<double> timestamp) {
            new (self) KernelRecord{std::move(name), elapsed_ms,        elapsed_us,
                                    flops,           bytes_transferred, timestamp ? *timestamp : now_s()};
          },
          "name"_a, "elapsed_ms"_a, "elapsed_us"_a, "flops"_a = nb::none(), "bytes_transferred"_a = nb::none(),
          "timestamp"_a = nb::none(), "`timestamp`: of its start, seconds since 1970; None: now.")
      .def_static("from_native", &copy_of, "native"_a, nb::sig("def from_native(native: typing.Any) -> KernelRecord"),
                  "A copy of a record, or of a ProfilerContext that is over.")
      .def_rw("name", &KernelRecord::name)
      .def_rw("elapsed_ms", &KernelRecord::elapsed_ms)
      .def_rw("elapsed_us", &KernelRecord::elapsed_us)
      .def_rw("flops", &KernelRecord::flops)
      .def_rw("bytes_transferred", &KernelRecord::bytes_transferred)
      .def_rw("timestamp", &KernelRecord::timestamp, "Of its start, seconds since 1970.")
      .def_prop_ro("tflops", &KernelRecord::tflops, "None where the work is not known or took no time.")
      .def_prop_ro("bandwidth_gb_s", &KernelRecord::bandwidth_gb_s,
                   "None where the bytes are not known or it took no time.")
      .def("__repr__", [](const KernelRecord& r) {
        return "KernelRecord(name='" + r.name + "', elapsed_ms=" + std::to_string(r.elapsed_ms) + ")";
      });
  m.def(
      "summary_by_name",
      [](const std::vector<KernelRecord>& records) {
        nb::dict all;
        for (const scheduler::RecordSummary& s : scheduler::summarize(records)) {
          nb::dict one;
          one["count"] = s.count;
          one["total_ms"] = s.total_ms;
          one["avg_ms"] = s.avg_ms;
          one["min_ms"] = s.min_ms;
          one["max_ms"] = s.max_ms;
          all[nb::str(s.name.c_str(), s.name.size())] = one;
        }
        return python::AnyDict(all);
      },
      "records"_a, "{name: {count, total_ms, avg_ms, min_ms, max_ms}}");
  m.def(
      "summary_text", [](const std::vector<KernelRecord>& records) { return scheduler::summary_text(records); },
      "records"_a, "The same as a table.");
}

void bind_memory_snapshots(nb::module_& m) {
  nb::class_<MemorySnapshot>(m, "MemorySnapshot", "What a pool has at one moment, in bytes.")
      .def(
          "__init__",
          [](MemorySnapshot* self, std::string name, std::optional<double> timestamp, int64_t quota, int64_t used,
             int64_t cached, int64_t available, int64_t active_blocks, int64_t free_blocks, int64_t allocation_count,
             int64_t reuse_count, int64_t cudamalloc_count) {
            new (self) MemorySnapshot{std::move(name),
                                      timestamp ? *timestamp : now_s(),
                                      quota,
                                      used,
                                      cached,
                                      available,
                                      active_blocks,
                                      free_blocks,
                                      allocation_count,
                                      reuse_count,
                                      cudamalloc_count};
          },
          "name"_a = "", "timestamp"_a = nb::none(), "quota"_a = 0, "used"_a = 0, "cached"_a = 0, "available"_a = 0,
          "active_blocks"_a = 0, "free_blocks"_a = 0, "allocation_count"_a = 0, "reuse_count"_a = 0,
          "cudamalloc_count"_a = 0)
      .def_rw("name", &MemorySnapshot::name)
      .def_rw("timestamp", &MemorySnapshot::timestamp, "Seconds since 1970.")
      .def_rw("quota", &MemorySnapshot::quota)
      .def_rw("used", &MemorySnapshot::used)
      .def_rw("cached", &MemorySnapshot::cached)
      .def_rw("available", &MemorySnapshot::available)
      .def_rw("active_blocks", &MemorySnapshot::active_blocks)
      .def_rw("free_blocks", &MemorySnapshot::free_blocks)
      .def_rw("allocation_count", &MemorySnapshot::allocation_count)
      .def_rw("reuse_count", &MemorySnapshot::reuse_count)
      .def_rw("cudamalloc_count", &MemorySnapshot::cudamalloc_count, "Blocks that were not reused.")
      .def_prop_ro("used_mb", &MemorySnapshot::used_mb, "In MiB.")
      .def_prop_ro("cached_mb", &MemorySnapshot::cached_mb, "In MiB.")
      .def_prop_ro("available_mb", &MemorySnapshot::available_mb, "In MiB.")
      .def_prop_ro("utilization", &MemorySnapshot::utilization, "used / quota")
      .def_prop_ro("reuse_rate", &MemorySnapshot::reuse_rate, "reuses / (reuses + new blocks)")
      .def("__repr__", [](const MemorySnapshot& s) {
        return "MemorySnapshot(name='" + s.name + "', used=" + std::to_string(s.used) +
               ", cached=" + std::to_string(s.cached) + ")";
      });
  m.def(
      "memory_snapshot",
      [](std::string name, python::DeviceArg device) {
        const Device where = python::to_device(device);
        return python::in_scope([&] { return scheduler::memory_snapshot(where, std::move(name)); });
      },
      "name"_a = "", "device"_a = nb::none(),
      "Of the session's account, else the default pool's, else the pool of the whole device.");
  m.def(
      "memory_text", [](const std::vector<MemorySnapshot>& snapshots) { return scheduler::memory_text(snapshots); },
      "snapshots"_a, "A table.");
  m.def("memory_difference_text", &scheduler::memory_difference_text, "before"_a, "after"_a, "Lines.");
}

}  // namespace

void bind_profile(nb::module_& core) {
  nb::module_ m = core.def_submodule("_profile", "Records of pygpukit.profiling; internal.");
  bind_records(m);
  bind_memory_snapshots(m);
  m.def(
      "save_trace",
      [](const std::vector<KernelRecord>& records, python::PathArg path, const std::vector<MemorySnapshot>& snapshots,
         const std::string& process_name, const std::string& thread_name, bool with_launches) {
        const std::string where = python::to_path("export_chrome_trace", path);
        python::in_scope([&] {
          std::optional<scheduler::TraceData> ran;
          if (with_launches) ran = scheduler::Trace::instance().data();
          files::write_file(
              where, scheduler::profile_json(records, snapshots, process_name, thread_name, ran ? &*ran : nullptr));
          return 0;
        });
      },
      "records"_a, "path"_a, "snapshots"_a, "process_name"_a, "thread_name"_a, "with_launches"_a,
      "Writes trace-event JSON. with_launches: the trace of the process goes in too.");
}

}  // namespace gpukit
