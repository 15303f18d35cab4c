// Quantised values of weights to the 16-bit floats that the tensor cores multiply. Every conversion here is exact.
//
// A step is 16 of k. A lane of a quad holds the same 4 of these for the weights and for the tokens; which 4, and in
// which pairs, is free, because a product of fragments adds the 16 products of a step at once.
#pragma once
#include "gpukit/ops/common/mma.cuh"

namespace gpukit {

/// Two quantised values to a byte, the even k in the low nibble: two's complement, and floats of 2 bits of exponent and
/// 1 of mantissa.
struct packed_int4 {
  uint8_t bits;
};
struct packed_e2m1 {
  uint8_t bits;
};
template <typename W>
inline constexpr bool is_int4 = false;
template <>
inline constexpr bool is_int4<packed_int4> = true;
template <typename W>
inline constexpr bool is_e2m1 = false;
template <>
inline constexpr bool is_e2m1<packed_e2m1> = true;

/// What the tensor cores multiply, given the type of the tokens.
template <typename X>
struct TokenMath {
  using type = X;
};
template <>
struct TokenMath<float8_e4m3> {
  using type = half;
};

/// Copies the first `bytes` (0 to 4) of 4 aligned bytes and fills the rest with zeros.
GPUKIT_DEVICE void copy_word_async(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(bytes) : "memory");
}
/// Words from shared memory.
GPUKIT_DEVICE uint32_t load_word(uint32_t shared) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(shared) : "memory");
  return v;
}
GPUKIT_DEVICE void store_word(uint32_t shared, uint32_t v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared), "r"(v) : "memory");
}
/// 16 bits, the rest of the register zero.
GPUKIT_DEVICE uint32_t load_short(uint32_t shared) {
  uint32_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=r"(v) : "r"(shared) : "memory");
  return v;
}

/// Pairs of T in one register, the first in its low half.
template <typename T>
struct PairMath;
template <>
struct PairMath<half> {
  static GPUKIT_DEVICE uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
  }
  static GPUKIT_DEVICE uint32_t add(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    return r;
  }
  static GPUKIT_DEVICE uint32_t pack(float low, float high) {
    uint32_t r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};
template <>
struct PairMath<bfloat16> {
  static GPUKIT_DEVICE uint32_t multiply(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(0x80008000u));
    return r;
  }
  static GPUKIT_DEVICE uint32_t add(uint32_t a, uint32_t b) {
    uint32_t r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(0x3f803f80u), "r"(b));
    return r;
  }
  static GPUKIT_DEVICE uint32_t pack(float low, float high) {
    uint32_t r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
};

template <uint32_t kMask, uint32_t kFlip>
GPUKIT_DEVICE uint32_t and_xor(uint32_t a) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(r) : "r"(a), "n"(kMask), "n"(kFlip));
  return r;
}
template <uint32_t kMask, uint32_t kSet>
GPUKIT_DEVICE uint32_t and_or(uint32_t a) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "n"(kMask), "n"(kSet));
  return r;
}
template <uint32_t kMask, uint32_t kOther>
GPUKIT_DEVICE uint32_t merge_bits(uint32_t a, uint32_t b) {
  return (a & kMask) | (b & kOther);
}

/// Two quantised values of e4m3, in bytes `kFirst` and the next, as a pair of half.
template <int kFirst>
GPUKIT_DEVICE uint32_t e4m3_to_half(uint32_t word) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
  static_assert(kFirst == 0 || kFirst == 2);
  uint32_t r;
  if constexpr (kFirst == 0)
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low;}" : "=r"(r) : "r"(word));
  else
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high;}" : "=r"(r) : "r"(word));
  return r;
#else
  const uint32_t v = pick_bytes(word, 0, kFirst == 0 ? 0x1404 : 0x3424);  // the quantised values in the high bytes
  const uint32_t number = PairMath<half>::multiply(merge_bits<0x3f803f80u, 0x80008000u>(v >> 1, v), 0x5c005c00u);
  const uint32_t nan = ((v & 0x7f007f00u) + 0x01000100u) >> 15 & 0x00010001u;
  return number | nan * 0x7fffu;
#endif
}
template <typename T>
GPUKIT_DEVICE uint32_t from_half_pair(uint32_t pair);
template <>
GPUKIT_DEVICE uint32_t from_half_pair<half>(uint32_t pair) {
  return pair;
}
template <>
GPUKIT_DEVICE uint32_t from_half_pair<bfloat16>(uint32_t pair) {
  return PairMath<bfloat16>::pack(to_float(half{static_cast<uint16_t>(pair)}),
                                  to_float(half{static_cast<uint16_t>(pair >> 16)}));
}

/// Weights<W, T>: quantised values of type W as numbers of type T. `kSteps` steps of k lie in 32 bytes of a row.
/// decode() gives the two registers of one lane's 4 numbers of a step, pair() that of the two quantised values in the
/// low half of a word.
template <typename W, typename T>
struct Weights;

/// 4 numbers in a word: (0, 1) and (2, 3).
template <typename T>
struct Weights<float8_e4m3, T> {
  static constexpr int kSteps = 2;
  static GPUKIT_DEVICE uint32_t pair(uint32_t values) { return from_half_pair<T>(e4m3_to_half<0>(values)); }
  static GPUKIT_DEVICE void decode(uint32_t& low, uint32_t& high, uint32_t word) {
    low = from_half_pair<T>(e4m3_to_half<0>(word));
    high = from_half_pair<T>(e4m3_to_half<2>(word));
  }
};
template <>
struct Weights<int8_t, half> {
  static constexpr int kSteps = 2;
  static GPUKIT_DEVICE uint32_t pair(uint32_t values) {
    return PairMath<half>::add(pick_bytes(values ^ 0x8080u, 0x64646464u, 0x4140), 0xe480e480u);
  }
  static GPUKIT_DEVICE void decode(uint32_t& low, uint32_t& high, uint32_t word) {
    const uint32_t shifted = word ^ 0x80808080u;  // v + 128, the last bits of the number 1152 + v
    low = PairMath<half>::add(pick_bytes(shifted, 0x64646464u, 0x4140), 0xe480e480u);
    high = PairMath<half>::add(pick_bytes(shifted, 0x64646464u, 0x4342), 0xe480e480u);
  }
};
template <>
struct Weights<int8_t, bfloat16> {
  static constexpr int kSteps = 2;
  /// 128 + the low 7 bits, less 128 or, for negative v, 256.
  static GPUKIT_DEVICE uint32_t number(uint32_t v) {
    return PairMath<bfloat16>::add(and_or<0x007f007fu, 0x43004300u>(v), and_or<0x00800080u, 0xc300c300u>(v));
  }
  static GPUKIT_DEVICE uint32_t pair(uint32_t values) { return number(pick_bytes(values, 0, 0x4140)); }
  static GPUKIT_DEVICE void decode(uint32_t& low, uint32_t& high, uint32_t word) {
    low = number(pick_bytes(word, 0, 0x4140));
    high = number(pick_bytes(word, 0, 0x4342));
  }
};

/// 8 numbers in a word, of two steps: nibbles 0, 1, 4, 5 are of the first, 2, 3, 6, 7 of the second. Pairs are nibbles
/// 4 apart.
template <typename T>
struct Int4;
template <>
struct Int4<half> {
  static constexpr uint32_t kFlip = 0x64086408u;     // makes 1032 + v of a nibble
  static constexpr uint32_t kOffset = 0xe400e400u;   // -1024, whose last bits take z + 8
  static constexpr int kTop = 6;                     // where the first 4 bits of the mantissa begin
  static constexpr uint32_t kTopFlip = 0x4e004e00u;  // makes 24 + v of a nibble there
};
template <>
struct Int4<bfloat16> {
  static constexpr uint32_t kFlip = 0x43084308u;    // 136 + v
  static constexpr uint32_t kOffset = 0xc300c300u;  // -128
  static constexpr int kTop = 3;
  static constexpr uint32_t kTopFlip = 0x41c041c0u;
};
template <typename T>
struct Weights<packed_int4, T> {
  static constexpr int kSteps = 4;
  /// What decode() adds: it takes back the offset of the decoding and the zero point, -8 to 7.
  static GPUKIT_DEVICE uint32_t offset(int zero) {
    return Int4<T>::kOffset | static_cast<uint32_t>((zero + 8) & 15) * 0x00010001u;
  }
  template <int kStep>
  static GPUKIT_DEVICE void decode(uint32_t& low, uint32_t& high, uint32_t word, uint32_t offset) {
    low = PairMath<T>::add(and_xor<0x000f000fu, Int4<T>::kFlip>(word >> (8 * kStep)), offset);
    high = PairMath<T>::add(and_xor<0x000f000fu, Int4<T>::kFlip>(word >> (8 * kStep + 4)), offset);
  }
  /// Without an addition: numbers kBias too large.
  static constexpr float kBias = 24.0f;
  template <int kPair>
  static GPUKIT_DEVICE uint32_t biased(uint32_t word) {
    constexpr int kLeft = Int4<T>::kTop - 4 * kPair;
    constexpr uint32_t kMask = 0x000f000fu << Int4<T>::kTop;
    return and_xor<kMask, Int4<T>::kTopFlip>(kLeft >= 0 ? word << (kLeft & 31) : word >> (-kLeft & 31));
  }
};

/// The same order of nibbles. The number is multiplied by its block's scale, which is exact; all is 2^-8 of its true
/// size, so that the scale of the bits below fits.
inline constexpr float kE2m1Unscale = 256.0f;
template <typename T>
struct E2m1;
template <>
struct E2m1<half> {
  static constexpr float kScale = 0x1p6f;  // 2^14 makes the bits the number
  /// The sign and the last bits of exponent and first of mantissa, of nibbles kNibble of both halves.
  template <int kNibble>
  static GPUKIT_DEVICE uint32_t place(uint32_t word) {
    const uint32_t top = word << (12 - 4 * kNibble);
    return merge_bits<0x0e000e00u, 0x80008000u>(kNibble == 3 ? word >> 3 : word << ((9 - 4 * kNibble) & 31), top);
  }
};
template <>
struct E2m1<bfloat16> {
  static constexpr float kScale = 0x1p118f;
  template <int kNibble>
  static GPUKIT_DEVICE uint32_t place(uint32_t word) {
    // A product has the nibble twice, once for the sign's place and once for that of the others.
    constexpr int kUp = 4 * (kNibble % 2);
    const uint32_t nibbles = (kNibble < 2 ? word : word >> 8) & (0x000f000fu << kUp);
    return nibbles * (0x1040u >> kUp) & 0x81c081c0u;
  }
};
template <typename T>
struct Weights<packed_e2m1, T> {
  static constexpr int kSteps = 4;
  /// What decode() multiplies with, from the two lowest quantised values of e4m3.
  static GPUKIT_DEVICE void scales(uint32_t (&to)[2], uint32_t values) {
    const uint32_t both = e4m3_to_half<0>(values);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float v = to_float(half{static_cast<uint16_t>(both >> (16 * i))}) * E2m1<T>::kScale;
      to[i] = PairMath<T>::pack(v, v);
    }
  }
  static GPUKIT_DEVICE uint32_t scale(uint32_t code) {
    uint32_t both[2];
    scales(both, code);
    return both[0];
  }
  template <int kStep>
  static GPUKIT_DEVICE void decode(uint32_t& low, uint32_t& high, uint32_t word, uint32_t scale) {
    low = PairMath<T>::multiply(E2m1<T>::template place<2 * kStep>(word), scale);
    high = PairMath<T>::multiply(E2m1<T>::template place<2 * kStep + 1>(word), scale);
  }
};

/// A word of 8 packed quantised values belongs to two steps of 16, which lanes t and t ^ 2 share by swapping halves.
/// Lane t then has quarter (t & 1) * 2 + t / 2 of both steps, in the order of nibbles that decode() takes.
GPUKIT_DEVICE uint32_t share_packed(uint32_t word) {
  const uint32_t other = __shfl_xor_sync(0xffffffffu, word, 2);
  return pick_bytes(word, other, (threadIdx.x & 2) == 0 ? 0x5140u : 0x3726u);
}

}  // namespace gpukit
