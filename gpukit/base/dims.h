// Short fixed-capacity integer vector for shapes and strides: no heap, trivially copyable.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace gpukit {

inline constexpr int kMaxRank = 8;

class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  /// Throws ShapeError for more than kMaxRank values.
  explicit Dims(std::span<const int64_t> values);
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  int size() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int axis) const { return values_[axis]; }
  int64_t& operator[](int axis) { return values_[axis]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + rank_; }
  int64_t* begin() { return values_; }
  int64_t* end() { return values_ + rank_; }
  const int64_t* data() const { return values_; }
  void push_back(int64_t value);
  void insert(int axis, int64_t value);
  void erase(int axis);
  /// Product of all values; 1 for rank 0.
  int64_t product() const {
    int64_t p = 1;
    for (int64_t v : *this) p *= v;
    return p;
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.values_[i] != b.values_[i]) return false;
    return true;
  }
  /// `[2, 3]`
  std::string str() const;

 private:
  int rank_ = 0;
  int64_t values_[kMaxRank] = {};
};

/// Row-major strides in elements.
Dims contiguous_strides(const Dims& shape);
/// NumPy broadcasting of two shapes. Throws ShapeError naming `op`.
Dims broadcast_shapes(std::string_view op, const Dims& a, const Dims& b);
/// -rank..rank-1 to 0..rank-1. Throws OutOfRangeError naming `op`.
int normalize_axis(std::string_view op, int64_t axis, int rank);
/// Bytes of an array of this shape. Throws ShapeError naming `op` for a negative extent or 2^63 bytes and more.
int64_t checked_bytes(std::string_view op, const Dims& shape, int item_bytes);

}  // namespace gpukit
