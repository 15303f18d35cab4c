// 16- and 8-bit floats on the host: storage structs with exact, branch-light conversions (round to nearest even).
#pragma once

#include <bit>
#include <cstdint>

namespace gpukit {

struct half {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};
struct float8_e4m3 {
  uint8_t bits;
};
struct float8_e5m2 {
  uint8_t bits;
};

inline float to_float(bfloat16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }
inline bfloat16 to_bfloat16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return {static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

inline float to_float(half v) {
  uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  uint32_t body = static_cast<uint32_t>(v.bits & 0x7fffu) << 13;
  // Scaling by 2^112 rebases the exponent and normalises subnormals exactly.
  float scaled = std::bit_cast<float>(body) * 0x1p112f;
  uint32_t special = body | 0x7f800000u;
  uint32_t out = (v.bits & 0x7c00u) == 0x7c00u ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(out | sign);
}
inline half to_half(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  uint32_t sign = (u >> 16) & 0x8000u;
  uint32_t a = u & 0x7fffffffu;
  uint32_t normal = (a + 0xc8000fffu + ((a >> 13) & 1u)) >> 13;
  // Adding 0.5 puts the subnormal's last bit at the float's last bit, so the addition itself rounds to even.
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
  uint32_t out = a < 0x38800000u ? subnormal : normal;
  out = a >= 0x477ff000u ? 0x7c00u : out;
  out = a > 0x7f800000u ? (0x7e00u | ((a >> 13) & 0x3ffu)) : out;
  return {static_cast<uint16_t>(out | sign)};
}

/// e4m3 has no infinity: values past 448 become 448 with their sign (saturating), NaN stays NaN.
float to_float(float8_e4m3 v);
float8_e4m3 to_float8_e4m3(float f);
/// e5m2 saturates finite values to 57344; infinities and NaN stay.
float to_float(float8_e5m2 v);
float8_e5m2 to_float8_e5m2(float f);

/// The float that rounds to any narrower type exactly as `d` itself would: double -> half is to_half(round_to_odd(d)).
float round_to_odd(double d);

}  // namespace gpukit
