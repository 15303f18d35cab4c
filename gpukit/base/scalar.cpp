#include "gpukit/base/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gpukit/base/error.h"
#include "gpukit/base/half.h"

namespace gpukit {
namespace {

std::string text_of(const Scalar& s) {
  switch (s.kind) {
    case ScalarKind::boolean: return s.integer != 0 ? "True" : "False";
    case ScalarKind::integer:
      return s.is_unsigned_above ? std::to_string(static_cast<uint64_t>(s.integer)) : std::to_string(s.integer);
    case ScalarKind::real: return std::to_string(s.real);
    default: return "(" + std::to_string(s.real) + (s.imag < 0 ? "" : "+") + std::to_string(s.imag) + "j)";
  }
}

[[noreturn]] void out_of_range(const char* op, const Scalar& s, DType dtype, const std::string& low,
                               const std::string& high) {
  throw ArgumentError(op, "value", "be in [" + low + ", " + high + "] for " + name(dtype), text_of(s));
}

bool is_whole(const Scalar& s) { return s.kind == ScalarKind::boolean || s.kind == ScalarKind::integer; }

/// A double that rounds to every narrower float as the scalar itself would.
double wide(const Scalar& s) {
  if (!is_whole(s)) return s.real;
  const bool negative = s.integer < 0 && !s.is_unsigned_above;
  uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(s.integer) : static_cast<uint64_t>(s.integer);
  if (magnitude >> 53 != 0) {
    const bool inexact = (magnitude & 0x7ffu) != 0;
    magnitude = (magnitude & ~uint64_t{0x7ff}) | (inexact ? 0x800u : 0u);
  }
  const double value = static_cast<double>(magnitude);
  return negative ? -value : value;
}

template <typename T>
T to_integer(const char* op, const Scalar& s, DType dtype) {
  using Limits = std::numeric_limits<T>;
  const auto fail = [&] { out_of_range(op, s, dtype, std::to_string(Limits::min()), std::to_string(Limits::max())); };
  if (is_whole(s)) {
    if (s.is_unsigned_above) {
      if constexpr (std::is_same_v<T, uint64_t>) return static_cast<uint64_t>(s.integer);
      fail();
    }
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (s.integer < 0) fail();
    } else {
      if (s.integer < static_cast<int64_t>(Limits::min()) || s.integer > static_cast<int64_t>(Limits::max())) fail();
    }
    return static_cast<T>(s.integer);
  }
  const double whole = std::trunc(s.real);
  // 2^digits is exact in double where max() may not be. NaN fails both comparisons.
  if (!(whole >= static_cast<double>(Limits::min()) && whole < std::ldexp(1.0, Limits::digits))) fail();
  return static_cast<T>(whole);
}

template <typename T>
ElementBytes pack(T value) {
  ElementBytes out;
  static_assert(sizeof(T) <= sizeof(out.bytes));
  std::memcpy(out.bytes, &value, sizeof(T));
  return out;
}

}  // namespace

ElementBytes to_element(const char* op, const Scalar& value, DType dtype) {
  if (value.kind == ScalarKind::complex && !is_complex(dtype) && dtype != DType::boolean)
    throw DTypeError(op, "value", std::string("be a real number for ") + name(dtype), text_of(value));
  switch (dtype) {
    case DType::boolean: return pack<uint8_t>(value.integer != 0 || value.real != 0 || value.imag != 0);
    case DType::int8: return pack(to_integer<int8_t>(op, value, dtype));
    case DType::int16: return pack(to_integer<int16_t>(op, value, dtype));
    case DType::int32: return pack(to_integer<int32_t>(op, value, dtype));
    case DType::int64: return pack(to_integer<int64_t>(op, value, dtype));
    case DType::uint8:
    case DType::int4:
    case DType::float4_e2m1: return pack(to_integer<uint8_t>(op, value, dtype));
    case DType::uint16: return pack(to_integer<uint16_t>(op, value, dtype));
    case DType::uint32: return pack(to_integer<uint32_t>(op, value, dtype));
    case DType::uint64: return pack(to_integer<uint64_t>(op, value, dtype));
    case DType::float16: return pack(to_half(round_to_odd(wide(value))));
    case DType::bfloat16: return pack(to_bfloat16(round_to_odd(wide(value))));
    case DType::float32: return pack(static_cast<float>(wide(value)));
    case DType::float64: return pack(value.real);
    case DType::complex64:
      return pack(std::complex<float>(static_cast<float>(wide(value)), static_cast<float>(value.imag)));
    case DType::complex128: return pack(std::complex<double>(value.real, value.imag));
    case DType::float8_e4m3: return pack(to_float8_e4m3(round_to_odd(wide(value))));
    case DType::float8_e5m2: return pack(to_float8_e5m2(round_to_odd(wide(value))));
  }
  throw DTypeError(op, "dtype", "be a known dtype", std::to_string(static_cast<int>(dtype)));
}

}  // namespace gpukit
