// PinnedMemoryManager and its kin.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "gpukit/python/bind.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/runtime/pinned_manager.h"

namespace gpukit {

using python::Bytes;
using runtime::PinnedBlock;
using runtime::PinnedManager;
using runtime::PinnedPoolConfig;
using runtime::PinnedStats;

namespace {

double seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

using FreedTuple = nb::typed<nb::tuple, bool, int>;

FreedTuple tuple_of(const PinnedManager::Freed& freed) { return nb::make_tuple(freed.should_free, freed.address); }

std::string number(int64_t value) { return std::to_string(value); }

void bind_values(nb::module_& m) {
  nb::class_<PinnedPoolConfig>(m, "PinnedPoolConfig", "How a PinnedMemoryManager keeps page-locked memory.")
      .def(
          "__init__",
          [](PinnedPoolConfig* self, Bytes<"PinnedPoolConfig: max_size"> max_size, bool enable_pooling,
             int64_t alignment) {
            PinnedPoolConfig config{max_size, enable_pooling, alignment};
            config.check();
            new (self) PinnedPoolConfig(config);
          },
          "max_size"_a = int64_t{1} << 30, "enable_pooling"_a = true, "alignment"_a = 256)
      .def_ro("max_size", &PinnedPoolConfig::max_size)
      .def_ro("enable_pooling", &PinnedPoolConfig::enable_pooling)
      .def_ro("alignment", &PinnedPoolConfig::alignment)
      .def(
          "get_size_class",
          [](const PinnedPoolConfig& c, Bytes<"get_size_class: size"> size) { return c.size_class(size); }, "size"_a,
          "4K, 64K, 256K, 1M, 4M, 16M, 64M or 256M; larger sizes are rounded up to the alignment.")
      .def("__repr__", [](const PinnedPoolConfig& c) {
        return "PinnedPoolConfig(max_size=" + number(c.max_size) +
               ", enable_pooling=" + (c.enable_pooling ? "True" : "False") + ", alignment=" + number(c.alignment) + ")";
      });

  nb::class_<PinnedBlock>(m, "PinnedBlock", "A block of page-locked memory. Times are seconds of the runtime's clock.")
      .def_ro("id", &PinnedBlock::id)
      .def_ro("host_ptr", &PinnedBlock::address, "0 until registered.")
      .def_ro("size", &PinnedBlock::bytes)
      .def_ro("in_use", &PinnedBlock::in_use)
      .def_ro("task_id", &PinnedBlock::task_id)
      .def_prop_ro("allocated_at", [](const PinnedBlock& b) { return seconds(b.allocated_ns); })
      .def_prop_ro("last_access", [](const PinnedBlock& b) { return seconds(b.last_access_ns); })
      .def("__repr__", [](const PinnedBlock& b) {
        return "PinnedBlock(id=" + number(static_cast<int64_t>(b.id)) + ", size=" + number(b.bytes) + ")";
      });

  nb::class_<PinnedStats>(m, "PinnedStats", "Sums over the blocks of a PinnedMemoryManager; sizes in bytes.")
      .def_ro("total_allocated", &PinnedStats::total_allocated)
      .def_ro("current_used", &PinnedStats::current_used)
      .def_ro("peak_used", &PinnedStats::peak_used)
      .def_ro("total_allocations", &PinnedStats::total_allocations)
      .def_ro("total_frees", &PinnedStats::total_frees)
      .def_ro("pool_hits", &PinnedStats::pool_hits)
      .def_ro("pool_misses", &PinnedStats::pool_misses)
      .def_ro("pool_size", &PinnedStats::pool_size)
      .def_ro("pooled_blocks", &PinnedStats::pooled_blocks)
      .def("hit_rate", &PinnedStats::hit_rate, "Allocations served by a kept block, 0 to 1.")
      .def("__repr__", [](const PinnedStats& s) {
        return "PinnedStats(current_used=" + number(s.current_used) + ", pool_size=" + number(s.pool_size) +
               ", pool_hits=" + number(s.pool_hits) + ", pool_misses=" + number(s.pool_misses) + ")";
      });
}

void bind_manager(nb::module_& m) {
  using Manager = PinnedManager;
  nb::class_<Manager>(
      m, "PinnedMemoryManager",
      "Keeps account of page-locked memory that the caller allocates: sizes, limits, reuse. It makes no "
      "allocation itself; the copies of arrays have page-locked memory of their own.")
      .def(
          "__init__",
          [](Manager* self, const std::optional<PinnedPoolConfig>& config) {
            new (self) Manager(config.value_or(PinnedPoolConfig{}));
          },
          "config"_a = nb::none())
      .def_static(
          "with_max_size",
          [](Bytes<"with_max_size: max_size"> max_size) {
            PinnedPoolConfig config;
            config.max_size = max_size;
            return std::make_unique<Manager>(config);
          },
          "max_size"_a)
      .def(
          "can_allocate", [](const Manager& self, Bytes<"can_allocate: size"> size) { return self.can_allocate(size); },
          "size"_a)
      .def(
          "allocate",
          [](Manager& self, Bytes<"allocate: size"> size) {
            Manager::Allocation made = self.allocate(size);
            return nb::typed<nb::tuple, int, int, bool>(nb::make_tuple(made.id, made.bytes, made.reused));
          },
          "size"_a,
          "(id, size_class, reused). Unless reused, the caller allocates size_class bytes and registers them. Raises "
          "MemoryError over the limit.")
      .def("register", &Manager::register_block, "id"_a, "host_ptr"_a, "size"_a, "Where the memory of a block is.")
      .def(
          "free", [](Manager& self, uint64_t id) { return tuple_of(self.free(id)); }, "id"_a,
          "(should_free, host_ptr): with should_free the caller releases the memory, else it is kept for reuse.")
      .def("associate_task", &Manager::associate_task, "id"_a, "task_id"_a)
      .def("get", &Manager::find, "id"_a, "The block, or None.")
      .def("touch", &Manager::touch, "id"_a)
      .def("get_blocks_for_task", &Manager::blocks_of_task, "task_id"_a, "Ids of a task's blocks.")
      .def(
          "free_task_blocks",
          [](Manager& self, const std::string& task_id) {
            nb::typed<nb::list, FreedTuple> list;
            for (const auto& freed : self.free_task_blocks(task_id)) list.append(tuple_of(freed));
            return list;
          },
          "task_id"_a, "free() of each block of a task.")
      .def("stats", &Manager::stats)
      .def("clear_pool", &Manager::clear_pool, "Gives up what is kept for reuse; the addresses to release.")
      .def("clear", &Manager::clear, "Gives up everything; the addresses to release.")
      .def("active_count", &Manager::active_count)
      .def_prop_ro("config", &Manager::config)
      .def("__repr__", [](const Manager& self) {
        PinnedStats s = self.stats();
        return "PinnedMemoryManager(max_size=" + number(self.config().max_size) +
               ", current_used=" + number(s.current_used) + ", pool_size=" + number(s.pool_size) + ")";
      });
}

}  // namespace

void bind_pinned_manager(nb::module_& core) {
  nb::module_ top = python::runtime_module(core), transfer = python::runtime_module(core, "transfer");
  bind_values(transfer);
  bind_manager(transfer);
  for (const char* name : {"PinnedPoolConfig", "PinnedBlock", "PinnedStats", "PinnedMemoryManager"})
    top.attr(name) = transfer.attr(name);
}

}  // namespace gpukit
