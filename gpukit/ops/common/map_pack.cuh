// Neighbouring elements held as they lie in memory, in one register: nothing waits for a load before all are on their
// way.
#pragma once
#include "gpukit/ops/common/vec.cuh"

namespace gpukit {

/// P elements of 1 or 2 bytes, 2 or 4 bytes together.
template <typename T, int P>
struct Pack {
  static_assert(sizeof(T) * P == 2 || sizeof(T) * P == 4, "fits one register");
  static constexpr int kBits = 8 * sizeof(T);
  uint32_t word;

  GPUKIT_DEVICE void load(const T* q) {
    if constexpr (sizeof(T) * P == 4)
      word = *reinterpret_cast<const uint32_t*>(q);
    else
      word = *reinterpret_cast<const uint16_t*>(q);
  }
  GPUKIT_DEVICE void store(T* q) const {
    if constexpr (sizeof(T) * P == 4)
      *reinterpret_cast<uint32_t*>(q) = word;
    else
      *reinterpret_cast<uint16_t*>(q) = static_cast<uint16_t>(word);
  }
  GPUKIT_DEVICE T get(int i) const {
    const uint32_t bits = word >> (kBits * i);
    return *reinterpret_cast<const T*>(&bits);
  }
  /// In ascending order of i, from 0.
  GPUKIT_DEVICE void set(int i, T x) {
    uint32_t bits = 0;
    *reinterpret_cast<T*>(&bits) = x;
    word = i == 0 ? bits : word | (bits << (kBits * i));
  }
};

template <typename T>
struct Pack<T, 1> {
  T element;
  GPUKIT_DEVICE void load(const T* q) { element = *q; }
  GPUKIT_DEVICE void store(T* q) const { *q = element; }
  GPUKIT_DEVICE T get(int) const { return element; }
  GPUKIT_DEVICE void set(int, T x) { element = x; }
};

}  // namespace gpukit
