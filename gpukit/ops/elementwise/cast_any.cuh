// Conversion between any two dtypes in any layout, for pairs too rare to have kernels of their own.
#pragma once
#include "gpukit/ops/elementwise/convert.cuh"

namespace gpukit {

/// The numbers of DType.
// clang-format off
enum class Type : int32_t {
  boolean, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
  float16, bfloat16, float32, float64, complex64, complex128, float8_e4m3, float8_e5m2,
};
// clang-format on

template <typename T, typename From>
GPUKIT_DEVICE void put(void* out, int64_t at, From x) {
  static_cast<T*>(out)[at] = convert<T>(x);
}

template <typename From>
GPUKIT_DEVICE void put_as(void* out, int64_t at, Type to, From x) {
  switch (to) {
    case Type::boolean: return put<bool>(out, at, x);
    case Type::complex64: return put<complex<float>>(out, at, x);
    case Type::complex128: return put<complex<double>>(out, at, x);
    default: break;
  }
  if constexpr (!NumberTraits<From>::kComplex) {
    switch (to) {
      case Type::int8: return put<int8_t>(out, at, x);
      case Type::int16: return put<int16_t>(out, at, x);
      case Type::int32: return put<int32_t>(out, at, x);
      case Type::int64: return put<int64_t>(out, at, x);
      case Type::uint8: return put<uint8_t>(out, at, x);
      case Type::uint16: return put<uint16_t>(out, at, x);
      case Type::uint32: return put<uint32_t>(out, at, x);
      case Type::uint64: return put<uint64_t>(out, at, x);
      case Type::float16: return put<half>(out, at, x);
      case Type::bfloat16: return put<bfloat16>(out, at, x);
      case Type::float32: return put<float>(out, at, x);
      case Type::float64: return put<double>(out, at, x);
      case Type::float8_e4m3: return put<float8_e4m3>(out, at, x);
      default: return put<float8_e5m2>(out, at, x);
    }
  }
}

template <typename T>
GPUKIT_DEVICE T get(const void* in, int64_t at) {
  return static_cast<const T*>(in)[at];
}

/// One element a thread. A wide type carries each value exactly: int64, uint64, double or complex128.
__global__ void __launch_bounds__(256)
    cast_any(void* out, const void* in, int32_t from, int32_t to, const __grid_constant__ KernelSpace<2> space) {
  int64_t rest = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (rest >= space.size) return;
  int64_t to_at = 0, at = 0;
#pragma unroll 1
  for (int axis = space.rank - 1; axis >= 0; --axis) {
    const int64_t next = rest / space.shape[axis];
    const int64_t here = rest - next * space.shape[axis];
    to_at += here * space.strides[0][axis];
    at += here * space.strides[1][axis];
    rest = next;
  }
  int64_t integer = 0;
  double real = 0;
  bool is_real = true;
  switch (static_cast<Type>(from)) {
    case Type::uint64: return put_as(out, to_at, static_cast<Type>(to), get<uint64_t>(in, at));
    case Type::complex64: {
      const complex<float> z = get<complex<float>>(in, at);
      return put_as(out, to_at, static_cast<Type>(to), complex<double>{z.re, z.im});
    }
    case Type::complex128: return put_as(out, to_at, static_cast<Type>(to), get<complex<double>>(in, at));
    case Type::float16: real = to_float(get<half>(in, at)); break;
    case Type::bfloat16: real = to_float(get<bfloat16>(in, at)); break;
    case Type::float32: real = get<float>(in, at); break;
    case Type::float64: real = get<double>(in, at); break;
    case Type::float8_e4m3: real = to_float(get<float8_e4m3>(in, at)); break;
    case Type::float8_e5m2: real = to_float(get<float8_e5m2>(in, at)); break;
    default:
      is_real = false;
      switch (static_cast<Type>(from)) {
        case Type::boolean:
        case Type::uint8: integer = get<uint8_t>(in, at); break;
        case Type::int8: integer = get<int8_t>(in, at); break;
        case Type::int16: integer = get<int16_t>(in, at); break;
        case Type::uint16: integer = get<uint16_t>(in, at); break;
        case Type::int32: integer = get<int32_t>(in, at); break;
        case Type::uint32: integer = get<uint32_t>(in, at); break;
        default: integer = get<int64_t>(in, at); break;
      }
  }
  if (is_real)
    put_as(out, to_at, static_cast<Type>(to), real);
  else
    put_as(out, to_at, static_cast<Type>(to), integer);
}

}  // namespace gpukit
