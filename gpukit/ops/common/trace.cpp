#include "gpukit/ops/common/trace.h"

#include <algorithm>
#include <cstring>

#include "gpukit/memory/stand_in.h"
#include "gpukit/runtime/device.h"

namespace gpukit {

namespace {

/// A block of no memory for an array; of the smallest size for one without elements.
Array stand_in(const Dims& shape, DType dtype, Device device) {
  const auto bytes = static_cast<size_t>(checked_bytes("fuse", shape, itemsize(dtype)));
  return Array(memory::make_stand_in(runtime::open_device(device).context, std::max<size_t>(bytes, 1)), dtype, shape,
               contiguous_strides(shape), 0);
}

/// Whether `array` is the whole of what lies row-major in `shape`, broadcast or not, with axes in place.
bool is_whole(const Array& array, const Dims& shape) {
  if (array.offset_bytes() != 0) return false;
  const Dims strides = contiguous_strides(shape);
  for (int k = 1; k <= std::max(array.ndim(), shape.rank()); ++k) {
    const int mine = array.ndim() - k, its = shape.rank() - k;
    if (mine < 0) {
      if (shape[its] != 1) return false;
      continue;
    }
    const int64_t extent = array.shape()[mine], stride = array.strides()[mine];
    if (its >= 0 && extent == shape[its] && (extent == 1 || stride == strides[its])) continue;
    if ((its < 0 || shape[its] == 1) && (extent == 1 || stride == 0)) continue;
    return false;
  }
  return true;
}

}  // namespace

std::string functor_of(const std::string& kernel) {
  const size_t begin = kernel.find('<') + 1;
  return kernel.substr(begin, kernel.rfind('>') - begin);
}

void Trace::refuse(const std::string& why) const { runtime::fail_trace(*this, op != nullptr ? op : "result", why); }

Array Trace::argument(const Dims& shape, DType dtype, Device device) {
  Array array = stand_in(shape, dtype, device);
  values_.push_back({dtype, shape, -1});
  held_[array.storage().get()] = {array.storage(), dtype, shape, static_cast<int>(values_.size()) - 1, true};
  return array;
}

Array Trace::make(const char* name, const Dims& shape, DType dtype, Device device) {
  op = name;
  Array array = stand_in(shape, dtype, device);
  held_[array.storage().get()] = {array.storage(), dtype, shape, -1, false};
  return array;
}

int Trace::value_of(const Array& array) const {
  const auto found = held_.find(array.storage().get());
  if (found == held_.end()) refuse("takes an array that is no argument of the function; pass it as one");
  const Held& held = found->second;
  if (held.dtype != array.dtype() || !is_whole(array, held.shape))
    refuse("takes a view of an array (a slice, a transpose, other axes); make it before and pass it as an argument");
  if (held.value < 0) refuse("is not elementwise");
  return held.value;
}

void Trace::push(const Array& out, TraceNode&& node) {
  const auto found = held_.find(out.storage().get());
  if (found == held_.end()) refuse("writes into an array that is no argument of the function");
  Held& held = found->second;
  if (held.is_argument) refuse("writes into an argument of the function in place");
  if (held.dtype != out.dtype() || !(held.shape == out.shape()) || !is_whole(out, held.shape))
    refuse("writes a part of an array in place");
  node.value = static_cast<int>(values_.size());
  values_.push_back({out.dtype(), out.shape(), static_cast<int>(nodes_.size())});
  nodes_.push_back(std::move(node));
  held.value = node.value;
}

void Trace::add(const Array& out, std::initializer_list<const Array*> inputs, const std::string& functor,
                const std::string& source, const MapArgs& args, bool reads_args) {
  TraceNode node;
  for (const Array* array : inputs) {
    node.inputs[node.num_inputs++] = input(array);
    reads_args = reads_args || array == nullptr;
  }
  static const MapArgs kNone = {};
  node.reads_args = reads_args || std::memcmp(args.scalars, kNone.scalars, sizeof args.scalars) != 0;
  node.functor = functor;
  node.source = source;
  node.args = args;
  push(out, std::move(node));
}

void Trace::add(const Array& out, std::initializer_list<ElementInput> inputs, cpu::RowFunction row) {
  TraceNode node;
  for (const ElementInput& each : inputs) {
    node.scalars[node.num_inputs] = each.scalar;
    node.inputs[node.num_inputs++] = input(each.array);
  }
  node.row = row;
  push(out, std::move(node));
}

}  // namespace gpukit
