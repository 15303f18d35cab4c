// Codes of quantised arrays and the arithmetic between them and numbers, written once for kernels and CPU loops: both
// give the same bits. The formulas are stated in docs/quantisation.md.
#pragma once
#include "gpukit/ops/common/types.cuh"

#ifdef __CUDACC_RTC__
#include "gpukit/ops/common/float8.cuh"
#else
#include <bit>
#include <cmath>

#include "gpukit/base/half.h"
#endif

namespace gpukit {

/// What an element is, for code that takes every format. The last two are packed: a byte holds k in its low nibble and
/// k + 1 in its high one, for even k.
enum class Code : int32_t {
  float32,
  float16,
  bfloat16,
  int32,
  float8_e4m3,
  float8_e5m2,
  int8,
  int4,
  float4_e2m1,
};
GPUKIT_DEVICE constexpr bool is_packed(Code code) { return code >= Code::int4; }

/// Which scale belongs to element (batch, row, column) of an array: one for each block of 2^row_shift by
/// 2^column_shift. Strides in scales; 0 along an axis that one block covers.
struct ScaleLayout {
  int32_t row_shift, column_shift;
  int64_t batch, row, column;
};
GPUKIT_DEVICE int64_t scale_at(const ScaleLayout& s, int64_t batch, int64_t row, int64_t column) {
  return batch * s.batch + (row >> s.row_shift) * s.row + (column >> s.column_shift) * s.column;
}

GPUKIT_DEVICE float float_of_bits(uint32_t bits) {
#ifdef __CUDACC_RTC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
GPUKIT_DEVICE uint32_t bits_of_float(float f) {
#ifdef __CUDACC_RTC__
  return __float_as_uint(f);
#else
  return std::bit_cast<uint32_t>(f);
#endif
}
GPUKIT_DEVICE float nearest_even(float f) {
#ifdef __CUDACC_RTC__
  return rintf(f);
#else
  return std::nearbyint(f);
#endif
}

// Codes to numbers.

/// The nibble of a packed byte that holds column k.
GPUKIT_DEVICE uint32_t nibble_of(uint8_t byte, int64_t k) { return (k & 1) != 0 ? byte >> 4 : byte & 15u; }
GPUKIT_DEVICE int32_t int4_value(uint32_t nibble) { return static_cast<int32_t>(nibble << 28) >> 28; }
/// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
GPUKIT_DEVICE float e2m1_value(uint32_t nibble) {
  // Scaling by 2^126 rebases the exponent and normalises the one subnormal exactly.
  const float magnitude = float_of_bits((nibble & 7u) << 22) * 0x1p126f;
  return float_of_bits(bits_of_float(magnitude) | (nibble & 8u) << 28);
}

// Numbers to codes: nearest, ties to even, saturating. What is not a number becomes 0 where the format has no NaN.

GPUKIT_DEVICE uint32_t e2m1_code(float x) {
  if (x != x) return 0;
  const float m = float_of_bits(bits_of_float(x) & 0x7fffffffu);
  const int code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
  return static_cast<uint32_t>(code) | (bits_of_float(x) >> 28 & 8u);
}
GPUKIT_DEVICE int32_t integer_code(float x, int32_t low, int32_t high) {
  if (x != x) return 0;
  const float rounded = nearest_even(x);
  if (rounded <= static_cast<float>(low)) return low;
  return rounded >= static_cast<float>(high) ? high : static_cast<int32_t>(rounded);
}

/// The largest number of a code: what the largest element of a block becomes.
GPUKIT_DEVICE float largest(Code code) {
  switch (code) {
    case Code::float8_e4m3: return 448.0f;
    case Code::float8_e5m2: return 57344.0f;
    case Code::int8: return 127.0f;
    case Code::int4: return 7.0f;
    default: return 6.0f;
  }
}

/// The code of x, which is already divided by its scale. int8 and int4 use symmetric ranges.
GPUKIT_DEVICE uint32_t encode(Code code, float x) {
  switch (code) {
    case Code::float8_e4m3: return to_float8_e4m3(x).bits;
    case Code::float8_e5m2: return to_float8_e5m2(x).bits;
    case Code::int8: return static_cast<uint32_t>(integer_code(x, -127, 127)) & 0xffu;
    case Code::int4: return static_cast<uint32_t>(integer_code(x, -7, 7)) & 15u;
    default: return e2m1_code(x);
  }
}
/// The int4 code of x beside the zero point `zero`.
GPUKIT_DEVICE uint32_t encode_shifted(float x, int32_t zero) {
  return static_cast<uint32_t>(integer_code(x, -8 - zero, 7 - zero) + zero) & 15u;
}

// Scales.

/// |x|, or 0 for what is not finite: infinities saturate and do not widen the scale.
GPUKIT_DEVICE float finite_magnitude(float x) {
  const float m = float_of_bits(bits_of_float(x) & 0x7fffffffu);
  return m <= 0x1.fffffep127f ? m : 0.0f;
}
/// Never below the smallest normal number, so that dividing by it is safe; all zeros stay zeros.
GPUKIT_DEVICE float at_least_normal(float scale) { return scale > 0x1p-126f ? scale : 0x1p-126f; }
GPUKIT_DEVICE float symmetric_scale(float largest_magnitude, Code code) {
  return at_least_normal(largest_magnitude / largest(code));
}

/// int4 with a zero point: the range from `low` <= 0 to `high` >= 0 in 15 steps.
GPUKIT_DEVICE float asymmetric_scale(float low, float high) { return at_least_normal(high / 15.0f - low / 15.0f); }
GPUKIT_DEVICE int32_t zero_code(float low, float scale) { return integer_code(-low / scale, 0, 15) - 8; }

/// nvfp4: the float32 scale of the tensor, and a block's under it.
GPUKIT_DEVICE float nvfp4_tensor_scale(float largest_magnitude) {
  return at_least_normal(largest_magnitude / (6.0f * 448.0f));
}
GPUKIT_DEVICE float8_e4m3 nvfp4_block_scale(float largest_magnitude, float tensor_scale) {
  return to_float8_e4m3(largest_magnitude / 6.0f / tensor_scale);
}

}  // namespace gpukit
