#include "gpukit/ops/common/operand.h"

#include "gpukit/runtime/launch_gate.h"

namespace gpukit {

void check_same_device(const char* op, const Array& a, const Array& b) {
  if (a.device() == b.device()) return;
  throw DeviceError(std::string(op) + ": b is on " + str(b.device()) + ", a is on " + str(a.device()) +
                    "; move one with x.to(device)");
}

void check_shape(const char* op, const char* argument, const Array& a, const Dims& shape) {
  if (a.shape() == shape) return;
  throw ShapeError(op, argument, "have shape " + shape.str(), a.shape().str());
}

void check_ndim(const char* op, const char* argument, const Array& a, int ndim) {
  if (a.ndim() == ndim) return;
  throw ShapeError(op, argument, "be " + std::to_string(ndim) + "D (number of dimensions)",
                   std::to_string(a.ndim()) + "D with shape " + a.shape().str());
}

void unsupported_dtype(const char* op, const char* argument, DType dtype, const char* needed) {
  throw DTypeError(op, argument, needed, name(dtype));
}

void check_floating(const char* op, const char* argument, const Array& a) {
  if (!is_floating(a.dtype())) unsupported_dtype(op, argument, a.dtype(), "have a float dtype");
}

void check_dtype(const char* op, const char* argument, const Array& a, DType dtype) {
  if (a.dtype() == dtype) return;
  throw DTypeError(op, argument, std::string("have dtype ") + name(dtype), name(a.dtype()));
}

void check_arithmetic(const char* op, const char* argument, const Array& a) {
  if (is_storage_only(a.dtype()))
    unsupported_dtype(op, argument, a.dtype(), "have an arithmetic dtype (convert it with astype)");
}

Array result(const char* op, const Array* out, const Dims& shape, DType dtype, Device device) {
  if (out == nullptr) {
    runtime::refuse_in_capture(op, "allocates its result (pass out=)");
    return Array::empty(shape, dtype, device);
  }
  check_shape(op, "out", *out, shape);
  check_dtype(op, "out", *out, dtype);
  if (!(out->device() == device))
    throw DeviceError(std::string(op) + ": out is on " + str(out->device()) + ", inputs are on " + str(device) +
                      "; move one with x.to(device)");
  if (!out->is_contiguous() && has_internal_overlap(*out))
    throw ArgumentError(op, "out", "not reach one element twice",
                        "a broadcast view of strides " + out->strides().str());
  return *out;
}

bool may_share_memory(const Array& a, const Array& b) {
  if (a.storage() != b.storage() || a.size() == 0 || b.size() == 0) return false;
  return a.offset_bytes() == b.offset_bytes() || partially_overlap(a, b);
}

bool must_buffer(const Array& out, std::initializer_list<const Array*> inputs) {
  for (const Array* input : inputs)
    if (input != nullptr && input->storage() == out.storage() && partially_overlap(out, *input)) return true;
  return false;
}

}  // namespace gpukit
