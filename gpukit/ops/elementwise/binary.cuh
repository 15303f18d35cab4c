// Kernels of two-argument functions: one contiguous kernel each, one strided kernel for each group.
#pragma once
#include "gpukit/ops/common/map_tiled.cuh"
#include "gpukit/ops/common/short_math.cuh"
#include "gpukit/ops/elementwise/arithmetic.cuh"
#include "gpukit/ops/elementwise/codes.cuh"

namespace gpukit {

/// Functions with a cheaper form for 16-bit results.
template <typename F>
struct ShortForm {
  static constexpr bool exists = false;
};
template <>
struct ShortForm<Power> {
  static constexpr bool exists = true;
  static GPUKIT_DEVICE float apply(float a, float b) { return pow_short(a, b); }
};
template <>
struct ShortForm<Atan2> {
  static constexpr bool exists = true;
  static GPUKIT_DEVICE float apply(float a, float b) { return atan2_short(a, b); }
};
template <>
struct ShortForm<Remainder> {
  static constexpr bool exists = true;
  static GPUKIT_DEVICE float apply(float a, float b) { return remainder_short(a, b); }
};

template <typename F, typename T>
struct Binary {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = F::kCost;
  static GPUKIT_DEVICE T apply(T a, T b, const MapArgs&) {
    if constexpr (Short<T>::value && ShortForm<F>::exists)
      return store<T>(ShortForm<F>::apply(load(a), load(b)));
    else
      return store<T>(F::apply(load(a), load(b)));
  }
};
template <>
struct Binary<NextAfter, half> {
  using A = half;
  using B = half;
  using Out = half;
  static constexpr int kCost = NextAfter::kCost;
  static GPUKIT_DEVICE half apply(half a, half b, const MapArgs&) {
    return {NextAfter::of_bits(a.bits, b.bits, 0x7c00)};
  }
};
template <>
struct Binary<NextAfter, bfloat16> {
  using A = bfloat16;
  using B = bfloat16;
  using Out = bfloat16;
  static constexpr int kCost = NextAfter::kCost;
  static GPUKIT_DEVICE bfloat16 apply(bfloat16 a, bfloat16 b, const MapArgs&) {
    return {NextAfter::of_bits(a.bits, b.bits, 0x7f80)};
  }
};
template <typename F, typename T>
struct Compare {
  using A = T;
  using B = T;
  using Out = bool;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE bool apply(T a, T b, const MapArgs&) { return F::apply(load(a), load(b)); }
};

template <typename T>
struct ArithmeticGroup {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 0;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    switch (static_cast<BinaryOp>(code)) {
      case BinaryOp::add: return body(Binary<Add, T>{});
      case BinaryOp::subtract: return body(Binary<Subtract, T>{});
      case BinaryOp::multiply: return body(Binary<Multiply, T>{});
      case BinaryOp::divide:
        if constexpr (!NumberTraits<compute_t<T>>::kInteger) return body(Binary<Divide, T>{});
        return;
      default: break;
    }
    if constexpr (!NumberTraits<T>::kComplex) {
      if (code == static_cast<int32_t>(BinaryOp::minimum))
        body(Binary<Minimum, T>{});
      else
        body(Binary<Maximum, T>{});
    }
  }
};

/// Functions bound by arithmetic rather than by memory.
template <typename T>
struct CostlyGroup {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 2;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    switch (static_cast<BinaryOp>(code)) {
      case BinaryOp::remainder: return body(Binary<Remainder, T>{});
      case BinaryOp::floor_divide: return body(Binary<FloorDivide, T>{});
      case BinaryOp::power: return body(Binary<Power, T>{});
      default: break;
    }
    if constexpr (NumberTraits<compute_t<T>>::kFloat) {
      switch (static_cast<BinaryOp>(code)) {
        case BinaryOp::atan2: return body(Binary<Atan2, T>{});
        case BinaryOp::hypot: return body(Binary<Hypot, T>{});
        case BinaryOp::copysign: return body(Binary<CopySign, T>{});
        case BinaryOp::logaddexp: return body(Binary<LogAddExp, T>{});
        default: return body(Binary<NextAfter, T>{});
      }
    }
  }
};

template <typename T>
struct CompareGroup {
  using A = T;
  using B = T;
  using Out = bool;
  static constexpr int kCost = 0;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    if (code == static_cast<int32_t>(BinaryOp::equal)) return body(Compare<Equal, T>{});
    if (code == static_cast<int32_t>(BinaryOp::not_equal)) return body(Compare<NotEqual, T>{});
    if constexpr (!NumberTraits<T>::kComplex) {
      if (code == static_cast<int32_t>(BinaryOp::less)) return body(Compare<Less, T>{});
      body(Compare<LessEqual, T>{});
    }
  }
};

/// T is an unsigned integer: signed ones, and bool, are served by their bits.
template <typename T>
struct BitwiseGroup {
  using A = T;
  using B = T;
  using Out = T;
  static constexpr int kCost = 0;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    switch (static_cast<BinaryOp>(code)) {
      case BinaryOp::bitwise_and: return body(Binary<BitAnd, T>{});
      case BinaryOp::bitwise_or: return body(Binary<BitOr, T>{});
      case BinaryOp::bitwise_xor: return body(Binary<BitXor, T>{});
      case BinaryOp::shift_left: return body(Binary<ShiftLeft, T>{});
      case BinaryOp::shift_right: return body(Binary<ShiftRight, T>{});
      default: return body(Binary<ShiftRightSigned, T>{});
    }
  }
};

}  // namespace gpukit
