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

std::string Dims::str() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values_[i]);
  return text + "]";
}

Dims contiguous_strides(const Dims& shape) {
  Dims strides = Dims::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
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

int64_t checked_bytes(std::string_view op, const Dims& shape, int item_bytes) {
  bool has_zero = false;
  for (int64_t extent : shape) {
    if (extent < 0) throw ShapeError(op, "shape", "have no negative dimensions", shape.str());
    has_zero |= extent == 0;
  }
  if (has_zero) return 0;
  int64_t bytes = item_bytes;
  for (int64_t extent : shape) {
    if (bytes > INT64_MAX / extent) throw ShapeError(op, "shape", "need less than 2^63 bytes", shape.str());
    bytes *= extent;
  }
  return bytes;
}

}  // namespace gpukit
