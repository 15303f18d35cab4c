// What one random word becomes, for a given element type. Shared by host and device; `Element` supplies load and store.
#pragma once
#include "gpukit/ops/common/normal.cuh"
#include "gpukit/ops/common/philox.cuh"

namespace gpukit::random {

/// A real in [0, 1) with `digits` random bits: exact in any type with that many digits.
template <int digits>
GPUKIT_DEVICE float unit(uint32_t word) {
  constexpr float kScale = 1.0f / (1u << digits);
  return mul(static_cast<float>(word >> (32 - digits)), kScale);
}
template <int digits>
GPUKIT_DEVICE double unit(uint64_t word) {
  constexpr double kScale = 1.0 / (uint64_t{1} << digits);
  return mul(static_cast<double>(word >> (64 - digits)), kScale);
}

/// Element: T, Word, Compute, kDigits, load(T) -> Compute, store(Compute) -> T.
template <typename Element>
GPUKIT_DEVICE typename Element::T uniform_real(typename Element::Word word,
                                               const UniformRange<typename Element::Compute>& range) {
  const auto value = add(range.low, mul(unit<Element::kDigits>(word), range.span));
  const typename Element::T rounded = Element::store(value);
  return Element::load(rounded) < range.high ? rounded : Element::store(range.below);
}

template <typename Element>
GPUKIT_DEVICE typename Element::T normal_real(typename Element::Word word, typename Element::Compute mean,
                                              typename Element::Compute std) {
  return Element::store(add(mean, mul(std, standard_normal(word))));
}

}  // namespace gpukit::random
