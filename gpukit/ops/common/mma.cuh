// The instructions of the tensor cores that every chip since SM 80 has: copies into shared memory behind the back of
// the threads, loads of fragments, and products of fragments.
//
// A fragment is 16 rows of a by 32 bytes of k, or two fragments of 8 columns of b, as four registers of a warp. With
// g = lane / 4, t = lane % 4 and E elements in 4 bytes: register 0 is row g, k = E t ..; 1 is row g + 8; 2 and 3 are
// the same two rows, 16 bytes further along k. Sums of 16 x 8 are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

/// The address of shared memory that the instructions below take.
GPUKIT_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

/// Copies the first `bytes` (0 to 16) of 16 aligned bytes and fills the rest with zeros; nothing is read beyond them.
GPUKIT_DEVICE void copy_async(uint32_t shared, const void* global, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(bytes)
               : "memory");
}
/// Copies kBytes (4, 8 or 16), aligned to their number, if they are `inside`; else nothing is read nor written.
template <int kBytes>
GPUKIT_DEVICE void copy_async_if(bool inside, uint32_t shared, const void* global) {
  if constexpr (kBytes == 16)
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.b32 inside, %2, 0;\n"
        "@inside cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n}" ::"r"(shared),
        "l"(global), "r"(static_cast<int>(inside))
        : "memory");
  else
    asm volatile(
        "{\n.reg .pred inside;\nsetp.ne.b32 inside, %2, 0;\n"
        "@inside cp.async.ca.shared.global.L2::128B [%0], [%1], %3;\n}" ::"r"(shared),
        "l"(global), "r"(static_cast<int>(inside)), "n"(kBytes)
        : "memory");
}
/// Closes a group of this thread's copies; a group may be empty.
GPUKIT_DEVICE void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most the `kPending` youngest groups of this thread are under way.
template <int kPending>
GPUKIT_DEVICE void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8; register i gets the
/// elements (g, 2t) and (g, 2t + 1) of matrix i.
GPUKIT_DEVICE void load_matrices(uint32_t (&to)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}
/// The same with every matrix transposed: (2t, g) and (2t + 1, g).
GPUKIT_DEVICE void load_matrices_transposed(uint32_t (&to)[4], uint32_t shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}
/// Two registers from 8 aligned bytes.
GPUKIT_DEVICE void load_shared(uint32_t& first, uint32_t& second, uint32_t shared) {
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(first), "=r"(second) : "r"(shared) : "memory");
}
/// Four, of 16.
GPUKIT_DEVICE void load_shared(uint32_t (&to)[4], uint32_t shared) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared)
               : "memory");
}
GPUKIT_DEVICE void store_shared(uint32_t shared, const uint32_t (&from)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(from[0]), "r"(from[1]), "r"(from[2]),
               "r"(from[3])
               : "memory");
}

/// Byte i of the result is byte `selector >> 4 i & 7` of the eight of low and high.
GPUKIT_DEVICE uint32_t pick_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  return __byte_perm(low, high, selector);
}

/// The bits of a float rounded to TF32, to nearest: ties to even from sm_90 on, as its copy engine rounds, away from
/// zero before.
GPUKIT_DEVICE uint32_t round_to_tf32(uint32_t bits) {
  uint32_t rounded;
#if __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#else
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
#endif
  return rounded;
}

/// Mma<T>::add: sums += a * b, 16 x 8 by 32 bytes of k, for elements of type T. float stands for TF32.
template <typename T>
struct Mma;

#define GPUKIT_MMA(element, sum, constraint, shape, types)                                                     \
  template <>                                                                                                  \
  struct Mma<element> {                                                                                        \
    using Sum = sum;                                                                                           \
    static GPUKIT_DEVICE void add(sum (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {          \
      asm("mma.sync.aligned." shape ".row.col." types                                                          \
          " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
          : "+" constraint(sums[0]), "+" constraint(sums[1]), "+" constraint(sums[2]), "+" constraint(sums[3]) \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                     \
    }                                                                                                          \
  }

GPUKIT_MMA(half, float, "f", "m16n8k16", "f32.f16.f16.f32");
GPUKIT_MMA(bfloat16, float, "f", "m16n8k16", "f32.bf16.bf16.f32");
GPUKIT_MMA(float, float, "f", "m16n8k8", "f32.tf32.tf32.f32");
GPUKIT_MMA(int8_t, int32_t, "r", "m16n8k32", "s32.s8.s8.s32");
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
GPUKIT_MMA(float8_e4m3, float, "f", "m16n8k32", "f32.e4m3.e4m3.f32");
GPUKIT_MMA(float8_e5m2, float, "f", "m16n8k32", "f32.e5m2.e5m2.f32");
#endif
#undef GPUKIT_MMA

}  // namespace gpukit
