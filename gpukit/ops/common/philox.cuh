// Philox4x32-10: random words as a pure function of (seed, offset, block). Host and device give the same words.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit::random {

struct Words {
  uint32_t v[4];
};

/// The key is the seed; the counter is the block (low half) and the offset (high half).
GPUKIT_DEVICE Words philox(uint64_t seed, uint64_t offset, uint64_t block) {
  uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xd2511f53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xcd9e8d57u) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// A block holds four words of 32 bits, or two of 64.
template <typename Word>
struct Draws;
template <>
struct Draws<uint32_t> {
  static constexpr int kPerBlock = 4;
  static GPUKIT_DEVICE uint32_t word(const Words& words, int i) { return words.v[i]; }
};
template <>
struct Draws<uint64_t> {
  static constexpr int kPerBlock = 2;
  static GPUKIT_DEVICE uint64_t word(const Words& words, int i) {
    return static_cast<uint64_t>(words.v[2 * i + 1]) << 32 | words.v[2 * i];
  }
};

/// The upper half of a 64 by 64 bit product.
GPUKIT_DEVICE uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = static_cast<uint32_t>(a), a1 = a >> 32, b0 = static_cast<uint32_t>(b), b1 = b >> 32;
  const uint64_t low = a0 * b0;
  const uint64_t m1 = a1 * b0 + (low >> 32);
  const uint64_t m2 = a0 * b1 + static_cast<uint32_t>(m1);
  return a1 * b1 + (m1 >> 32) + (m2 >> 32);
}

/// Parameters of a uniform real in [low, high).
template <typename C>
struct UniformRange {
  C low, high, span;
  C below;  // the largest value of the dtype below `high`, for a rounding that would reach it
};

/// low + n for a uniform n in [0, count); a count of 0 means 2^64.
struct IntegerRange {
  uint64_t low, count;
};

GPUKIT_DEVICE uint64_t uniform_integer(uint64_t word, const IntegerRange& range) {
  return range.low + (range.count == 0 ? word : multiply_high(word, range.count));
}

}  // namespace gpukit::random
