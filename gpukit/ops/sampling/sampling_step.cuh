// The arithmetic that decides on a token, in operations that round alike everywhere: host and device give the same
// bits.
//
// Logits are compared by keys, unsigned integers in the same order. Probabilities are weights: whole multiples of
// 2^-kWeightBits of the largest, whose sums are exact in any order.
#pragma once
#include "gpukit/ops/common/ordered.cuh"
#include "gpukit/ops/common/philox.cuh"
#include "gpukit/ops/common/rounded.cuh"
#include "gpukit/ops/sampling/sampling_space.cuh"

namespace gpukit::sampling {

inline constexpr int kWeightBits = 40;
inline constexpr uint64_t kOne = uint64_t{1} << kWeightBits;
inline constexpr int64_t kMaxVocab = int64_t{1} << 22;  // a sum of so many weights fits
inline constexpr float kGreedyBelow = 1e-6f;

inline constexpr uint32_t kNotANumber = 0xffffffffu, kMinusInfinity = 0x007fffffu;

GPUKIT_DEVICE uint32_t key_of(float logit) { return logit == logit ? ordered_bits(logit) : kNotANumber; }
GPUKIT_DEVICE float logit_of(uint32_t key) { return from_ordered_bits(key); }

/// How often a token occurs after the prompt, and in the top bit whether it occurs in the prompt.
inline constexpr uint32_t kInPrompt = 0x80000000u;

GPUKIT_DEVICE float penalize(float logit, uint32_t count, float repetition, float frequency, float presence) {
  using namespace rounded;
  if (count == 0) return logit;
  const float repeated = logit > 0.0f ? div(logit, repetition) : mul(logit, repetition);
  const uint32_t times = count & ~kInPrompt;
  if (times == 0) return repeated;
  return add(add(repeated, -mul(frequency, static_cast<float>(times))), -presence);
}

/// exp(x) of x <= 0 as a weight; NaN gives 0. The largest relative error is that of a float.
GPUKIT_DEVICE uint64_t weight_of(float x) {
  using namespace rounded;
  constexpr float kExp[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
  constexpr float kRounder = 12582912.0f;  // leaves the nearest integer
  if (!(x > -28.0f)) return 0;
  const float n = add(add(mul(x, 1.44269504f), kRounder), -kRounder);
  // ln 2 in two parts, the first with so few digits that its product with n is exact.
  const float r = add(add(x, mul(n, -0x1.62e4p-1f)), mul(n, -1.42860677e-6f));
  const float scale = from_bits((127 + kWeightBits + static_cast<int32_t>(n)) * (1 << 23));
  return static_cast<uint64_t>(static_cast<int64_t>(mul(polynomial(kExp, r), scale)));
}

/// The weight of a logit beside the largest one.
GPUKIT_DEVICE uint64_t weight_of(uint32_t key, uint32_t largest, float temperature) {
  if (key == largest) return kOne;
  return weight_of(rounded::div(rounded::add(logit_of(key), -logit_of(largest)), temperature));
}

/// How much of `total` the nucleus has at least; 1 to total.
GPUKIT_DEVICE uint64_t nucleus(uint64_t total, float p) {
  const double part = rounded::mul(static_cast<double>(total), static_cast<double>(p));
  const uint64_t whole = part > 0.0 ? static_cast<uint64_t>(part) : 0;
  const uint64_t need = static_cast<double>(whole) < part ? whole + 1 : whole;
  return need < 1 ? 1 : need > total ? total : need;
}

/// What a weight is not below at this min_p.
GPUKIT_DEVICE uint64_t least_weight(float min_p) {
  if (!(min_p > 0.0f)) return 0;
  return min_p < 1.0f ? static_cast<uint64_t>(rounded::mul(min_p, static_cast<float>(kOne))) : kOne;
}

/// The random word of a row.
GPUKIT_DEVICE uint64_t draw(uint64_t seed, uint64_t position, uint64_t block) {
  constexpr uint64_t kBlocks = uint64_t{1} << 63;  // apart from those of arrays of random numbers
  return random::Draws<uint64_t>::word(random::philox(seed, position, kBlocks | block), 0);
}
GPUKIT_DEVICE uint64_t word_of(float uniform) {
  if (!(uniform > 0.0f)) return 0;
  if (uniform >= 1.0f) return ~uint64_t{0};
  return static_cast<uint64_t>(rounded::mul(uniform, 0x1p32f)) << 32;
}

/// What is kept of a row: all keys above `key`, and of those equal to it the first `ties`.
struct Cut {
  uint32_t key = 0;
  uint64_t ties = 0;
};

// The key at which the largest values of a row reach an amount is found digit by digit, highest first: the amounts of
// equal digits are added up, and the digit is the one in which the amount is reached.
inline constexpr int kDigits = 3, kBins = 2048;
inline constexpr int kDigitShift[kDigits] = {21, 10, 0};
inline constexpr uint32_t kDigitMask[kDigits] = {0x7ff, 0x7ff, 0x3ff};
/// Of the digits before.
inline constexpr uint32_t kPrefixMask[kDigits] = {0, 0xffe00000u, 0xfffffc00u};

}  // namespace gpukit::sampling
