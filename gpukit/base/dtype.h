// Element types: names, sizes, kinds, promotion.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpukit {

enum class DType : uint8_t {
  boolean,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  float8_e4m3,
  float8_e5m2,
  int4,         // two values per byte: an element here is one byte
  float4_e2m1,  // likewise
};
inline constexpr int kNumDTypes = 19;

enum class DTypeKind : uint8_t { boolean, signed_integer, unsigned_integer, real, complex, packed };

int itemsize(DType dtype);
DTypeKind kind(DType dtype);
/// `float32`, `bool`, `float8_e4m3`, ...
const char* name(DType dtype);
/// The C++ type as kernels spell it: `float`, `gpukit::half`, `long long`, ...
const char* kernel_type(DType dtype);
/// Throws DTypeError: `Unsupported dtype string: ...`.
DType dtype_from_name(std::string_view name);

inline bool is_integer(DType d) { return d >= DType::int8 && d <= DType::uint64; }
inline bool is_signed_integer(DType d) { return d >= DType::int8 && d <= DType::int64; }
inline bool is_unsigned_integer(DType d) { return d >= DType::uint8 && d <= DType::uint64; }
/// float16, bfloat16, float32, float64: what arithmetic on reals takes.
inline bool is_floating(DType d) { return d >= DType::float16 && d <= DType::float64; }
inline bool is_complex(DType d) { return d == DType::complex64 || d == DType::complex128; }
/// Stored only: moved, cast and bit-cast, never computed on.
inline bool is_storage_only(DType d) { return d >= DType::float8_e4m3; }
/// Two values per byte.
inline bool is_packed(DType d) { return d >= DType::int4; }
/// complex64 -> float32, complex128 -> float64, others themselves.
DType real_of(DType dtype);

/// Array API promotion; a mix of kinds takes the dtype of the higher kind (int64 + float16 is float16).
/// Throws DTypeError naming `op` for what has no common type (uint64 with a signed integer, float8, packed).
DType promote(std::string_view op, DType a, DType b);

/// A Python number: takes the dtype of the array beside it unless its kind is higher.
enum class ScalarKind : uint8_t { boolean, integer, real, complex };
/// The dtype of `array_dtype op scalar`: int32 + 1.5 is float32, float16 + 1 is float16, bool + 1 is int64.
DType promote_scalar(std::string_view op, DType array_dtype, ScalarKind scalar);

}  // namespace gpukit
