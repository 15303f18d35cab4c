// What changes along k beside the quantised values: scales and zero points of the two weights that a quad of lanes
// multiplies.
#pragma once
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"
#include "gpukit/ops/matmul/quantized/dequantise.cuh"

namespace gpukit {

/// Two neighbours of k in a byte, as a pair of T; `with`: what Weights<packed_int4, T>::offset gives.
template <typename T>
GPUKIT_DEVICE uint32_t decode_byte(packed_int4, uint32_t byte, uint32_t with) {
  return PairMath<T>::add(and_xor<0x000f000fu, Int4<T>::kFlip>(byte * 0x1001u), with);
}
/// Where E2m1<T>::place puts the last bit of a code.
template <typename T>
inline constexpr int kE2m1Place = 9;
template <>
inline constexpr int kE2m1Place<bfloat16> = 6;
/// `with`: both halves the block's scale, as Weights<packed_e2m1, T>::scales gives it.
template <typename T>
GPUKIT_DEVICE uint32_t decode_byte(packed_e2m1, uint32_t byte, uint32_t with) {
  constexpr int kPlace = kE2m1Place<T>;
  constexpr uint32_t kBits = 0x00070007u << kPlace;
  return PairMath<T>::multiply(merge_bits<kBits, 0x80008000u>(byte * (0x1001u << kPlace), byte * 0x1001000u), with);
}

/// Those of kLoop of k for rows g and g + 8 of a warp, spread over the four lanes of a quad: of kCount groups each, or
/// words of four quantised values. Fetched early; settle() makes what get() and with() hand out.
template <typename W, typename T, int kGroup, bool kZero, int kLoop>
struct GroupScales {
  static constexpr bool kFloat8Scales = is_e2m1<W>;
  static constexpr int kWordK = kFloat8Scales ? 4 * kGroup : kGroup;
  static constexpr int kCount = kLoop / kWordK;                          // words of a row: 1, 2 or 4
  static constexpr int kEach = kCount == 4 ? 2 : 1;                      // of a lane
  static constexpr int kRowShift = is_int4<W> || kFloat8Scales ? 0 : 7;  // weights that share a scale
  uint32_t words[kEach];
  uint32_t more[kFloat8Scales || kZero ? 2 : 1];  // zero points; the second pair of scales

  /// `row`: of the warp's first weight. Words past the end of k are zeros.
  GPUKIT_DEVICE void fetch(const void* scale, const int8_t* zero, const ScaledProblem& s, int64_t row, int k) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      // Four words: all of a row, one after the other. Fewer: the lanes have both rows side by side.
      const int half = kCount == 4 ? j : lane % 4 / 2, word = kCount == 1 ? 0 : lane % (kCount == 4 ? 4 : 2);
      const int64_t mine = min(row + lane / 4 + half * 8, s.n - 1) >> kRowShift;
      const int group = k / kWordK + word;
      const bool inside = group * kWordK < s.k;
      if constexpr (kFloat8Scales) {
        words[j] = inside ? static_cast<const uint32_t*>(scale)[mine * (s.b.scale.row / 4) + group] : 0u;
      } else {
        words[j] = inside ? static_cast<const uint32_t*>(scale)[mine * s.b.scale.row + group] : 0u;
        if constexpr (kZero) more[j] = static_cast<uint32_t>(inside ? zero[mine * s.b.scale.row + group] : 0);
      }
    }
  }
  /// What was fetched, as it is used: pairs of scales, or what the decoding adds.
  GPUKIT_DEVICE void settle() {
    if constexpr (kFloat8Scales) {
      const uint32_t scales = words[0];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const uint32_t both = e4m3_to_half<0>(scales >> (16 * j));
        const float low = to_float(half{static_cast<uint16_t>(both)}) * E2m1<T>::kScale;
        const float high = to_float(half{static_cast<uint16_t>(both >> 16)}) * E2m1<T>::kScale;
        (j == 0 ? words[0] : more[1]) = PairMath<T>::pack(low, high);
      }
    } else if constexpr (kZero) {
#pragma unroll
      for (int j = 0; j < kEach; ++j) more[j] = Weights<W, T>::offset(static_cast<int>(more[j]));
    }
  }
  GPUKIT_DEVICE static uint32_t of_lane(uint32_t v, int lane) { return __shfl_sync(0xffffffffu, v, lane, 4); }
  /// The float32 scale of row g + 8 `half` at group `group` of the kLoop.
  GPUKIT_DEVICE float get(int half, int group) const {
    if constexpr (kCount == 4) return __uint_as_float(of_lane(words[half], group));
    return __uint_as_float(of_lane(words[0], half * 2 + group));
  }
  /// What decode_byte takes for the 64 of k at `unit`, at each of its four steps.
  GPUKIT_DEVICE void with(uint32_t (&to)[4], int half, int unit) const {
    if constexpr (kFloat8Scales && kGroup == 16) {
      const uint32_t pairs[2] = {of_lane(words[0], half * 2 + unit), of_lane(more[1], half * 2 + unit)};
#pragma unroll
      for (int q = 0; q < 4; ++q) to[q] = pick_bytes(pairs[q / 2], 0, q % 2 == 0 ? 0x1010 : 0x3232);
    } else if constexpr (kFloat8Scales) {
      const uint32_t pair = of_lane(unit == 0 ? words[0] : more[1], half * 2);
#pragma unroll
      for (int q = 0; q < 4; ++q) to[q] = pick_bytes(pair, 0, q / 2 == 0 ? 0x1010 : 0x3232);
    } else {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int group = (unit * 64 + q * 16) / kGroup;
        if constexpr (!kZero)
          to[q] = Weights<W, T>::offset(0);
        else if (q > 0 && group == (unit * 64 + q * 16 - 16) / kGroup)
          to[q] = to[q - 1];
        else
          to[q] = kCount == 4 ? of_lane(more[half], group) : of_lane(more[0], half * 2 + group);
      }
    }
  }
};

}  // namespace gpukit
