// Loops for CPU ops: strided visits, parallel ranges, dtype switch. Results never depend on the number of threads.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "gpukit/base/dtype.h"
#include "gpukit/base/half.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/common/strided.h"

namespace gpukit::cpu {

/// The type arithmetic is done in: float for 16-bit floats, the type itself otherwise.
template <typename T>
using compute_t = std::conditional_t<std::is_same_v<T, half> || std::is_same_v<T, bfloat16>, float, T>;

template <typename T>
inline compute_t<T> load(T v) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>)
    return to_float(v);
  else
    return v;
}
template <typename T>
inline T store(compute_t<T> v) {
  if constexpr (std::is_same_v<T, half>)
    return to_half(v);
  else if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(v);
  else
    return v;
}

/// Calls f.template operator()<T>() with the C++ type of `dtype`. Storage-only dtypes are not visited: returns false.
template <typename F>
bool visit_arithmetic(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean: f.template operator()<bool>(); return true;
    case DType::int8: f.template operator()<int8_t>(); return true;
    case DType::int16: f.template operator()<int16_t>(); return true;
    case DType::int32: f.template operator()<int32_t>(); return true;
    case DType::int64: f.template operator()<int64_t>(); return true;
    case DType::uint8: f.template operator()<uint8_t>(); return true;
    case DType::uint16: f.template operator()<uint16_t>(); return true;
    case DType::uint32: f.template operator()<uint32_t>(); return true;
    case DType::uint64: f.template operator()<uint64_t>(); return true;
    case DType::float16: f.template operator()<half>(); return true;
    case DType::bfloat16: f.template operator()<bfloat16>(); return true;
    case DType::float32: f.template operator()<float>(); return true;
    case DType::float64: f.template operator()<double>(); return true;
    case DType::complex64: f.template operator()<std::complex<float>>(); return true;
    case DType::complex128: f.template operator()<std::complex<double>>(); return true;
    default: return false;
  }
}
template <typename F>
bool visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16: f.template operator()<half>(); return true;
    case DType::bfloat16: f.template operator()<bfloat16>(); return true;
    case DType::float32: f.template operator()<float>(); return true;
    case DType::float64: f.template operator()<double>(); return true;
    default: return false;
  }
}

/// Visits `space` in rows along its last axis, split over threads: row(count, offsets) with the element offset of every
/// operand at the row's start; inside the row operand i steps by space.strides[i][rank - 1]. Long rows are cut.
template <typename Row>
void for_each_row(const StridedSpace& space, Row&& row) {
  if (space.size == 0) return;
  if (space.rank == 0) {
    const int64_t zero[kMaxOperands] = {};
    row(int64_t{1}, zero);
    return;
  }
  const int last = space.rank - 1;
  const int64_t width = space.shape[last];
  constexpr int64_t kGrain = 16384;
  parallel_for(space.size, kGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t column = begin % width;
      int64_t rest = begin / width;
      int64_t offsets[kMaxOperands];
      for (int i = 0; i < space.num_operands; ++i) offsets[i] = column * space.strides[i][last];
      for (int axis = last - 1; axis >= 0; --axis) {
        int64_t at = rest % space.shape[axis];
        rest /= space.shape[axis];
        for (int i = 0; i < space.num_operands; ++i) offsets[i] += at * space.strides[i][axis];
      }
      int64_t count = width - column < end - begin ? width - column : end - begin;
      row(count, offsets);
      begin += count;
    }
  });
}

}  // namespace gpukit::cpu
