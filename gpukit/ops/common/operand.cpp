#include "gpukit/ops/common/operand.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "gpukit/ops/common/trace.h"
#include "gpukit/runtime/launch_gate.h"

namespace gpukit {

namespace {

/// An axis of the grid that two views are parts of: the second begins `from` steps after the first.
struct GridAxis {
  int64_t stride, first, second, from;
};

/// With the second view's place known on every axis: the parts do not meet, and no element of the grid stands twice.
bool parts_are_apart(const std::vector<GridAxis>& axes) {
  bool apart = false;
  int64_t reach = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    apart = apart || axis->from >= axis->first || -axis->from >= axis->second;
    const int64_t steps = std::max(axis->first, axis->from + axis->second) - std::min<int64_t>(0, axis->from) - 1;
    if (steps > 0 && std::abs(axis->stride) <= reach) return false;
    reach += std::abs(axis->stride) * steps;
  }
  return apart;
}

/// `distance`: from the first element of the one to that of the other, in elements.
bool find_parts(std::vector<GridAxis>& axes, size_t axis, int64_t distance) {
  if (axis == axes.size()) return distance == 0 && parts_are_apart(axes);
  const int64_t nearest = distance / axes[axis].stride;
  for (const int64_t from : {nearest, nearest - 1, nearest + 1}) {
    axes[axis].from = from;
    if (find_parts(axes, axis + 1, distance - from * axes[axis].stride)) return true;
  }
  return false;
}

}  // namespace

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
  if (Trace* trace = current_trace()) [[unlikely]] {
    if (out == nullptr) return trace->make(op, shape, dtype, device);
    trace->op = op;
  }
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

bool begin_together(const Array& a, const Array& b) {
  return a.storage() == b.storage() && a.offset_bytes() == b.offset_bytes();
}

bool lie_apart(const Array& a, const Array& b) {
  if (!may_share_memory(a, b)) return true;
  const int64_t item = itemsize(a.dtype()), bytes = b.offset_bytes() - a.offset_bytes();
  if (a.dtype() != b.dtype() || a.ndim() != b.ndim() || bytes % item != 0) return false;
  std::vector<GridAxis> axes;
  for (int i = 0; i < a.ndim(); ++i) {
    const int64_t first = a.shape()[i], second = b.shape()[i];
    if (first == 1 && second == 1) continue;
    if (first != 1 && second != 1 && a.strides()[i] != b.strides()[i]) return false;
    const int64_t stride = first != 1 ? a.strides()[i] : b.strides()[i];
    if (stride == 0) return false;
    axes.push_back({stride, first, second, 0});
  }
  std::sort(axes.begin(), axes.end(),
            [](const GridAxis& x, const GridAxis& y) { return std::abs(x.stride) > std::abs(y.stride); });
  return find_parts(axes, 0, bytes / item);
}

bool must_buffer(const Array& out, std::initializer_list<const Array*> inputs) {
  for (const Array* input : inputs)
    if (input != nullptr && input->storage() == out.storage() && partially_overlap(out, *input)) return true;
  return false;
}

}  // namespace gpukit
