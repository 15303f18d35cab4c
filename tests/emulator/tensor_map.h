// A tensor map as the emulated driver encodes it, in the 128 bytes of the real one.
#pragma once

#include <cstdint>

namespace emulator {

struct TensorMap {
  static constexpr int kMaxRank = 5;
  unsigned char* base;
  uint64_t shape[kMaxRank];
  uint64_t strides[kMaxRank - 1];  // bytes, from the second dimension on
  uint16_t box[kMaxRank];
  uint8_t rank, element_bytes, swizzle, to_tf32;
};
static_assert(sizeof(TensorMap) <= 128);

/// Where the 16 bytes at `address` of a row of `swizzle` (0: none, 1 to 3: 32, 64, 128 bytes) lie.
inline uint32_t swizzled(uint32_t address, int swizzle) {
  const uint32_t bits = (1u << swizzle) - 1;
  return address ^ (address >> 7 & bits) << 4;
}

}  // namespace emulator
