// 16-bit, 8-bit and complex element types on the device, with conversions by the chip's own instructions.
#pragma once
#include "gpukit/ops/common/types.cuh"

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
template <typename T>
struct alignas(2 * sizeof(T)) complex {
  T re, im;
};

GPUKIT_DEVICE float to_float(half v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return f;
}
GPUKIT_DEVICE half to_half(float f) {
  half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(f));
  return h;
}
GPUKIT_DEVICE float to_float(bfloat16 v) { return __uint_as_float(static_cast<uint32_t>(v.bits) << 16); }
GPUKIT_DEVICE bfloat16 to_bfloat16(float f) {
  bfloat16 b;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(b.bits) : "f"(f));
  return b;
}

/// The type arithmetic is done in: float for 16-bit floats, the type itself otherwise.
template <typename T>
struct Compute {
  using type = T;
};
template <>
struct Compute<half> {
  using type = float;
};
template <>
struct Compute<bfloat16> {
  using type = float;
};
template <typename T>
using compute_t = typename Compute<T>::type;

/// Element -> compute type, and back with round to nearest even.
template <typename T>
GPUKIT_DEVICE T load(T v) {
  return v;
}
GPUKIT_DEVICE float load(half v) { return to_float(v); }
GPUKIT_DEVICE float load(bfloat16 v) { return to_float(v); }

template <typename T>
struct Store {
  static GPUKIT_DEVICE T from(T v) { return v; }
};
template <>
struct Store<half> {
  static GPUKIT_DEVICE half from(float v) { return to_half(v); }
};
template <>
struct Store<bfloat16> {
  static GPUKIT_DEVICE bfloat16 from(float v) { return to_bfloat16(v); }
};
template <typename T>
GPUKIT_DEVICE T store(compute_t<T> v) {
  return Store<T>::from(v);
}

}  // namespace gpukit
