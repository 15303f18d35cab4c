#include "gpukit/jit/mangled.h"

#include <algorithm>
#include <optional>

#include "gpukit/base/error.h"
#include "gpukit/jit/demangle.h"

namespace gpukit::jit {
namespace {

using Type = MangledType;

constexpr uint32_t bit(DType d) { return 1u << static_cast<int>(d); }
constexpr uint32_t kEveryDType = (1u << kNumDTypes) - 1;
constexpr DType kLong = sizeof(long) == 8 ? DType::int64 : DType::int32;
constexpr DType kUnsignedLong = sizeof(long) == 8 ? DType::uint64 : DType::uint32;

std::optional<DType> builtin_dtype(char code) {
  switch (code) {
    case 'b': return DType::boolean;
    case 'c':
    case 'a': return DType::int8;
    case 'h': return DType::uint8;
    case 's': return DType::int16;
    case 't': return DType::uint16;
    case 'i': return DType::int32;
    case 'j': return DType::uint32;
    case 'l': return kLong;
    case 'm': return kUnsignedLong;
    case 'x': return DType::int64;
    case 'y': return DType::uint64;
    case 'w': return sizeof(wchar_t) == 4 ? DType::int32 : DType::uint16;
    case 'f': return DType::float32;
    case 'd': return DType::float64;
    default: return {};
  }
}

/// Types known by name: 16-bit floats of the CUDA headers and ours, complex numbers.
std::optional<DType> named_dtype(std::string_view name) {
  if (name == "__half" || name == "gpukit::half" || name == "_Float16") return DType::float16;
  if (name == "__nv_bfloat16" || name == "gpukit::bfloat16" || name == "__bf16") return DType::bfloat16;
  if (name == "gpukit::complex<float>") return DType::complex64;
  if (name == "gpukit::complex<double>") return DType::complex128;
  if (name == "gpukit::float8_e4m3" || name == "__nv_fp8_e4m3") return DType::float8_e4m3;
  if (name == "gpukit::float8_e5m2" || name == "__nv_fp8_e5m2") return DType::float8_e5m2;
  return {};
}

/// float4, uint2, ...: vectors of one element type. 0 for any other name.
uint32_t vector_accepts(std::string_view name) {
  if (name.empty() || name.back() < '1' || name.back() > '4') return 0;
  const bool pair = name.back() == '2';
  name.remove_suffix(1);
  static const struct {
    std::string_view name;
    DType dtype;
  } table[] = {
      {"char", DType::int8},      {"uchar", DType::uint8},      {"short", DType::int16},   {"ushort", DType::uint16},
      {"int", DType::int32},      {"uint", DType::uint32},      {"long", kLong},           {"ulong", kUnsignedLong},
      {"longlong", DType::int64}, {"ulonglong", DType::uint64}, {"float", DType::float32}, {"double", DType::float64}};
  for (const auto& entry : table) {
    if (entry.name != name) continue;
    uint32_t accepts = bit(entry.dtype);
    if (pair && entry.dtype == DType::float32) accepts |= bit(DType::complex64);
    if (pair && entry.dtype == DType::float64) accepts |= bit(DType::complex128);
    return accepts;
  }
  if (pair && name == "__half") return bit(DType::float16);
  if (pair && name == "__nv_bfloat16") return bit(DType::bfloat16);
  return 0;
}

uint32_t pointee_accepts(const Type& type) {
  switch (type.kind) {
    case Type::Kind::builtin: {
      if (type.code == 'v') return kEveryDType;
      if (type.code == 'c') return bit(DType::int8) | bit(DType::uint8);
      const auto dtype = builtin_dtype(type.code);
      return bit(dtype.value_or(DType::uint8));
    }
    case Type::Kind::named: {
      if (const auto dtype = named_dtype(type.name)) return bit(*dtype);
      const uint32_t vector = vector_accepts(type.name);
      return vector != 0 ? vector : bit(DType::uint8);  // a struct: its raw bytes
    }
    case Type::Kind::pointer: return bit(DType::uint64) | bit(DType::int64);  // an array of addresses
    case Type::Kind::array: return pointee_accepts(*type.target);
    case Type::Kind::reference:
    case Type::Kind::function: return 0;
  }
  return 0;
}

/// Of float2, float4 and the like; other types are aligned as the elements of an array are.
unsigned pointee_alignment(const Type& type) {
  const uint32_t accepts = type.kind == Type::Kind::named ? vector_accepts(type.name) : 0;
  if (accepts == 0) return 1;
  int element = 0;
  while ((accepts >> element & 1u) == 0) ++element;
  const unsigned size = static_cast<unsigned>(itemsize(static_cast<DType>(element)));
  const unsigned lanes = static_cast<unsigned>(type.name.back() - '0');
  return lanes == 3 ? size : std::min(16u, size * lanes);
}

bool points_to_const(const Type& type) {
  return type.is_const || (type.kind == Type::Kind::array && points_to_const(*type.target));
}

ParameterType to_parameter(const Type& type) {
  ParameterType result;
  result.text = type.text;
  if (type.kind == Type::Kind::builtin || type.kind == Type::Kind::named) {
    const auto dtype = type.kind == Type::Kind::named ? named_dtype(type.name) : builtin_dtype(type.code);
    if (dtype) {
      result.kind = ParameterType::Kind::scalar;
      result.dtype = *dtype;
    }
  } else if (type.kind == Type::Kind::pointer && type.target->kind != Type::Kind::function) {
    result.kind = ParameterType::Kind::pointer;
    result.accepts = pointee_accepts(*type.target);
    result.alignment = pointee_alignment(*type.target);
    result.constant = points_to_const(*type.target);
  }
  return result;
}

}  // namespace

std::string probe_name(std::string_view function) { return "gpukit_probe<decltype(&" + std::string(function) + ")>"; }

std::vector<ParameterType> parse_probe(std::string_view lowered) {
  const Type type = template_argument_type(lowered);
  if (type.kind != Type::Kind::pointer || type.target->kind != Type::Kind::function) {
    throw FormatError("not the type of a function: " + type.text);
  }
  std::vector<ParameterType> result;
  for (const Type& parameter : type.target->parameters) result.push_back(to_parameter(parameter));
  return result;
}

}  // namespace gpukit::jit
