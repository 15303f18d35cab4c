// Kernels of transcendental functions on reals: one contiguous kernel each, one strided kernel for each group.
#pragma once
#include "gpukit/ops/common/map_strided.cuh"
#include "gpukit/ops/common/math.cuh"
#include "gpukit/ops/elementwise/codes.cuh"

namespace gpukit {

template <typename F, typename T>
struct Math {
  using A = T;
  using Out = T;
  // Twice the elements for the same bytes: long functions of 16-bit floats are bound by arithmetic.
  static constexpr int kCost = F::kCost == 2 && Short<T>::value ? 3 : F::kCost;
  static GPUKIT_DEVICE T apply(T x, const MapArgs&) { return F::of(x); }
};

template <typename T>
struct ExponentialGroup {
  using A = T;
  using Out = T;
  static constexpr int kCost = 2;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    switch (static_cast<UnaryOp>(code)) {
      case UnaryOp::exp: return body(Math<Exp, T>{});
      case UnaryOp::expm1: return body(Math<Expm1, T>{});
      case UnaryOp::log: return body(Math<Log, T>{});
      case UnaryOp::log1p: return body(Math<Log1p, T>{});
      case UnaryOp::log2: return body(Math<Log2, T>{});
      case UnaryOp::log10: return body(Math<Log10, T>{});
      case UnaryOp::sqrt: return body(Math<Sqrt, T>{});
      case UnaryOp::rsqrt: return body(Math<Rsqrt, T>{});
      case UnaryOp::sigmoid: return body(Math<Sigmoid, T>{});
      case UnaryOp::silu: return body(Math<Silu, T>{});
      case UnaryOp::gelu: return body(Math<Gelu, T>{});
      case UnaryOp::tanh: return body(Math<Tanh, T>{});
      default: return body(Math<Erf, T>{});
    }
  }
};

template <typename T>
struct TrigonometricGroup {
  using A = T;
  using Out = T;
  static constexpr int kCost = 2;
  template <typename Body>
  static GPUKIT_DEVICE void dispatch(int32_t code, Body&& body) {
    switch (static_cast<UnaryOp>(code)) {
      case UnaryOp::sin: return body(Math<Sin, T>{});
      case UnaryOp::cos: return body(Math<Cos, T>{});
      case UnaryOp::tan: return body(Math<Tan, T>{});
      case UnaryOp::asin: return body(Math<Asin, T>{});
      case UnaryOp::acos: return body(Math<Acos, T>{});
      case UnaryOp::atan: return body(Math<Atan, T>{});
      case UnaryOp::sinh: return body(Math<Sinh, T>{});
      case UnaryOp::cosh: return body(Math<Cosh, T>{});
      case UnaryOp::asinh: return body(Math<Asinh, T>{});
      case UnaryOp::acosh: return body(Math<Acosh, T>{});
      default: return body(Math<Atanh, T>{});
    }
  }
};

}  // namespace gpukit
