// MemoryPool and what belongs to it.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <atomic>

#include "gpukit/base/error.h"
#include "gpukit/memory/pool_api.h"
#include "gpukit/python/bind.h"
#include "gpukit/python/byte_count.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

using memory::MemoryPool;
using memory::MemoryPoolStats;
using memory::PoolBlock;
using python::in_scope;

namespace {

using SizeArg = python::Shown<"typing.SupportsIndex | str">;  // to_size

size_t to_size(const char* op, const char* argument, nb::handle value) {
  const int64_t size = PyUnicode_Check(value.ptr()) ? python::bytes_of_text((std::string(op) + ": " + argument).c_str(),
                                                                            python::to_text(op, argument, value))
                                                    : python::to_int(op, argument, value);
  if (size < 0) throw ArgumentError(op, argument, "not be negative", std::to_string(size));
  return static_cast<size_t>(size);
}

std::shared_ptr<MemoryPool> make_pool(SizeArg quota, bool enable_eviction, python::DeviceArg device) {
  static std::atomic<int> count{0};
  const size_t bytes = to_size("MemoryPool", "quota", quota);
  const Device where = python::to_device(device);
  return in_scope([&] {
    runtime::DeviceState& state = runtime::open_device(where);
    return std::make_shared<MemoryPool>(*state.resource, state.default_stream, bytes, enable_eviction,
                                        "pool" + std::to_string(count.fetch_add(1)));
  });
}

template <auto Method>
void by_id(MemoryPool& pool, uint64_t id) {
  in_scope([&] { return (pool.*Method)(id), 0; });
}

nb::bytes read_bytes(MemoryPool& pool, uint64_t id, SizeArg size) {
  const auto block = pool.get_block(id);
  if (!block) throw ArgumentError("read", "id", "be the number of a live block", std::to_string(id));
  const size_t bytes = size.is_none() ? block->size : to_size("read", "size", size);
  nb::object result = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
  if (!result.is_valid()) nb::raise_python_error();
  char* data = PyBytes_AS_STRING(result.ptr());
  in_scope([&] { return pool.read(id, data, bytes), 0; });
  return nb::cast<nb::bytes>(result);
}

void write_bytes(MemoryPool& pool, uint64_t id, python::BufferArg data) {
  Py_buffer view;
  if (PyObject_GetBuffer(data.ptr(), &view, PyBUF_C_CONTIGUOUS) != 0) nb::raise_python_error();
  std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> released(&view, &PyBuffer_Release);
  in_scope([&] { return pool.write(id, view.buf, static_cast<size_t>(view.len)), 0; });
}

python::ShownObject<"bytes | None"> host_data(MemoryPool& pool, uint64_t id) {
  const std::optional<std::string> bytes = in_scope([&] { return pool.get_host_data(id); });
  if (!bytes) return nb::none();
  return nb::bytes(bytes->data(), bytes->size());
}

std::string repr(const PoolBlock& block) {
  return "MemoryBlock(id=" + std::to_string(block.id) + ", size=" + std::to_string(block.size) +
         ", on_gpu=" + (block.on_gpu ? "True" : "False") + ", on_host=" + (block.on_host ? "True" : "False") + ")";
}

std::string repr(const MemoryPoolStats& stats) {
  return "PoolStats(quota=" + std::to_string(stats.quota) + ", used=" + std::to_string(stats.used) +
         ", cached=" + std::to_string(stats.cached) + ", available=" + std::to_string(stats.available) +
         ", active_blocks=" + std::to_string(stats.active_blocks) +
         ", free_blocks=" + std::to_string(stats.free_blocks) + ")";
}

void bind_views(nb::module_& m) {
  nb::class_<PoolBlock>(m, "MemoryBlock", "A block of a MemoryPool as it was when it was asked for.")
      .def_ro("id", &PoolBlock::id)
      .def_ro("size", &PoolBlock::size, "Bytes.")
      .def_prop_ro(
          "device_ptr", [](const PoolBlock& b) { return in_scope([&] { return b.device_ptr(); }); },
          "None while evicted. Reading it hands the address out: the block is never evicted from then on.")
      .def_ro("on_gpu", &PoolBlock::on_gpu)
      .def_ro("on_host", &PoolBlock::on_host)
      .def_ro("last_access", &PoolBlock::last_access, "Seconds since 1970.")
      .def("is_available", [](const PoolBlock& b) { return b.on_gpu; })
      .def("is_evicted", [](const PoolBlock& b) { return b.on_host; })
      .def("__repr__", [](const PoolBlock& b) { return repr(b); });

  nb::class_<MemoryPoolStats>(m, "PoolStats", "Counts of a MemoryPool.")
      .def_ro("quota", &MemoryPoolStats::quota)
      .def_ro("used", &MemoryPoolStats::used, "Device bytes of live blocks as handed out.")
      .def_ro("cached", &MemoryPoolStats::cached, "Device bytes kept for reuse; given up when room is needed.")
      .def_ro("available", &MemoryPoolStats::available, "quota - used.")
      .def_ro("allocation_count", &MemoryPoolStats::allocation_count)
      .def_ro("reuse_count", &MemoryPoolStats::reuse_count)
      .def_ro("eviction_count", &MemoryPoolStats::eviction_count)
      .def_ro("cudamalloc_count", &MemoryPoolStats::cudamalloc_count, "Blocks that were not reused.")
      .def_ro("active_blocks", &MemoryPoolStats::active_blocks)
      .def_ro("free_blocks", &MemoryPoolStats::free_blocks)
      .def("__repr__", [](const MemoryPoolStats& s) { return repr(s); });
}

}  // namespace

void bind_pool(nb::module_& core) {
  nb::module_ m = python::runtime_module(core, "memory");
  bind_views(m);
  nb::class_<MemoryPool> pool(
      m, "MemoryPool",
      "Blocks by number under a quota, over real memory of a device. With enable_eviction the least recently used "
      "ones go to host memory to make room; their bytes stay. Used and cached bytes never exceed the quota.");
  pool.def(nb::new_(&make_pool), "quota"_a, "enable_eviction"_a = false, "device"_a = nb::none())
      .def_prop_ro("quota", &MemoryPool::quota)
      .def_prop_ro("used", &MemoryPool::used, "Device bytes of live blocks as handed out.")
      .def_prop_ro("cached", &MemoryPool::cached, "Device bytes kept for reuse; given up when room is needed.")
      .def_prop_ro("available", &MemoryPool::available, "quota - used.")
      .def_prop_ro("enable_eviction", &MemoryPool::eviction)
      .def_prop_ro("device", &MemoryPool::device)
      .def_prop_rw(
          "host_limit", [](const MemoryPool& p) { return p.account()->host_limit(); },
          [](MemoryPool& p, SizeArg bytes) { p.account()->set_host_limit(to_size("MemoryPool", "host_limit", bytes)); },
          "The most host bytes that evicted blocks may take; 0: only the device's own limit.")
      .def(
          "allocate",
          [](MemoryPool& p, SizeArg size) {
            const size_t bytes = to_size("allocate", "size", size);
            return in_scope([&] { return p.allocate(bytes); });
          },
          "size"_a,
          "The number of a new block; the first is 0. Rounded up to SIZE_CLASSES, above them to a whole MiB. "
          "MemoryError when the quota or the device does not allow it.")
      .def("free", &by_id<&MemoryPool::free>, "id"_a, "Its memory is kept for reuse.")
      .def("touch", &by_id<&MemoryPool::touch>, "id"_a, "Marks the block most recently used.")
      .def("evict", &by_id<&MemoryPool::evict>, "id"_a, "Moves the bytes to host memory.")
      .def("restore", &by_id<&MemoryPool::restore>, "id"_a, "Brings the bytes back, perhaps at another address.")
      .def("write", &write_bytes, "id"_a, "data"_a, "Copies a contiguous buffer into the block; restores it first.")
      .def("read", &read_bytes, "id"_a, "size"_a = nb::none(), "The bytes of the block, all or the first `size`.")
      .def("get_block", &MemoryPool::get_block, "id"_a, "The block as it is now, or None.")
      .def("stats", &MemoryPool::stats)
      .def(
          "clear", [](MemoryPool& p) { in_scope([&] { return p.clear(), 0; }); }, "Drops all blocks.")
      .def("set_device_ptr", &MemoryPool::set_device_ptr, "id"_a, "ptr"_a.none(),
           "A pointer of the caller's, shown in place of the block's own; None: its own again. The pool does not use "
           "it.")
      .def(
          "set_host_data",
          [](MemoryPool& p, uint64_t id, nb::bytes data) {
            p.set_host_data(id, {data.c_str(), data.size()});
          },
          "id"_a, "data"_a, "Bytes of the caller's, kept beside the block.")
      .def("get_host_data", &host_data, "id"_a, "What was set, else the bytes of an evicted block, else None.")
      .def("clear_host_data", &MemoryPool::clear_host_data, "id"_a)
      .def(
          "get_block_size",
          [](const MemoryPool& p, uint64_t id) {
            const auto block = p.get_block(id);
            if (!block)
              throw ArgumentError("get_block_size", "id", "be the number of a live block", std::to_string(id));
            return block->size;
          },
          "id"_a)
      .def(
          "is_block_on_gpu",
          [](const MemoryPool& p, uint64_t id) {
            const auto block = p.get_block(id);
            if (!block)
              throw ArgumentError("is_block_on_gpu", "id", "be the number of a live block", std::to_string(id));
            return block->on_gpu;
          },
          "id"_a)
      .def("__repr__", [](const MemoryPool& p) {
        return "MemoryPool(quota=" + std::to_string(p.quota()) + ", used=" + std::to_string(p.used()) +
               ", cached=" + std::to_string(p.cached()) + ", device='" + str(p.device()) + "')";
      });
  pool.def_prop_ro_static("SIZE_CLASSES", [](nb::handle) -> python::IntTuple {
    nb::list classes;
    for (size_t size : MemoryPool::kSizeClasses) classes.append(size);
    return nb::tuple(classes);
  });

  m.def("set_default_pool", &memory::set_default_pool, "pool"_a = nb::none(),
        "Arrays of the pool's device allocate from it where no session says otherwise; None: from none.");
  m.def("get_default_pool", &memory::default_pool, "The pool that was set, or None.");

  // A pool that Python made must not outlive the interpreter.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] { memory::set_default_pool(nullptr); }));

  nb::module_ runtime = python::runtime_module(core);
  for (const char* name : {"MemoryPool", "MemoryBlock", "PoolStats"}) runtime.attr(name) = m.attr(name);
}

}  // namespace gpukit
