// Loads and stores of several elements at once.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

/// N elements moved as one access of sizeof(T) * N bytes (1, 2, 4, 8 or 16). The address must be aligned to that.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T v[N];
};

template <typename T, int N>
GPUKIT_DEVICE Vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <typename T, int N>
GPUKIT_DEVICE void store_vec(T* p, const Vec<T, N>& v) {
  *reinterpret_cast<Vec<T, N>*>(p) = v;
}

}  // namespace gpukit
