// Memory: info, raw blocks for the backend API, and copies between pointers and arrays.
#include <nanobind/stl/string.h>

#include <mutex>
#include <unordered_map>

#include "gpukit/base/error.h"
#include "gpukit/python/objects.h"
#include "gpukit/python/runtime_modules.h"
#include "gpukit/python/state.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit::python {

namespace {

using StoragePointer = std::shared_ptr<memory::Storage>;

/// Blocks handed out by address.
struct RawBlocks {
  std::mutex mutex;
  std::unordered_map<uint64_t, StoragePointer> blocks;
};

RawBlocks& raw_blocks() {
  static auto* blocks = new RawBlocks;
  return *blocks;
}

StoragePointer find_block(uint64_t address) {
  RawBlocks& raw = raw_blocks();
  std::lock_guard lock(raw.mutex);
  auto found = raw.blocks.find(address);
  if (found == raw.blocks.end()) throw Error("Invalid device pointer: " + std::to_string(address));
  return found->second;
}

uint64_t raw_allocate(DeviceArg device, int64_t size_bytes) {
  if (size_bytes < 0) throw ArgumentError("allocate", "size_bytes", "not be negative", std::to_string(size_bytes));
  Device where = to_device(device);
  StoragePointer storage = in_scope([&] {
    runtime::DeviceState& state = runtime::open_device(where);
    state.health.check();
    // An empty block still needs an address of its own.
    size_t bytes = size_bytes == 0 ? 1 : static_cast<size_t>(size_bytes);
    auto block = memory::Storage::allocate(*state.resource, bytes, runtime::current_stream(where),
                                           runtime::current_account(where));
    runtime::fill({&block, 0, true}, 1, 0, bytes);
    block->pin();
    return block;
  });
  RawBlocks& raw = raw_blocks();
  std::lock_guard lock(raw.mutex);
  uint64_t address = storage->address();
  raw.blocks[address] = std::move(storage);
  return address;
}

void raw_free(uint64_t address) {
  StoragePointer storage = find_block(address);
  {
    RawBlocks& raw = raw_blocks();
    std::lock_guard lock(raw.mutex);
    raw.blocks.erase(address);
  }
  in_scope([&] { return storage.reset(), 0; });
}

void check_fits(const char* op, const StoragePointer& storage, int64_t bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > storage->bytes())
    throw ArgumentError(op, "size_bytes", "fit the block of " + std::to_string(storage->bytes()) + " bytes",
                        std::to_string(bytes));
}

/// A contiguous Python buffer for the life of the object.
struct BufferView {
  BufferView(nb::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view, flags) != 0) nb::raise_python_error();
  }
  ~BufferView() { PyBuffer_Release(&view); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  Py_buffer view;
};

void raw_copy_in(uint64_t address, BufferArg data) {
  StoragePointer storage = find_block(address);
  BufferView source(data, PyBUF_C_CONTIGUOUS);
  check_fits("copy_host_to_device", storage, source.view.len);
  in_scope([&] { return runtime::copy_from_host({&storage, 0, true}, source.view.buf, source.view.len), 0; });
}

void raw_copy_out(uint64_t address, BufferArg data) {
  StoragePointer storage = find_block(address);
  BufferView target(data, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE);
  check_fits("copy_device_to_host", storage, target.view.len);
  in_scope([&] {
    return runtime::copy_to_host(target.view.buf, {&storage, 0, false}, target.view.len, "copy_device_to_host"), 0;
  });
}

void raw_memset(uint64_t address, int value, int64_t size_bytes) {
  StoragePointer storage = find_block(address);
  check_fits("memset", storage, size_bytes);
  in_scope([&] { return runtime::fill({&storage, 0, true}, 1, static_cast<uint32_t>(value) & 0xff, size_bytes), 0; });
}

// Copies of core.memory

void check_range(const char* op, const char* argument, const Array& array, int64_t offset, int64_t bytes) {
  if (!array.is_contiguous()) throw ArgumentError(op, argument, "be contiguous", "a strided view");
  if (offset < 0 || bytes < 0 || offset > array.nbytes() || bytes > array.nbytes() - offset)
    throw ArgumentError(op, argument, "hold " + std::to_string(bytes) + " bytes from byte " + std::to_string(offset),
                        std::to_string(array.nbytes()) + " bytes");
}

memory::Use at(const Array& array, int64_t offset, bool written) {
  return {&array.storage(), array.offset_bytes() + offset, written};
}

void copy_to_device(ArrayArg dst, uintptr_t src_ptr, int64_t size_bytes) {
  const Array& target = to_array("copy_to_device", "dst", dst);
  check_range("copy_to_device", "dst", target, 0, size_bytes);
  in_scope(
      [&] { return runtime::copy_from_host(write(target), reinterpret_cast<const void*>(src_ptr), size_bytes), 0; });
}

void copy_to_device_async(ArrayArg dst, uintptr_t src_ptr, int64_t size_bytes, StreamArg stream) {
  const char* op = "copy_to_device_async";
  const Array& target = to_array(op, "dst", dst);
  check_range(op, "dst", target, 0, size_bytes);
  auto on = to_stream(op, stream, target.device());
  in_scope([&] {
    runtime::copy_from_host_async(write(target), reinterpret_cast<const void*>(src_ptr), size_bytes, on);
    return 0;
  });
}

void copy_device_to_device_async(ArrayArg dst, ArrayArg src, StreamArg stream) {
  const char* op = "copy_device_to_device_async";
  const Array& target = to_array(op, "dst", dst);
  const Array& source = to_array(op, "src", src);
  if (target.nbytes() != source.nbytes())
    throw ArgumentError(op, "src", "have " + std::to_string(target.nbytes()) + " bytes like dst",
                        std::to_string(source.nbytes()));
  check_range(op, "dst", target, 0, target.nbytes());
  check_range(op, "src", source, 0, source.nbytes());
  check_same_device(op, target, source);
  auto on = to_stream(op, stream, target.device());
  in_scope([&] { return runtime::copy_device_async(write(target), read(source), target.nbytes(), on), 0; });
}

void copy_device_to_device_offset(ArrayArg dst, int64_t dst_offset_bytes, ArrayArg src, int64_t src_offset_bytes,
                                  int64_t size_bytes) {
  const char* op = "copy_device_to_device_offset";
  const Array& target = to_array(op, "dst", dst);
  const Array& source = to_array(op, "src", src);
  check_range(op, "dst", target, dst_offset_bytes, size_bytes);
  check_range(op, "src", source, src_offset_bytes, size_bytes);
  check_same_device(op, target, source);
  int64_t gap = (target.offset_bytes() + dst_offset_bytes) - (source.offset_bytes() + src_offset_bytes);
  if (target.storage() == source.storage() && gap < size_bytes && -gap < size_bytes)
    throw ArgumentError(op, "src", "not overlap dst", "overlapping ranges");
  in_scope([&] {
    return runtime::copy_device(at(target, dst_offset_bytes, true), at(source, src_offset_bytes, false), size_bytes), 0;
  });
}

}  // namespace

Array array_at(uint64_t address, const Dims& shape, DType dtype, bool owns_memory, Device device) {
  StoragePointer storage;
  RawBlocks& raw = raw_blocks();
  {
    std::lock_guard lock(raw.mutex);
    if (auto found = raw.blocks.find(address); found != raw.blocks.end()) {
      storage = found->second;
      if (owns_memory) raw.blocks.erase(found);
    }
  }
  const int64_t bytes = checked_bytes("GPUArray", shape, itemsize(dtype));
  if (storage == nullptr) {
    if (owns_memory) throw Error("Invalid device pointer: " + std::to_string(address));
    storage =
        memory::Storage::adopt(runtime::open_device(device).context, address, static_cast<size_t>(bytes), nullptr);
  }
  check_fits("GPUArray", storage, bytes);
  return Array(std::move(storage), dtype, shape, contiguous_strides(shape), 0);
}

uint64_t pinned_address(const Array& array) {
  return in_scope([&] { return array.storage()->pin(); }) + static_cast<uint64_t>(array.offset_bytes());
}

void bind_memory(nb::module_& m) {
  m.def(
      "get_memory_info",
      [](DeviceArg device) -> IntTuple {
        size_t free_bytes = 0, total_bytes = 0;
        Device where = to_device(device);
        in_scope([&] { return runtime::memory_info(where, &free_bytes, &total_bytes), 0; });
        return nb::make_tuple(free_bytes, total_bytes);
      },
      "device"_a = nb::none(), "(free, total) bytes of a device as the driver sees them.");
  m.def("copy_to_device", &copy_to_device, "dst"_a, "src_ptr"_a, "size_bytes"_a,
        "Copies host memory at an address into an array.");
  m.def("copy_to_device_async", &copy_to_device_async, "dst"_a, "src_ptr"_a, "size_bytes"_a, "stream"_a = nb::none(),
        "The same without waiting: the memory must stay valid until the stream is done.");
  m.def("copy_device_to_device_async", &copy_device_to_device_async, "dst"_a, "src"_a, "stream"_a = nb::none(),
        "Copies the bytes of one array into another of as many bytes.");
  compat_module(m).def("copy_device_to_device_offset", &copy_device_to_device_offset, "dst"_a, "dst_offset_bytes"_a,
                       "src"_a, "src_offset_bytes"_a, "size_bytes"_a, "Copies a range of bytes between two arrays.");

  m.def("_raw_allocate", &raw_allocate, "device"_a, "size_bytes"_a, "Zeroed block by address; internal.");
  m.def("_raw_free", &raw_free, "address"_a, "Gives a raw block back; internal.");
  m.def("_raw_copy_in", &raw_copy_in, "address"_a, "data"_a, "Host buffer to raw block; internal.");
  m.def("_raw_copy_out", &raw_copy_out, "address"_a, "data"_a, "Raw block to writable host buffer; internal.");
  m.def("_raw_memset", &raw_memset, "address"_a, "value"_a, "size_bytes"_a, "Fills a raw block; internal.");
}

}  // namespace gpukit::python
