// CUDA C for the host compiler: what NVRTC gives every program. Programs bring their own integer types, so no standard
// header may be included.
#pragma once
#include "tests/emulator/machine.h"

extern "C" void* memcpy(void* to, const void* from, decltype(sizeof(0)) bytes) noexcept;
extern "C" void* memset(void* to, int value, decltype(sizeof(0)) bytes) noexcept;

#pragma clang diagnostic ignored "-Weverything"

#define __CUDACC_RTC__ 1
#define __device__
#define __host__
#define __global__
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

using uint3 = emulator::Index;
using dim3 = emulator::Index;
using size_t = decltype(sizeof(0));

#define threadIdx (emulator_place.thread)
#define blockIdx (emulator_place.block)
#define blockDim (emulator_block)
#define gridDim (emulator_grid)
inline constexpr int warpSize = 32;

#define GPUKIT_EMULATED_VECTORS(name, T, a1)                        \
  struct name##1 {                                                  \
    T x;                                                            \
  };                                                                \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct name##3 {                                                  \
    T x, y, z;                                                      \
  };                                                                \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }        \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
GPUKIT_EMULATED_VECTORS(char, signed char, 1)
GPUKIT_EMULATED_VECTORS(uchar, unsigned char, 1)
GPUKIT_EMULATED_VECTORS(short, short, 2)
GPUKIT_EMULATED_VECTORS(ushort, unsigned short, 2)
GPUKIT_EMULATED_VECTORS(int, int, 4)
GPUKIT_EMULATED_VECTORS(float, float, 4)
GPUKIT_EMULATED_VECTORS(double, double, 8)
#undef GPUKIT_EMULATED_VECTORS
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

#include "tests/emulator/device_math.h"
#include "tests/emulator/device_warp.h"

// Memory

inline size_t __cvta_generic_to_shared(const void* p) { return emulator_shared_number(p); }
template <typename T>
T __ldg(const T* p) {
  return *p;
}
template <typename T>
T __ldcg(const T* p) {
  return *p;
}
template <typename T>
T __ldcs(const T* p) {
  return *p;
}
template <typename T>
void __stcg(T* p, T v) {
  *p = v;
}
template <typename T>
void __stcs(T* p, T v) {
  *p = v;
}

#define EMULATOR_ATOMIC(name, expression)                        \
  template <typename T, typename U>                              \
  __attribute__((no_sanitize("thread"))) T name(T* p, U given) { \
    const T value = static_cast<T>(given);                       \
    emulator_access(p, sizeof(T), emulator::Access::atomic);     \
    const T old = *p;                                            \
    *p = expression;                                             \
    return old;                                                  \
  }
#define EMULATOR_ATOMICS(name, expression)  \
  EMULATOR_ATOMIC(name, expression)         \
  EMULATOR_ATOMIC(name##_block, expression) \
  EMULATOR_ATOMIC(name##_system, expression)
EMULATOR_ATOMICS(atomicAdd, old + value)
EMULATOR_ATOMICS(atomicSub, old - value)
EMULATOR_ATOMICS(atomicExch, value)
EMULATOR_ATOMICS(atomicMin, value < old ? value : old)
EMULATOR_ATOMICS(atomicMax, old < value ? value : old)
EMULATOR_ATOMICS(atomicAnd, old& value)
EMULATOR_ATOMICS(atomicOr, old | value)
EMULATOR_ATOMICS(atomicXor, old ^ value)
EMULATOR_ATOMICS(atomicInc, old >= value ? 0 : old + 1)
#undef EMULATOR_ATOMICS
#undef EMULATOR_ATOMIC
#define EMULATOR_CAS(name)                                                  \
  template <typename T, typename U, typename V>                             \
  __attribute__((no_sanitize("thread"))) T name(T* p, U compare, V value) { \
    emulator_access(p, sizeof(T), emulator::Access::atomic);                \
    const T old = *p;                                                       \
    if (old == static_cast<T>(compare)) *p = static_cast<T>(value);         \
    return old;                                                             \
  }
EMULATOR_CAS(atomicCAS)
EMULATOR_CAS(atomicCAS_block)
EMULATOR_CAS(atomicCAS_system)
#undef EMULATOR_CAS

// Kernels and inline assembly

#define GPUKIT_OPERAND(constraint, value) ::emulator::output(constraint, value)

namespace emulator {

template <typename T>
Operand output(const char* constraint, T& value) {
  return {constraint, const_cast<void*>(static_cast<const volatile void*>(&value)), sizeof(T)};
}
template <typename T>
Operand input(const char* constraint, const T& value) {
  return {constraint, const_cast<T*>(&value), sizeof(T)};
}
template <typename... Operands>
void execute(const Program* program, const Operands&... operands) {
  const Operand list[sizeof...(Operands) + 1] = {operands...};
  emulator_execute(program, list, sizeof...(Operands));
}

template <int... kIndices>
struct Indices {};
template <int kCount, int... kIndices>
struct Count : Count<kCount - 1, kCount - 1, kIndices...> {};
template <int... kIndices>
struct Count<0, kIndices...> {
  using type = Indices<kIndices...>;
};

template <auto kFunction, typename... T, int... kIndices>
Kernel kernel(void (*)(T...), Indices<kIndices...>) {
  static const unsigned sizes[] = {static_cast<unsigned>(sizeof(T))..., 0};
  struct Caller {
    __attribute__((no_sanitize("thread"))) static void run(void** values) {
      kFunction(*static_cast<T*>(values[kIndices])...);
    }
  };
  return {reinterpret_cast<const void*>(kFunction), Caller::run, sizes};
}
template <auto kFunction, typename... T>
Kernel kernel(void (*of)(T...)) {
  return kernel<kFunction>(of, typename Count<sizeof...(T)>::type{});
}
template <auto kFunction>
Kernel kernel() {
  return kernel<kFunction>(kFunction);
}

}  // namespace emulator
