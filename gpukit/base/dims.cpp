#include "gpukit/base/dims.h"

#include <algorithm>
#include <string_view>

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

[[noreturn]] void too_many_axes(size_t rank) {
  throw ShapeError("shape: an array has at most " + std::to_string(kMaxRank) + " dimensions, got " +
                   std::to_string(rank));
}

[[noreturn]] void bad_axis(int64_t axis, int rank) {
  throw OutOfRangeError("axis " + std::to_string(axis) + " is out of bounds for an array of dimension " +
                        std::to_string(rank));
}

[[noreturn]] void too_large(std::string_view op, const Dims& shape) {
  throw ShapeError(op, "shape", "need less than 2^62 bytes", shape.str());
}

[[noreturn]] void too_large(std::string_view op, int64_t a, const char* between, int64_t b) {
  throw ShapeError(op, "size", "be between 0 and 2^62", std::to_string(a) + between + std::to_string(b));
}

}  // namespace

Dims::Dims(std::span<const int64_t> values) {
  if (values.size() > kMaxRank) too_many_axes(values.size());
  rank_ = static_cast<int>(values.size());
  std::copy(values.begin(), values.end(), values_);
}

Dims Dims::filled(int rank, int64_t value) {
  if (rank < 0 || rank > kMaxRank) too_many_axes(static_cast<size_t>(rank));
  Dims dims;
  dims.rank_ = rank;
  std::fill(dims.begin(), dims.end(), value);
  return dims;
}

void Dims::push_back(int64_t value) {
  if (rank_ == kMaxRank) too_many_axes(kMaxRank + 1);
  values_[rank_++] = value;
}

void Dims::insert(int axis, int64_t value) {
  if (axis < 0 || axis > rank_) bad_axis(axis, rank_);
  if (rank_ == kMaxRank) too_many_axes(kMaxRank + 1);
  std::copy_backward(values_ + axis, values_ + rank_, values_ + rank_ + 1);
  values_[axis] = value;
  ++rank_;
}

void Dims::erase(int axis) {
  if (axis < 0 || axis >= rank_) bad_axis(axis, rank_);
  std::copy(values_ + axis + 1, values_ + rank_, values_ + axis);
  values_[--rank_] = 0;
}

void Dims::throw_too_large() const { too_large("shape", *this); }

std::string Dims::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values_[i]);
  return text + "]";
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = Dims::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i)
    if (__builtin_mul_overflow(strides[i + 1], std::max<int64_t>(shape[i + 1], 1), &strides[i])) [[unlikely]]
      too_large("shape", shape);
  return strides;
}

Dims broadcast_shapes(std::string_view op, const Dims& a, const Dims& b) {
  const int rank = std::max(a.rank(), b.rank());
  Dims out = Dims::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw ShapeError(std::string(op) + ": arrays must have the same shape or shapes that broadcast, got " + a.str() +
                       " and " + b.str());
    out[rank - i] = x == 1 ? y : x;
  }
  return out;
}

int normalize_axis(std::string_view op, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw OutOfRangeError(std::string(op) + ": axis " + std::to_string(axis) +
                          " is out of bounds for an array of dimension " + std::to_string(rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

int64_t checked_product(std::string_view op, int64_t a, int64_t b) {
  int64_t product;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) || product >= kMaxBytes) too_large(op, a, " * ", b);
  return product;
}

int64_t checked_sum(std::string_view op, int64_t a, int64_t b) {
  int64_t sum;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) || sum >= kMaxBytes) too_large(op, a, " + ", b);
  return sum;
}

int64_t checked_size(std::string_view op, const Dims& shape, int item_bytes) {
  int64_t size = 1, bytes = 0;
  bool empty = false, overflow = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw ShapeError(op, "shape", "have no negative dimensions", shape.str());
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(size, extent + (extent == 0), &size);
  }
  overflow |= __builtin_mul_overflow(size, int64_t{item_bytes}, &bytes);
  if (overflow || bytes >= kMaxBytes) too_large(op, shape);
  return empty ? 0 : size;
}

int64_t checked_bytes(std::string_view op, const Dims& shape, int item_bytes) {
  return checked_size(op, shape, item_bytes) * item_bytes;
}

Dims fill_in_size(std::string_view op, const Dims& shape, int64_t size) {
  Dims full = shape;
  int unknown = -1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] >= 0) continue;
    if (shape[axis] != -1 || unknown >= 0)
      throw ShapeError(op, "shape", "have no negative size but one -1", shape.str());
    unknown = axis;
  }
  if (unknown >= 0) full[unknown] = 1;
  const int64_t known = checked_size(op, full, 1);
  if (unknown >= 0) {
    if (known == 0 || size % known != 0)
      throw ShapeError(op, "shape", "divide " + std::to_string(size) + " elements", shape.str());
    full[unknown] = size / known;
  } else if (known != size) {
    throw ShapeError(op, "shape", "hold " + std::to_string(size) + " elements", shape.str());
  }
  return full;
}

Reach checked_reach(std::string_view op, const Dims& shape, const Dims& strides, int item_bytes) {
  if (shape.rank() != strides.rank())
    throw ShapeError(op, "strides", "be as many as the " + std::to_string(shape.rank()) + " dimensions", strides.str());
  Reach reach;
  bool overflow = false;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 0) return {};
    int64_t step = 0;
    overflow |= __builtin_mul_overflow(shape[axis] - 1, strides[axis], &step);
    int64_t& end = step < 0 ? reach.low : reach.high;
    overflow |= __builtin_add_overflow(end, step, &end);
  }
  int64_t low = 0, high = 0;
  overflow |= __builtin_mul_overflow(reach.low, int64_t{item_bytes}, &low);
  overflow |= __builtin_mul_overflow(reach.high, int64_t{item_bytes}, &high);
  if (overflow || low <= -kMaxBytes || high >= kMaxBytes)
    throw ShapeError(op, "strides", "reach less than 2^62 bytes", strides.str() + " of shape " + shape.str());
  return reach;
}

}  // namespace gpukit
