#include "gpukit/ops/elementwise/cast_impl.h"
#include "gpukit/ops/elementwise/convert.cuh"

namespace gpukit::cpu {

namespace {

template <typename To, typename From>
struct Converted {
  static To of(From x) { return convert<To>(x); }
};

/// Of these both are worth code for each kind of register.
template <typename T>
inline constexpr bool kWide = std::is_same_v<T, bool> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t> ||
                              std::is_same_v<T, float> || std::is_same_v<T, double>;

/// Calls f.operator()<T>() with the element type of `dtype`; complex numbers as gpukit::complex.
template <typename F>
auto visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean: return f.template operator()<bool>();
    case DType::int8: return f.template operator()<int8_t>();
    case DType::int16: return f.template operator()<int16_t>();
    case DType::int32: return f.template operator()<int32_t>();
    case DType::int64: return f.template operator()<int64_t>();
    case DType::uint8: return f.template operator()<uint8_t>();
    case DType::uint16: return f.template operator()<uint16_t>();
    case DType::uint32: return f.template operator()<uint32_t>();
    case DType::uint64: return f.template operator()<uint64_t>();
    case DType::float16: return f.template operator()<half>();
    case DType::bfloat16: return f.template operator()<bfloat16>();
    case DType::float32: return f.template operator()<float>();
    case DType::float64: return f.template operator()<double>();
    case DType::complex64: return f.template operator()<complex<float>>();
    case DType::complex128: return f.template operator()<complex<double>>();
    case DType::float8_e4m3: return f.template operator()<float8_e4m3>();
    default: return f.template operator()<float8_e5m2>();
  }
}

}  // namespace

void cast(const Array& out, const Array& a) {
  const RowFunction row = visit(out.dtype(), [&]<typename To>() {
    return visit(a.dtype(), []<typename From>() -> RowFunction {
      // A complex number has no single real value: cast.cpp refuses it.
      if constexpr (NumberTraits<From>::kComplex && !NumberTraits<To>::kComplex && !NumberTraits<To>::kBool)
        return nullptr;
      else if constexpr (kWide<To> && kWide<From>)
        return wide1_row<Converted<To, From>, To, From>;
      else
        return map1_row<Converted<To, From>, To, From>;
    });
  });
  map_rows("cast", out, {{&a, {}}}, row);
}

}  // namespace gpukit::cpu
