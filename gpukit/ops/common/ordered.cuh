// Floats as unsigned integers in the same order.
#pragma once
#include "gpukit/ops/common/rounded.cuh"

namespace gpukit {

/// Zeros of both signs are equal. NaN is for the caller to look after.
GPUKIT_DEVICE uint32_t ordered_bits(float value) {
  const auto bits = static_cast<uint32_t>(rounded::bits_of(rounded::add(value, 0.0f)));
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
GPUKIT_DEVICE float from_ordered_bits(uint32_t bits) {
  return rounded::from_bits(static_cast<int32_t>((bits >> 31) != 0 ? bits & 0x7fffffffu : ~bits));
}

}  // namespace gpukit
