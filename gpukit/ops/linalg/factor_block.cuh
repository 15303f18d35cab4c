// What the kernels of factorisations share: the type they compute in and their shared memory.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/linalg/factor_number.cuh"

namespace gpukit::linalg {

/// The type a kernel computes in, of the same layout as the type it is named by.
template <typename T>
struct Computed {
  using type = T;
};
template <typename R>
struct Computed<complex<R>> {
  using type = Pair<R>;
};

extern __shared__ __align__(16) unsigned char factor_shared[];

template <typename T>
GPUKIT_DEVICE typename Computed<T>::type* piece(T* all, int64_t at) {
  return all == nullptr ? nullptr : reinterpret_cast<typename Computed<T>::type*>(all) + at;
}
template <typename T>
GPUKIT_DEVICE const typename Computed<T>::type* piece(const T* all, int64_t at) {
  return all == nullptr ? nullptr : reinterpret_cast<const typename Computed<T>::type*>(all) + at;
}

}  // namespace gpukit::linalg
