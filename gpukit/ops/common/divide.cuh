// Division by a number known at launch: one multiplication instead of the chip's long 64-bit division.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

struct Divisor {
  int64_t value;
  uint64_t magic;
  int32_t shift;
};

#ifdef __CUDACC_RTC__

/// n / d for 0 <= n < 2^63.
GPUKIT_DEVICE int64_t quotient(int64_t n, const Divisor& d) {
  const uint64_t high = __umul64hi(d.magic, static_cast<uint64_t>(n));
  return static_cast<int64_t>((high + static_cast<uint64_t>(n)) >> d.shift);
}
GPUKIT_DEVICE int64_t quotient(int64_t n, const Divisor& d, int64_t& remainder) {
  const int64_t q = quotient(n, d);
  remainder = n - q * d.value;
  return q;
}

/// Element offset of position `index` in a space of `rank` axes, the last one fastest. rank 0 is one element.
GPUKIT_DEVICE int64_t space_offset(int rank, const Divisor* shape, const int64_t* strides, int64_t index) {
  int64_t offset = 0;
#pragma unroll 1
  for (int axis = rank - 1; axis > 0; --axis) {
    int64_t at;
    index = quotient(index, shape[axis], at);
    offset += at * strides[axis];
  }
  return rank == 0 ? 0 : offset + index * strides[0];
}

#else

/// `value` >= 1.
inline Divisor make_divisor(int64_t value) {
  int shift = 0;
  while (shift < 63 && (int64_t{1} << shift) < value) ++shift;
  const unsigned __int128 two = 1;
  const unsigned __int128 d = static_cast<unsigned __int128>(value);
  const uint64_t magic = static_cast<uint64_t>((((two << shift) - d) << 64) / d + 1);
  return {value, magic, shift};
}

#endif

}  // namespace gpukit
