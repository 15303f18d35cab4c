// Reading and checking one index value in a kernel.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/indexing/indexed_space.cuh"

namespace gpukit {

GPUKIT_DEVICE int64_t load_index(const void* index, int64_t at, IndexKind kind) {
  return kind == IndexKind::int32 ? static_cast<const int32_t*>(index)[at] : static_cast<const int64_t*>(index)[at];
}

/// Element offset that the index value at `at` leads to, or kSkippedOffset for a bad one.
GPUKIT_DEVICE int64_t load_index_offset(const void* index, int64_t at, IndexKind kind, int64_t axis_size,
                                        int64_t axis_stride) {
  const int64_t value = load_index(index, at, kind);
  if (kind == IndexKind::offset) return value;
  const int64_t position = wrap_index(value, axis_size, kind);
  return position < 0 ? kSkippedOffset : position * axis_stride;
}

/// Notes the bad value at `at`; nothing for at < 0 and for offsets, which were checked before.
GPUKIT_DEVICE void note_bad_index(const void* index, int64_t at, IndexKind kind, int64_t axis_size, Fault* fault,
                                  int32_t fault_op) {
  if (at >= 0 && kind != IndexKind::offset) note_fault(fault, fault_op, load_index(index, at, kind), axis_size);
}

/// a / b for 0 <= a < 2^53 and b >= 1, without the call and the stack that 64-bit division costs.
GPUKIT_DEVICE int64_t quotient_of(int64_t a, int64_t b) {
  const double divisor = static_cast<double>(b);
  double inverse;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(divisor));
  inverse = __fma_rn(inverse, __fma_rn(-divisor, inverse, 1.0), inverse);
  inverse = __fma_rn(inverse, __fma_rn(-divisor, inverse, 1.0), inverse);
  int64_t quotient = static_cast<int64_t>(static_cast<double>(a) * inverse);
  while (a - quotient * b < 0) --quotient;
  while (a - quotient * b >= b) ++quotient;
  return quotient;
}

/// Splits a linear position over axes [first, first + count) and calls f(axis, coordinate), innermost first.
/// Small spaces divide in 32 bits.
template <typename F>
GPUKIT_DEVICE void for_each_coordinate(int64_t position, const int64_t* shape, int first, int count, F f) {
  if (position < 0xffffffffLL) {
    uint32_t rest = static_cast<uint32_t>(position);
#pragma unroll 1
    for (int axis = first + count - 1; axis > first; --axis) {
      const uint32_t width = shape[axis] > 0xffffffffLL ? 0xffffffffu : static_cast<uint32_t>(shape[axis]);
      const uint32_t quotient = rest / width;
      f(axis, static_cast<int64_t>(rest - quotient * width));
      rest = quotient;
    }
    if (count > 0) f(first, static_cast<int64_t>(rest));
    return;
  }
  int64_t rest = position;
#pragma unroll 1
  for (int axis = first + count - 1; axis > first; --axis) {
    const int64_t quotient = quotient_of(rest, shape[axis]);
    f(axis, rest - quotient * shape[axis]);
    rest = quotient;
  }
  if (count > 0) f(first, rest);
}

}  // namespace gpukit
