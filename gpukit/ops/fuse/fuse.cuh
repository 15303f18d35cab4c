// What the kernels of fused functions are written with (fuse_cuda.cpp writes them).
//
// A thread computes `kElements` neighbours on the last axis, of which every operand is read before any result is
// written: a result may be an operand's own memory.
#pragma once
#include "gpukit/ops/common/map.cuh"

namespace gpukit {

/// The same bits as another type of that size: functions on bits serve several dtypes.
template <typename To, typename From>
GPUKIT_DEVICE To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From), "types of one size");
  return *reinterpret_cast<const To*>(&x);
}

/// Counts and steps in elements, as the host packs them.
template <int kRank, int kOperands>
struct FusedLoop {
  long long size;  // of the last axis
  long long packs;
  long long shape[kRank];  // the last in packs
  long long strides[kOperands][kRank];
};

/// The place of one thread's elements.
template <int kRank, int kOperands, int kElements, typename Count>
struct FusedPlace {
  long long at[kRank];

  GPUKIT_DEVICE FusedPlace(const FusedLoop<kRank, kOperands>& loop, Count pack) {
#pragma unroll
    for (int axis = kRank - 1; axis > 0; --axis) {
      const Count extent = static_cast<Count>(loop.shape[axis]), next = pack / extent;
      at[axis] = pack - next * extent;
      pack = next;
    }
    at[0] = pack;
    at[kRank - 1] *= kElements;
  }
  GPUKIT_DEVICE long long offset(const FusedLoop<kRank, kOperands>& loop, int operand) const {
    long long sum = 0;
#pragma unroll
    for (int axis = 0; axis < kRank; ++axis) sum += at[axis] * loop.strides[operand][axis];
    return sum;
  }
};

/// Elements `step` apart.
template <typename T, int kElements>
GPUKIT_DEVICE Vec<T, kElements> load_steps(const T* p, long long step, int count) {
  Vec<T, kElements> x;
#pragma unroll
  for (int i = 0; i < kElements; ++i) x.v[i] = p[i < count ? i * step : 0];
  return x;
}
template <typename T, int kElements>
GPUKIT_DEVICE void store_steps(T* p, const Vec<T, kElements>& x, long long step, int count) {
#pragma unroll
  for (int i = 0; i < kElements; ++i)
    if (i < count) p[i * step] = x.v[i];
}

}  // namespace gpukit
