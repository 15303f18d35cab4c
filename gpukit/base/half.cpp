#include "gpukit/base/half.h"

namespace gpukit {
namespace {

/// An 8-bit float with `mantissa_bits` and `bias`. Finite values past `max_code` become it.
template <int mantissa_bits, int bias>
uint8_t encode(uint32_t magnitude, uint32_t max_code) {
  constexpr int kShift = 23 - mantissa_bits;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - bias) << 23;
  // At this value the float's last bit is the subnormal's last bit, so the addition itself rounds to even.
  constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - bias - mantissa_bits + 23) << 23;
  if (magnitude < kSmallestNormal)
    return static_cast<uint8_t>(
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic)) - kMagic);
  const uint32_t rounded = magnitude + (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
  const uint32_t code = (rounded >> kShift) - (static_cast<uint32_t>(127 - bias) << mantissa_bits);
  return static_cast<uint8_t>(code < max_code ? code : max_code);
}

}  // namespace

float to_float(float8_e4m3 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x80u) << 24;
  const uint32_t body = v.bits & 0x7fu;
  if (body == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  // Scaling by 2^120 rebases the exponent and normalises subnormals exactly.
  const float magnitude = std::bit_cast<float>(body << 20) * 0x1p120f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

float8_e4m3 to_float8_e4m3(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  return {static_cast<uint8_t>(sign | encode<3, 7>(magnitude, 0x7eu))};
}

float to_float(float8_e5m2 v) { return to_float(half{static_cast<uint16_t>(v.bits << 8)}); }

float8_e5m2 to_float8_e5m2(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  if (magnitude == 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7cu)};
  return {static_cast<uint8_t>(sign | encode<2, 15>(magnitude, 0x7bu))};
}

float round_to_odd(double d) {
  const float nearest = static_cast<float>(d);
  if (static_cast<double>(nearest) == d || d != d) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const double back = nearest;
  // The neighbour toward zero when rounding went away from it, then the last bit says "not exact".
  const bool away = (d < 0 ? -back : back) > (d < 0 ? -d : d);
  return std::bit_cast<float>((away ? bits - 1 : bits) | 1u);
}

}  // namespace gpukit
