// A chain of 128 numbers of bfloat16 as two quantised values of e4m3 each, for w8a16_fp8x2_sm90.
#pragma once
#include "gpukit/ops/matmul/quantized/dequantise.cuh"

namespace gpukit {

/// Of pairs of bfloat16: the larger magnitudes, of any sign; NaN where one is.
GPUKIT_DEVICE uint32_t larger_magnitudes(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
GPUKIT_DEVICE uint32_t subtract_pairs(uint32_t a, uint32_t b) {
  uint32_t r;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}
/// The e4m3 of 2^120 times each number of two pairs of bfloat16, the bits that it has none for cut off: below 2^-112 a
/// bfloat16 has the bits of its e4m3, those of magnitude four places further to the right. `signs` have theirs alone.
GPUKIT_DEVICE uint32_t cut_to_e4m3(const uint32_t (&pairs)[2], const uint32_t (&signs)[2]) {
  return pick_bytes((pairs[0] << 4) + signs[0], (pairs[1] << 4) + signs[1], 0x7531);  // one instruction each
}

/// A chain of eight tokens in the lanes of a warp: a lane has 32 numbers of its token, as have three others, kApart,
/// 2 kApart and 3 kApart from it.
template <int kApart>
struct SplitChain {
  uint32_t pairs[4][4], power;
  uint32_t factor;  // what sums of its quantised values are multiplied by, as a float

  /// Brings the largest of each token below 256, times 2^-120.
  GPUKIT_DEVICE void scale() {
    constexpr uint32_t kOne = 0x3f803f80u, kTiny = 0x06800680u;  // 2^-114
    constexpr int kTinyExponent = 114, kMostExponent = 140, kNotFinite = 255;
    uint32_t top[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      top[i] =
          larger_magnitudes(larger_magnitudes(pairs[0][i], pairs[1][i]), larger_magnitudes(pairs[2][i], pairs[3][i]));
    uint32_t largest = larger_magnitudes(larger_magnitudes(top[0], top[1]), larger_magnitudes(top[2], top[3]));
#pragma unroll
    for (int apart = kApart; apart <= 2 * kApart; apart *= 2)
      largest = larger_magnitudes(largest, __shfl_xor_sync(0xffffffffu, largest, apart));

    // The exponent of the largest, as it stands in its bits, becomes 14.
    int exponent = max(max(static_cast<int>(largest >> 7 & 0xff), static_cast<int>(largest >> 23 & 0xff)), 1);
    factor = exponent == kNotFinite ? 0x7fffffffu : exponent > 7 ? (exponent - 7) << 23 : 0x400000 >> (7 - exponent);
    const bool large = exponent > kMostExponent;  // too large for one product
    if (__any_sync(0xffffffffu, large)) {
#pragma unroll
      for (int i = 0; i < 16; ++i)
        pairs[i / 4][i % 4] = PairMath<bfloat16>::multiply(pairs[i / 4][i % 4], large ? kTiny : kOne);
      if (large) exponent -= kTinyExponent + (exponent == kNotFinite ? 1 : 0);
    }
    power = static_cast<uint32_t>(141 - exponent) * 0x800080u;
  }

  /// The two quantised values of each of 16 numbers.
  GPUKIT_DEVICE void split(int half, uint32_t (&first)[4], uint32_t (&second)[4]) const {
    constexpr uint32_t kSixteen = 0x41804180u;
    using Math = PairMath<bfloat16>;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t whole[2], rest[2], signs[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        whole[j] = Math::multiply(pairs[half * 2 + i / 2][i % 2 * 2 + j], power);
        rest[j] = Math::multiply(subtract_pairs(whole[j], whole[j] & 0xfff0fff0u), kSixteen);
        signs[j] = whole[j] & 0x80008000u;
      }
      first[i] = cut_to_e4m3(whole, signs);
      second[i] = cut_to_e4m3(rest, signs);
    }
  }
};

}  // namespace gpukit
