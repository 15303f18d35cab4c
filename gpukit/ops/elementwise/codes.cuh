// Numbers of the elementwise functions, shared by the host and the kernels that serve several of them.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

// clang-format off
enum class BinaryOp : int32_t {
  add, subtract, multiply, divide, minimum, maximum,
  remainder, floor_divide, power, atan2, hypot, copysign, logaddexp, nextafter,
  equal, not_equal, less, less_equal,
  bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right, shift_right_signed,
};

enum class UnaryOp : int32_t {
  negative, abs, sign, square, relu, relu2, reciprocal, floor, ceil, round, trunc,
  exp, expm1, log, log1p, log2, log10, sqrt, rsqrt, sigmoid, silu, gelu, tanh, erf,
  sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh,
  isnan, isinf, isfinite, signbit,
  clamp, conj,
};
// clang-format on

}  // namespace gpukit
