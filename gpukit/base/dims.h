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
  /// Product of all values; 1 for rank 0. Throws ShapeError when it does not fit.
  int64_t product() const {
    int64_t p = 1;
    for (int64_t v : *this)
      if (__builtin_mul_overflow(p, v, &p)) [[unlikely]]
        throw_too_large();
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
  [[noreturn]] void throw_too_large() const;

  int rank_ = 0;
  int64_t values_[kMaxRank] = {};
};

/// No array addresses as many bytes, so that twice a size and a size rounded up still fit.
inline constexpr int64_t kMaxBytes = int64_t{1} << 62;

/// Row-major strides in elements. Throws ShapeError when they do not fit.
Dims contiguous_strides(const Dims& shape);
/// NumPy broadcasting of two shapes. Throws ShapeError naming `op`.
Dims broadcast_shapes(std::string_view op, const Dims& a, const Dims& b);
/// -rank..rank-1 to 0..rank-1. Throws OutOfRangeError naming `op`.
int normalize_axis(std::string_view op, int64_t axis, int rank);
/// a * b and a + b of sizes. Each throws ShapeError naming `op` for kMaxBytes and more, and for negative ones.
int64_t checked_product(std::string_view op, int64_t a, int64_t b);
int64_t checked_sum(std::string_view op, int64_t a, int64_t b);
/// Elements of an array of this shape. Throws ShapeError naming `op` for a negative extent or kMaxBytes and more. An
/// extent of 0 counts as 1 there, so that the product of any of the extents fits.
int64_t checked_size(std::string_view op, const Dims& shape, int item_bytes);
int64_t checked_bytes(std::string_view op, const Dims& shape, int item_bytes);
/// `shape` with its one -1, if any, replaced. Throws ShapeError naming `op` unless it holds `size` elements.
Dims fill_in_size(std::string_view op, const Dims& shape, int64_t size);

/// Lowest and highest element of a view, counted from its first one: 0 for both without elements.
struct Reach {
  int64_t low = 0, high = 0;
};
/// Throws ShapeError naming `op` unless both lie less than kMaxBytes away.
Reach checked_reach(std::string_view op, const Dims& shape, const Dims& strides, int item_bytes);

}  // namespace gpukit
