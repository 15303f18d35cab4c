#include "gpukit/base/dtype.h"

#include <iterator>

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

struct Row {
  const char* name;
  const char* kernel_type;
  int itemsize;
  DTypeKind kind;
};

constexpr Row kRows[kNumDTypes] = {
    {"bool", "bool", 1, DTypeKind::boolean},
    {"int8", "signed char", 1, DTypeKind::signed_integer},
    {"int16", "short", 2, DTypeKind::signed_integer},
    {"int32", "int", 4, DTypeKind::signed_integer},
    {"int64", "long long", 8, DTypeKind::signed_integer},
    {"uint8", "unsigned char", 1, DTypeKind::unsigned_integer},
    {"uint16", "unsigned short", 2, DTypeKind::unsigned_integer},
    {"uint32", "unsigned int", 4, DTypeKind::unsigned_integer},
    {"uint64", "unsigned long long", 8, DTypeKind::unsigned_integer},
    {"float16", "gpukit::half", 2, DTypeKind::real},
    {"bfloat16", "gpukit::bfloat16", 2, DTypeKind::real},
    {"float32", "float", 4, DTypeKind::real},
    {"float64", "double", 8, DTypeKind::real},
    {"complex64", "gpukit::complex<float>", 8, DTypeKind::complex},
    {"complex128", "gpukit::complex<double>", 16, DTypeKind::complex},
    {"float8_e4m3", "gpukit::float8_e4m3", 1, DTypeKind::real},
    {"float8_e5m2", "gpukit::float8_e5m2", 1, DTypeKind::real},
    {"int4", "unsigned char", 1, DTypeKind::packed},
    {"float4_e2m1", "unsigned char", 1, DTypeKind::packed},
};

constexpr const Row& row(DType dtype) { return kRows[static_cast<int>(dtype)]; }

/// bool < integer < real < complex.
int level(DType dtype) {
  switch (kind(dtype)) {
    case DTypeKind::boolean: return 0;
    case DTypeKind::signed_integer:
    case DTypeKind::unsigned_integer: return 1;
    case DTypeKind::real: return 2;
    default: return 3;
  }
}

[[noreturn]] void no_common_type(std::string_view op, DType a, DType b) {
  throw DTypeError(std::string(op) + ": " + name(a) + " and " + name(b) +
                   " have no common dtype; both must have the same dtype, convert one with astype");
}

DType promote_integers(std::string_view op, DType a, DType b) {
  if (is_signed_integer(a) == is_signed_integer(b)) return itemsize(a) >= itemsize(b) ? a : b;
  const DType with_sign = is_signed_integer(a) ? a : b;
  const DType without = is_signed_integer(a) ? b : a;
  if (itemsize(with_sign) > itemsize(without)) return with_sign;
  switch (itemsize(without)) {
    case 1: return DType::int16;
    case 2: return DType::int32;
    case 4: return DType::int64;
    default: no_common_type(op, a, b);
  }
}

DType promote_reals(DType a, DType b) {
  if (itemsize(a) == 2 && itemsize(b) == 2) return DType::float32;  // float16 with bfloat16: neither holds the other
  return itemsize(a) >= itemsize(b) ? a : b;
}

}  // namespace

int itemsize(DType dtype) { return row(dtype).itemsize; }
DTypeKind kind(DType dtype) { return row(dtype).kind; }
const char* name(DType dtype) { return row(dtype).name; }
const char* kernel_type(DType dtype) { return row(dtype).kernel_type; }

namespace {

/// NumPy's codes: a kind and bytes, in the order of this machine. -1 for anything else.
int code_index(std::string_view text) {
  if (!text.empty() && (text.front() == '<' || text.front() == '=' || text.front() == '|')) text.remove_prefix(1);
  constexpr std::string_view kCodes[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4",
                                         "u8", "f2", "",   "f4", "f8", "c8", "c16"};
  if (text == "?") return 0;
  for (int i = 0; i < static_cast<int>(std::size(kCodes)); ++i)
    if (!text.empty() && text == kCodes[i]) return i;
  return -1;
}

}  // namespace

DType dtype_from_name(std::string_view text) {
  for (int i = 0; i < kNumDTypes; ++i)
    if (text == kRows[i].name) return static_cast<DType>(i);
  if (const int code = code_index(text); code >= 0) return static_cast<DType>(code);
  std::string valid;
  for (const Row& r : kRows) valid += (valid.empty() ? "" : ", ") + std::string(r.name);
  throw DTypeError("Unsupported dtype string: '" + std::string(text) + "'; valid are " + valid);
}

DType real_of(DType dtype) {
  if (dtype == DType::complex64) return DType::float32;
  if (dtype == DType::complex128) return DType::float64;
  return dtype;
}

DType promote(std::string_view op, DType a, DType b) {
  if (a == b) return a;
  if (is_storage_only(a) || is_storage_only(b)) no_common_type(op, a, b);
  if (level(a) != level(b)) {
    const DType high = level(a) > level(b) ? a : b;
    const DType low = level(a) > level(b) ? b : a;
    // The one real that complex64 cannot hold.
    if (high == DType::complex64 && low == DType::float64) return DType::complex128;
    return high;
  }
  switch (level(a)) {
    case 1: return promote_integers(op, a, b);
    case 2: return promote_reals(a, b);
    default: return DType::complex128;
  }
}

DType promote_scalar(std::string_view op, DType array_dtype, ScalarKind scalar) {
  if (is_storage_only(array_dtype))
    throw DTypeError(std::string(op) + ": " + name(array_dtype) + " is stored only; convert it with astype first");
  if (level(array_dtype) >= static_cast<int>(scalar)) return array_dtype;
  switch (scalar) {
    case ScalarKind::integer: return DType::int64;
    case ScalarKind::real: return DType::float32;
    default: return array_dtype == DType::float64 ? DType::complex128 : DType::complex64;
  }
}

}  // namespace gpukit
