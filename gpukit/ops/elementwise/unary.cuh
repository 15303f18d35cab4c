// Kernels of the short one-argument functions: one contiguous kernel each, one strided kernel for each group.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"
#include "gpukit/ops/common/short_math.cuh"
#include "gpukit/ops/elementwise/codes.cuh"
#include "gpukit/ops/elementwise/unary_basic.cuh"

namespace gpukit {

template <typename F, typename T>
struct Unary {
  using A = T;
  using Out = T;
  static constexpr int kCost = F::kCost;
  static GPUKIT_DEVICE T apply(T x, const MapArgs&) { return store<T>(F::apply(load(x))); }
};

/// 8 bits lie too far from the middle of two neighbours for the approximation to round differently.
template <>
struct Unary<Reciprocal, bfloat16> {
  using A = bfloat16;
  using Out = bfloat16;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE bfloat16 apply(bfloat16 x, const MapArgs&) {
    return store<bfloat16>(reciprocal_approx(load(x)));
  }
};

/// F gives bool.
template <typename F, typename T>
struct Predicate {
  using A = T;
  using Out = bool;
  static constexpr int kCost = -1;
  static GPUKIT_DEVICE bool apply(T x, const MapArgs&) { return F::apply(load(x)); }
};

/// |x| of complex<R>.
template <typename R>
struct Magnitude {
  using A = complex<R>;
  using Out = R;
  static constexpr int kCost = 1;
  static GPUKIT_DEVICE R apply(complex<R> x, const MapArgs&) { return hypot_of(x.re, x.im); }
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t, Body&& body) {
    body(Magnitude{});
  }
};

/// Bounds are scalars 1 and 2.
template <typename T>
struct Clamp {
  using A = T;
  using Out = T;
  static constexpr int kCost = 0;
  static GPUKIT_DEVICE T apply(T x, const MapArgs& args) {
    return store<T>(ClampTo::apply(load(x), load(scalar_of<T>(args, 1)), load(scalar_of<T>(args, 2))));
  }
};

template <typename T>
struct BasicGroup {
  using A = T;
  using Out = T;
  static constexpr int kCost = 0;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    using Number = NumberTraits<compute_t<T>>;
    const UnaryOp op = static_cast<UnaryOp>(code);
    if (op == UnaryOp::negative) return body(Unary<Negative, T>{});
    if (op == UnaryOp::square) return body(Unary<SquareOf, T>{});
    if constexpr (!Number::kInteger) {
      if (op == UnaryOp::reciprocal) return body(Unary<Reciprocal, T>{});
    }
    if constexpr (!Number::kComplex) {
      if (op == UnaryOp::clamp) return body(Clamp<T>{});
      if (op == UnaryOp::abs) return body(Unary<Absolute, T>{});
      if (op == UnaryOp::sign) return body(Unary<Sign, T>{});
      if (op == UnaryOp::relu) return body(Unary<Relu, T>{});
      if (op == UnaryOp::relu2) return body(Unary<Relu2, T>{});
    }
    if constexpr (Number::kFloat) {
      if (op == UnaryOp::floor) return body(Unary<Floor, T>{});
      if (op == UnaryOp::ceil) return body(Unary<Ceil, T>{});
      if (op == UnaryOp::round) return body(Unary<Round, T>{});
      if (op == UnaryOp::trunc) return body(Unary<Trunc, T>{});
    }
  }
};

template <typename T>
struct PredicateGroup {
  using A = T;
  using Out = bool;
  static constexpr int kCost = 0;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    const UnaryOp op = static_cast<UnaryOp>(code);
    if (op == UnaryOp::isnan) return body(Predicate<IsNan, T>{});
    if (op == UnaryOp::isinf) return body(Predicate<IsInf, T>{});
    if constexpr (!NumberTraits<compute_t<T>>::kComplex) {
      if (op == UnaryOp::signbit) return body(Predicate<SignBit, T>{});
    }
    body(Predicate<IsFinite, T>{});
  }
};

}  // namespace gpukit
