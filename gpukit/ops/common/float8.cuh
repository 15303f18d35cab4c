// 8-bit floats on the device, by arithmetic that every supported chip has. The same bits as gpukit/base/half.h.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

/// |x| as an 8-bit float with `kMantissa` bits and `kBias`; finite values past `max_code` become it.
template <int kMantissa, int kBias>
GPUKIT_DEVICE uint8_t encode_float8(uint32_t magnitude, uint32_t max_code) {
  constexpr int kShift = 23 - kMantissa;
  constexpr uint32_t kSmallestNormal = static_cast<uint32_t>(128 - kBias) << 23;
  // At this value the float's last bit is the subnormal's last bit, so the addition itself rounds to even.
  constexpr uint32_t kMagic = static_cast<uint32_t>(127 + 1 - kBias - kMantissa + 23) << 23;
  if (magnitude < kSmallestNormal)
    return static_cast<uint8_t>(__float_as_uint(__uint_as_float(magnitude) + __uint_as_float(kMagic)) - kMagic);
  const uint32_t rounded = magnitude + (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
  const uint32_t code = (rounded >> kShift) - (static_cast<uint32_t>(127 - kBias) << kMantissa);
  return static_cast<uint8_t>(code < max_code ? code : max_code);
}

GPUKIT_DEVICE float to_float(float8_e4m3 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x80u) << 24;
  const uint32_t body = v.bits & 0x7fu;
  if (body == 0x7fu) return __uint_as_float(sign | 0x7fc00000u);
  return __uint_as_float(__float_as_uint(__uint_as_float(body << 20) * 0x1p120f) | sign);
}
GPUKIT_DEVICE float8_e4m3 to_float8_e4m3(float f) {
  const uint32_t u = __float_as_uint(f);
  const uint32_t sign = (u >> 24) & 0x80u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  return {static_cast<uint8_t>(sign | encode_float8<3, 7>(magnitude, 0x7eu))};
}

GPUKIT_DEVICE float to_float(float8_e5m2 v) { return to_float(half{static_cast<uint16_t>(v.bits << 8)}); }
GPUKIT_DEVICE float8_e5m2 to_float8_e5m2(float f) {
  const uint32_t u = __float_as_uint(f);
  const uint32_t sign = (u >> 24) & 0x80u;
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7fu)};
  if (magnitude == 0x7f800000u) return {static_cast<uint8_t>(sign | 0x7cu)};
  return {static_cast<uint8_t>(sign | encode_float8<2, 15>(magnitude, 0x7bu))};
}

/// The float nearest to `d` toward zero with its last bit set when inexact: rounding it again is rounding `d` once.
GPUKIT_DEVICE float round_to_odd(double d) {
  const float f = __double2float_rz(d);
  return static_cast<double>(f) == d || d != d ? f : __uint_as_float(__float_as_uint(f) | 1u);
}

}  // namespace gpukit
