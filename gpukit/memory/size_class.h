// Sizes of small blocks: multiples of 256 bytes, eight steps per doubling, so that rounding wastes an eighth at most.
#pragma once

#include <bit>
#include <cstddef>

namespace gpukit::memory {

inline constexpr size_t kBlockStep = 256;
inline constexpr size_t kSmallLimit = size_t{1} << 20;
inline constexpr size_t kPageUnit = size_t{2} << 20;
inline constexpr int kNumClasses = 80;
inline constexpr int kStepsPerDoubling = 8;

/// The class of 1 to kSmallLimit bytes.
constexpr int size_class(size_t bytes) {
  if (bytes <= kBlockStep * kStepsPerDoubling) return static_cast<int>((bytes - 1) / kBlockStep);
  const int top = std::bit_width(bytes - 1) - 1;
  return (top - 11) * kStepsPerDoubling + static_cast<int>((bytes - 1) >> (top - 3));
}

constexpr size_t class_bytes(int index) {
  if (index < kStepsPerDoubling) return static_cast<size_t>(index + 1) * kBlockStep;
  const int doubling = index / kStepsPerDoubling - 1, step = index % kStepsPerDoubling;
  return (size_t{2048} << doubling) + (static_cast<size_t>(step + 1) << (8 + doubling));
}

/// Pages of a slab: 2 MiB, or a few times that where blocks of this class would leave more than a sixteenth unused.
constexpr size_t slab_bytes(int index) {
  const size_t block = class_bytes(index);
  size_t best = kPageUnit;
  for (size_t units = 1; units <= 4; ++units) {
    const size_t bytes = units * kPageUnit;
    if (bytes % block * 16 <= bytes) return bytes;
    if (bytes % block * best < best % block * bytes) best = bytes;
  }
  return best;
}

constexpr size_t round_up(size_t bytes, size_t step) { return (bytes + step - 1) / step * step; }

static_assert(class_bytes(kNumClasses - 1) == kSmallLimit && size_class(kSmallLimit) == kNumClasses - 1);
static_assert(size_class(2049) == 8 && class_bytes(8) == 2304 && size_class(1) == 0 && size_class(2048) == 7);

}  // namespace gpukit::memory
