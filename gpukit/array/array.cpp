#include "gpukit/array/array.h"

#include <algorithm>
#include <cstdlib>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"

namespace gpukit {

namespace {

bool row_major(const Dims& shape, const Dims& strides) {
  int64_t expected = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 0) return true;
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= shape[axis];
  }
  return true;
}

/// Strides of `shape` over the memory of (from, strides), or false when only a copy can have that shape.
bool view_strides(const Dims& from, const Dims& strides, const Dims& shape, Dims* result) {
  *result = Dims::filled(shape.rank(), 1);
  // Size-1 axes carry no layout.
  Dims old_shape, old_strides;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (from[axis] == 1) continue;
    old_shape.push_back(from[axis]);
    old_strides.push_back(strides[axis]);
  }
  int old_begin = 0, new_begin = 0;
  while (old_begin < old_shape.rank() && new_begin < shape.rank()) {
    int old_end = old_begin + 1, new_end = new_begin + 1;
    int64_t old_count = old_shape[old_begin], new_count = shape[new_begin];
    while (old_count != new_count) {
      if (old_count < new_count) {
        if (old_end >= old_shape.rank()) return false;
        old_count *= old_shape[old_end++];
      } else {
        if (new_end >= shape.rank()) return false;
        new_count *= shape[new_end++];
      }
    }
    for (int axis = old_begin; axis + 1 < old_end; ++axis)
      if (old_strides[axis] != old_strides[axis + 1] * old_shape[axis + 1]) return false;
    int64_t stride = old_strides[old_end - 1];
    for (int axis = new_end - 1; axis >= new_begin; --axis) {
      (*result)[axis] = stride;
      stride *= shape[axis];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  return true;
}

}  // namespace

Array::Array(std::shared_ptr<memory::Storage> storage, DType dtype, const Dims& shape, const Dims& strides,
             int64_t offset_bytes)
    : storage_(std::move(storage)), shape_(shape), strides_(strides), offset_bytes_(offset_bytes), dtype_(dtype) {
  const int item = itemsize(dtype);
  size_ = checked_size("array", shape, item);
  const Reach reach = checked_reach("array", shape, strides, item);
  // Whatever made this view: none reaches past its block.
  if (size_ != 0 && (reach.low * item < -offset_bytes ||
                     offset_bytes > static_cast<int64_t>(storage_->bytes()) - (reach.high + 1) * item))
    throw OutOfRangeError("array: shape " + shape.str() + " of strides " + strides.str() + " at byte " +
                          std::to_string(offset_bytes) + " is out of range for a block of " +
                          std::to_string(storage_->bytes()) + " bytes");
  contiguous_ = row_major(shape, strides);
}

Array Array::empty(const Dims& shape, DType dtype, Device device) {
  runtime::refuse_in_capture("empty", "allocates memory (pass out=)");
  const size_t bytes = static_cast<size_t>(checked_bytes("empty", shape, itemsize(dtype)));
  runtime::DeviceState& state = runtime::open_device(device);
  state.health.check();
  return Array(memory::Storage::allocate(*state.resource, bytes, runtime::borrow_stream(device),
                                         runtime::current_account(device)),
               dtype, shape, contiguous_strides(shape), 0);
}

Array Array::empty(const Dims& shape, DType dtype) { return empty(shape, dtype, runtime::default_device()); }

Array Array::empty_like(const Array& other) { return empty(other.shape(), other.dtype(), other.device()); }

int64_t Array::shape(int axis) const { return shape_[normalize_axis("shape", axis, ndim())]; }

void* Array::host_data() const {
  if (device().kind != DeviceKind::cpu)
    throw DeviceError("host_data: the array is on " + str(device()) + "; its memory is not the host's");
  return reinterpret_cast<char*>(storage_->pin()) + offset_bytes_;
}

bool Array::can_view(const Dims& shape) const {
  if (checked_size("view", shape, itemsize(dtype_)) != size_) return false;
  Dims strides;
  return size_ == 0 || view_strides(shape_, strides_, shape, &strides);
}

Array Array::reshape_view(const Dims& shape) const {
  if (checked_size("view", shape, itemsize(dtype_)) != size_)
    throw ShapeError("view", "shape", "hold " + std::to_string(size_) + " elements", shape.str());
  Dims strides = contiguous_strides(shape);
  if (size_ != 0 && !contiguous_ && !view_strides(shape_, strides_, shape, &strides))
    throw ShapeError("view", "shape",
                     "fit the strides " + strides_.str() + " of shape " + shape_.str() + " (reshape copies instead)",
                     shape.str());
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::permute(const Dims& axes) const {
  if (axes.rank() != ndim())
    throw ShapeError("transpose", "axes", "name each of the " + std::to_string(ndim()) + " axes once", axes.str());
  Dims shape = shape_, strides = strides_;
  unsigned seen = 0;
  for (int i = 0; i < ndim(); ++i) {
    int axis = normalize_axis("transpose", axes[i], ndim());
    if ((seen >> axis) & 1u)
      throw ShapeError("transpose", "axes", "name each of the " + std::to_string(ndim()) + " axes once", axes.str());
    seen |= 1u << axis;
    shape[i] = shape_[axis];
    strides[i] = strides_[axis];
  }
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::transpose() const {
  Dims axes = Dims::filled(ndim(), 0);
  for (int i = 0; i < ndim(); ++i) axes[i] = ndim() - 1 - i;
  return permute(axes);
}

Array Array::slice(int axis, int64_t start, int64_t stop, int64_t step) const {
  axis = normalize_axis("slice", axis, ndim());
  if (step == 0) throw ArgumentError("slice", "step", "be non-zero", "0");
  const bool some = step > 0 ? start < stop : start > stop;
  const uint64_t span = some ? static_cast<uint64_t>(step > 0 ? stop - start : start - stop) : 0;
  const uint64_t size = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const int64_t count = some ? static_cast<int64_t>((span - 1) / size + 1) : 0;
  Dims shape = shape_, strides = strides_;
  shape[axis] = count;
  // Of one element or none the step means nothing, and may be as large as it likes.
  if (count > 1) strides[axis] = strides_[axis] * step;
  int64_t offset = count == 0 ? 0 : start * strides_[axis] * itemsize(dtype_);
  return Array(storage_, dtype_, shape, strides, offset_bytes_ + offset);
}

Array Array::select(int axis, int64_t index) const {
  axis = normalize_axis("index", axis, ndim());
  int64_t at = index < 0 ? index + shape_[axis] : index;
  if (at < 0 || at >= shape_[axis]) throw OutOfRangeError("index", index, shape_[axis]);
  Dims shape = shape_, strides = strides_;
  int64_t offset = at * strides_[axis] * itemsize(dtype_);
  shape.erase(axis);
  strides.erase(axis);
  return Array(storage_, dtype_, shape, strides, offset_bytes_ + offset);
}

Array Array::expand_dims(int axis) const {
  axis = normalize_axis("expand_dims", axis, ndim() + 1);
  Dims shape = shape_, strides = strides_;
  shape.insert(axis, 1);
  strides.insert(axis, axis < ndim() ? strides_[axis] * shape_[axis] : 1);
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::squeeze(int axis) const {
  axis = normalize_axis("squeeze", axis, ndim());
  if (shape_[axis] != 1)
    throw ShapeError("squeeze", "axis", "have size 1", std::to_string(axis) + " of shape " + shape_.str());
  Dims shape = shape_, strides = strides_;
  shape.erase(axis);
  strides.erase(axis);
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::squeeze() const {
  Dims shape, strides;
  for (int axis = 0; axis < ndim(); ++axis) {
    if (shape_[axis] == 1) continue;
    shape.push_back(shape_[axis]);
    strides.push_back(strides_[axis]);
  }
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::broadcast_to(const Dims& shape) const {
  int added = shape.rank() - ndim();
  Dims strides = Dims::filled(shape.rank(), 0);
  bool fits = added >= 0;
  for (int axis = 0; fits && axis < ndim(); ++axis) {
    int64_t want = shape[axis + added];
    fits = shape_[axis] == want || shape_[axis] == 1;
    strides[axis + added] = shape_[axis] == want ? strides_[axis] : 0;
  }
  if (!fits) throw ShapeError("broadcast_to", "shape", "be one that " + shape_.str() + " broadcasts to", shape.str());
  return Array(storage_, dtype_, shape, strides, offset_bytes_);
}

Array Array::narrow(int axis, int64_t start, int64_t length) const {
  axis = normalize_axis("narrow", axis, ndim());
  if (start < 0 || length < 0 || start > shape_[axis] - length)
    throw OutOfRangeError("narrow: " + std::to_string(length) + " elements from " + std::to_string(start) +
                          " are out of range for an axis of size " + std::to_string(shape_[axis]));
  return slice(axis, start, start + length, 1);
}

Array Array::bitcast(DType dtype) const {
  int from = itemsize(dtype_), to = itemsize(dtype);
  if (from == to) return Array(storage_, dtype, shape_, strides_, offset_bytes_);
  if (ndim() == 0 || (shape_[ndim() - 1] != 1 && strides_[ndim() - 1] != 1))
    throw DTypeError("bitcast", "dtype",
                     std::string("have the item size of ") + name(dtype_) + " unless the last axis is contiguous",
                     name(dtype));
  Dims shape = shape_, strides = strides_;
  int last = ndim() - 1;
  int64_t bytes = shape_[last] * from;
  bool fits = bytes % to == 0 && offset_bytes_ % to == 0;
  for (int axis = 0; axis < last; ++axis) {
    fits = fits && strides_[axis] * from % to == 0;
    strides[axis] = strides_[axis] * from / to;
  }
  if (!fits) throw ShapeError("bitcast", "shape", std::string("divide into items of ") + name(dtype), shape_.str());
  shape[last] = bytes / to;
  strides[last] = 1;
  return Array(storage_, dtype, shape, strides, offset_bytes_);
}

namespace {

/// First and one-past-last byte the view touches.
void extent(const Array& a, int64_t* begin, int64_t* end) {
  const int item = itemsize(a.dtype());
  const Reach reach = checked_reach("overlap", a.shape(), a.strides(), item);
  *begin = a.offset_bytes() + reach.low * item;
  *end = a.offset_bytes() + (reach.high + 1) * item;
}

}  // namespace

bool partially_overlap(const Array& a, const Array& b) {
  if (a.storage() != b.storage() || a.size() == 0 || b.size() == 0) return false;
  if (a.offset_bytes() == b.offset_bytes() && a.dtype() == b.dtype() && a.shape() == b.shape()) {
    bool same = true;
    for (int axis = 0; axis < a.ndim(); ++axis)
      same = same && (a.shape()[axis] == 1 || a.strides()[axis] == b.strides()[axis]);
    if (same) return false;
  }
  int64_t a_begin, a_end, b_begin, b_end;
  extent(a, &a_begin, &a_end);
  extent(b, &b_begin, &b_end);
  return a_begin < b_end && b_begin < a_end;
}

bool has_internal_overlap(const Array& a) {
  if (a.is_contiguous() || a.size() <= 1) return false;
  // Sorted by stride, each axis must step past everything the smaller ones reach.
  Dims order;
  for (int axis = 0; axis < a.ndim(); ++axis)
    if (a.shape()[axis] > 1) order.push_back(axis);
  std::sort(order.begin(), order.end(),
            [&](int64_t x, int64_t y) { return std::abs(a.strides()[x]) < std::abs(a.strides()[y]); });
  int64_t reach = 0;
  for (int64_t axis : order) {
    int64_t stride = std::abs(a.strides()[axis]);
    if (stride <= reach) return true;
    reach += stride * (a.shape()[axis] - 1);
  }
  return false;
}

}  // namespace gpukit
