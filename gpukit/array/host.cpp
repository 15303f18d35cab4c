#include "gpukit/array/host.h"

#include "gpukit/base/error.h"
#include "gpukit/memory/hold.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer.h"

namespace gpukit {

namespace {

void check_contiguous(const char* op, const Array& array) {
  if (!array.is_contiguous()) throw ArgumentError(op, "array", "be contiguous", "a strided view");
}

}  // namespace

Array from_host(const void* data, const Dims& shape, DType dtype, Device device) {
  Array array = Array::empty(shape, dtype, device);
  runtime::copy_from_host(write(array), data, static_cast<size_t>(array.nbytes()));
  return array;
}

void to_host(void* data, const Array& array, const char* caller) {
  check_contiguous(caller, array);
  runtime::copy_to_host(data, read(array), static_cast<size_t>(array.nbytes()), caller);
}

Array to_device(const Array& array, Device device) {
  if (array.device() == device) return array;
  check_contiguous("to", array);
  runtime::refuse_in_capture("to", "copies between devices");
  Array copy = Array::empty(array.shape(), array.dtype(), device);
  const auto bytes = static_cast<size_t>(array.nbytes());
  if (array.device().kind == device.kind) {
    runtime::copy_device(write(copy), read(array), bytes);
  } else if (device.kind == DeviceKind::cpu) {
    // Earlier work of the CPU stream may still use the block that `copy` got.
    runtime::synchronize(*runtime::borrow_stream(device), "to");
    const memory::Pin pin(copy.storage());
    runtime::copy_to_host(reinterpret_cast<char*>(pin.address()) + copy.offset_bytes(), read(array), bytes, "to");
  } else {
    const auto& stream = runtime::borrow_stream(array.device());
    const memory::Use source = read(array);
    runtime::settle({&source, 1}, *stream);
    runtime::synchronize(*stream, "to");
    const memory::Pin pin(array.storage());
    runtime::copy_from_host(write(copy), reinterpret_cast<const char*>(pin.address()) + array.offset_bytes(), bytes);
  }
  return copy;
}

}  // namespace gpukit
