// Warpgroup products, m64nNkK: d (64 x N in N / 2 registers a thread) = a x b, plus d where `add` is not 0.
// a and b are descriptors of tiles in shared memory, 32 bytes of K wide. A 16-bit operand may lie along M or N instead
// of K ("turned"); others may not. Where it says so, a comes from registers.
#pragma once
#include "gpukit/ops/common/half.cuh"

namespace gpukit {

template <int Registers>
GPUKIT_DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
GPUKIT_DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
GPUKIT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPUKIT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Pending>
GPUKIT_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// What `value`, which is never negative, comes from is done before the next wait: the compiler moves waits before
/// arithmetic that does without the products, but not before this instruction, which never runs.
GPUKIT_DEVICE void finish_before_wait(float value) {
  if (value < 0.0f) asm volatile("nanosleep.u32 1;");
}
/// Nothing that reads the sums may be moved before this.
template <int Registers>
GPUKIT_DEVICE void keep_sums(float (&d)[Registers]) {
#pragma unroll
  for (int i = 0; i < Registers; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int Registers>
GPUKIT_DEVICE void keep_sums(int32_t (&d)[Registers]) {
#pragma unroll
  for (int i = 0; i < Registers; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
/// A shared tile with 128-byte swizzle as wgmma reads it: `leading` and `stride` bytes between its 8-row groups.
GPUKIT_DEVICE uint64_t tile_descriptor(uint32_t address, uint32_t leading, uint32_t stride) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | uint64_t{1} << 62;
}

/// What lies `bytes` further. Only the lower word changes: there is no carry to the fields above the address.
GPUKIT_DEVICE uint64_t tile_descriptor_at(uint64_t descriptor, uint32_t bytes) {
  return (descriptor >> 32 << 32) | (static_cast<uint32_t>(descriptor) + bytes / 16);
}

/// The unit keeps few bits of a sum of FP8 products: there a slice of 128 of K is summed from zero and added to the
/// total in float32.
template <typename T>
inline constexpr bool kSumsInSlices = false;
template <>
inline constexpr bool kSumsInSlices<float8_e4m3> = true;
template <>
inline constexpr bool kSumsInSlices<float8_e5m2> = true;

template <typename T, int N>
struct Wgmma;

// The N / 2 registers as operands and as text.
#ifndef GPUKIT_OPERAND  // an emulator has its own
#define GPUKIT_OPERAND(constraint, value) constraint(value)
#endif
#define GPUKIT_WGMMA_OUT4(c, i) \
  GPUKIT_OPERAND(c, d[i]), GPUKIT_OPERAND(c, d[i + 1]), GPUKIT_OPERAND(c, d[i + 2]), GPUKIT_OPERAND(c, d[i + 3])
#define GPUKIT_WGMMA_OUT8(c, i) GPUKIT_WGMMA_OUT4(c, i), GPUKIT_WGMMA_OUT4(c, i + 4)
#define GPUKIT_WGMMA_OUT16(c, i) GPUKIT_WGMMA_OUT8(c, i), GPUKIT_WGMMA_OUT8(c, i + 8)
#define GPUKIT_WGMMA_OUT32(c, i) GPUKIT_WGMMA_OUT16(c, i), GPUKIT_WGMMA_OUT16(c, i + 16)
#define GPUKIT_WGMMA_OUT40(c, i) GPUKIT_WGMMA_OUT32(c, i), GPUKIT_WGMMA_OUT8(c, i + 32)
#define GPUKIT_WGMMA_OUT48(c, i) GPUKIT_WGMMA_OUT32(c, i), GPUKIT_WGMMA_OUT16(c, i + 32)
#define GPUKIT_WGMMA_OUT56(c, i) GPUKIT_WGMMA_OUT48(c, i), GPUKIT_WGMMA_OUT8(c, i + 48)
#define GPUKIT_WGMMA_OUT60(c, i) GPUKIT_WGMMA_OUT56(c, i), GPUKIT_WGMMA_OUT4(c, i + 56)
#define GPUKIT_WGMMA_OUT64(c, i) GPUKIT_WGMMA_OUT32(c, i), GPUKIT_WGMMA_OUT32(c, i + 32)
#define GPUKIT_WGMMA_OUT72(c, i) GPUKIT_WGMMA_OUT64(c, i), GPUKIT_WGMMA_OUT8(c, i + 64)
#define GPUKIT_WGMMA_OUT80(c, i) GPUKIT_WGMMA_OUT72(c, i), GPUKIT_WGMMA_OUT8(c, i + 72)
#define GPUKIT_WGMMA_OUT88(c, i) GPUKIT_WGMMA_OUT72(c, i), GPUKIT_WGMMA_OUT16(c, i + 72)
#define GPUKIT_WGMMA_OUT96(c, i) GPUKIT_WGMMA_OUT64(c, i), GPUKIT_WGMMA_OUT32(c, i + 64)
#define GPUKIT_WGMMA_OUT104(c, i) GPUKIT_WGMMA_OUT96(c, i), GPUKIT_WGMMA_OUT8(c, i + 96)
#define GPUKIT_WGMMA_OUT112(c, i) GPUKIT_WGMMA_OUT96(c, i), GPUKIT_WGMMA_OUT16(c, i + 96)
#define GPUKIT_WGMMA_OUT120(c, i) GPUKIT_WGMMA_OUT112(c, i), GPUKIT_WGMMA_OUT8(c, i + 112)
#define GPUKIT_WGMMA_OUT128(c, i) GPUKIT_WGMMA_OUT64(c, i), GPUKIT_WGMMA_OUT64(c, i + 64)
#define GPUKIT_WGMMA_REGS4 "%0, %1, %2, %3"
#define GPUKIT_WGMMA_REGS8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define GPUKIT_WGMMA_REGS16 \
  GPUKIT_WGMMA_REGS8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define GPUKIT_WGMMA_REGS32 \
  GPUKIT_WGMMA_REGS16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define GPUKIT_WGMMA_REGS40 \
  GPUKIT_WGMMA_REGS32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39"
#define GPUKIT_WGMMA_REGS48 \
  GPUKIT_WGMMA_REGS32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define GPUKIT_WGMMA_REGS56 \
  GPUKIT_WGMMA_REGS48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55"
#define GPUKIT_WGMMA_REGS60 \
  GPUKIT_WGMMA_REGS56       \
  ", %56, %57, %58, %59"
#define GPUKIT_WGMMA_REGS64 \
  GPUKIT_WGMMA_REGS60       \
  ", %60, %61, %62, %63"
#define GPUKIT_WGMMA_REGS72 \
  GPUKIT_WGMMA_REGS64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71"
#define GPUKIT_WGMMA_REGS80 \
  GPUKIT_WGMMA_REGS72       \
  ", %72, %73, %74, %75, %76, %77, %78, %79"
#define GPUKIT_WGMMA_REGS88 \
  GPUKIT_WGMMA_REGS80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87"
#define GPUKIT_WGMMA_REGS96                                                \
  GPUKIT_WGMMA_REGS72                                                      \
  ", %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85" \
  ", %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define GPUKIT_WGMMA_REGS104 \
  GPUKIT_WGMMA_REGS96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103"
#define GPUKIT_WGMMA_REGS112 \
  GPUKIT_WGMMA_REGS96        \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define GPUKIT_WGMMA_REGS120 \
  GPUKIT_WGMMA_REGS112       \
  ", %112, %113, %114, %115, %116, %117, %118, %119"
#define GPUKIT_WGMMA_REGS128 \
  GPUKIT_WGMMA_REGS112       \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define GPUKIT_WGMMA(T, SumType, letter, N, R, kind, tail, A, B, P)                                    \
  template <>                                                                                          \
  struct Wgmma<T, N> {                                                                                 \
    using Sum = SumType;                                                                               \
    template <int TurnA, int TurnB>                                                                    \
    static GPUKIT_DEVICE void run(Sum (&d)[R], uint64_t a, uint64_t b, int add) {                      \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" #N kind \
                   " {" GPUKIT_WGMMA_REGS##R "}, " A ", " B ", p" tail ";}"                            \
                   : GPUKIT_WGMMA_OUT##R("+" letter, 0)                                                \
                   : "l"(a), "l"(b), "r"(add), "n"(TurnA), "n"(TurnB));                                \
    }                                                                                                  \
  };

// One for each N; operands after the registers: a, b, add, turn of a, turn of b.
#define GPUKIT_WGMMA_TYPES16(turns)                                                              \
  GPUKIT_WGMMA(half, float, "f", 16, 8, "k16.f32.f16.f16", turns, "%8", "%9", "%10")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 16, 8, "k16.f32.bf16.bf16", turns, "%8", "%9", "%10")       \
  GPUKIT_WGMMA(float, float, "f", 16, 8, "k8.f32.tf32.tf32", ", 1, 1", "%8", "%9", "%10")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 16, 8, "k32.f32.e4m3.e4m3", ", 1, 1", "%8", "%9", "%10") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 16, 8, "k32.f32.e5m2.e5m2", ", 1, 1", "%8", "%9", "%10") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 16, 8, "k32.s32.s8.s8", "", "%8", "%9", "%10")
#define GPUKIT_WGMMA_TYPES32(turns)                                                                 \
  GPUKIT_WGMMA(half, float, "f", 32, 16, "k16.f32.f16.f16", turns, "%16", "%17", "%18")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 32, 16, "k16.f32.bf16.bf16", turns, "%16", "%17", "%18")       \
  GPUKIT_WGMMA(float, float, "f", 32, 16, "k8.f32.tf32.tf32", ", 1, 1", "%16", "%17", "%18")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 32, 16, "k32.f32.e4m3.e4m3", ", 1, 1", "%16", "%17", "%18") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 32, 16, "k32.f32.e5m2.e5m2", ", 1, 1", "%16", "%17", "%18") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 32, 16, "k32.s32.s8.s8", "", "%16", "%17", "%18")
#define GPUKIT_WGMMA_TYPES64(turns)                                                                 \
  GPUKIT_WGMMA(half, float, "f", 64, 32, "k16.f32.f16.f16", turns, "%32", "%33", "%34")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 64, 32, "k16.f32.bf16.bf16", turns, "%32", "%33", "%34")       \
  GPUKIT_WGMMA(float, float, "f", 64, 32, "k8.f32.tf32.tf32", ", 1, 1", "%32", "%33", "%34")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 64, 32, "k32.f32.e4m3.e4m3", ", 1, 1", "%32", "%33", "%34") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 64, 32, "k32.f32.e5m2.e5m2", ", 1, 1", "%32", "%33", "%34") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 64, 32, "k32.s32.s8.s8", "", "%32", "%33", "%34")
#define GPUKIT_WGMMA_TYPES96(turns)                                                                 \
  GPUKIT_WGMMA(half, float, "f", 96, 48, "k16.f32.f16.f16", turns, "%48", "%49", "%50")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 96, 48, "k16.f32.bf16.bf16", turns, "%48", "%49", "%50")       \
  GPUKIT_WGMMA(float, float, "f", 96, 48, "k8.f32.tf32.tf32", ", 1, 1", "%48", "%49", "%50")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 96, 48, "k32.f32.e4m3.e4m3", ", 1, 1", "%48", "%49", "%50") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 96, 48, "k32.f32.e5m2.e5m2", ", 1, 1", "%48", "%49", "%50") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 96, 48, "k32.s32.s8.s8", "", "%48", "%49", "%50")
#define GPUKIT_WGMMA_TYPES128(turns)                                                                 \
  GPUKIT_WGMMA(half, float, "f", 128, 64, "k16.f32.f16.f16", turns, "%64", "%65", "%66")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 128, 64, "k16.f32.bf16.bf16", turns, "%64", "%65", "%66")       \
  GPUKIT_WGMMA(float, float, "f", 128, 64, "k8.f32.tf32.tf32", ", 1, 1", "%64", "%65", "%66")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 128, 64, "k32.f32.e4m3.e4m3", ", 1, 1", "%64", "%65", "%66") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 128, 64, "k32.f32.e5m2.e5m2", ", 1, 1", "%64", "%65", "%66") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 128, 64, "k32.s32.s8.s8", "", "%64", "%65", "%66")
#define GPUKIT_WGMMA_TYPES192(turns)                                                                 \
  GPUKIT_WGMMA(half, float, "f", 192, 96, "k16.f32.f16.f16", turns, "%96", "%97", "%98")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 192, 96, "k16.f32.bf16.bf16", turns, "%96", "%97", "%98")       \
  GPUKIT_WGMMA(float, float, "f", 192, 96, "k8.f32.tf32.tf32", ", 1, 1", "%96", "%97", "%98")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 192, 96, "k32.f32.e4m3.e4m3", ", 1, 1", "%96", "%97", "%98") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 192, 96, "k32.f32.e5m2.e5m2", ", 1, 1", "%96", "%97", "%98") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 192, 96, "k32.s32.s8.s8", "", "%96", "%97", "%98")
#define GPUKIT_WGMMA_TYPES256(turns)                                                                     \
  GPUKIT_WGMMA(half, float, "f", 256, 128, "k16.f32.f16.f16", turns, "%128", "%129", "%130")             \
  GPUKIT_WGMMA(bfloat16, float, "f", 256, 128, "k16.f32.bf16.bf16", turns, "%128", "%129", "%130")       \
  GPUKIT_WGMMA(float, float, "f", 256, 128, "k8.f32.tf32.tf32", ", 1, 1", "%128", "%129", "%130")        \
  GPUKIT_WGMMA(float8_e4m3, float, "f", 256, 128, "k32.f32.e4m3.e4m3", ", 1, 1", "%128", "%129", "%130") \
  GPUKIT_WGMMA(float8_e5m2, float, "f", 256, 128, "k32.f32.e5m2.e5m2", ", 1, 1", "%128", "%129", "%130") \
  GPUKIT_WGMMA(int8_t, int32_t, "r", 256, 128, "k32.s32.s8.s8", "", "%128", "%129", "%130")
GPUKIT_WGMMA_TYPES16(", 1, 1, %11, %12")
GPUKIT_WGMMA_TYPES32(", 1, 1, %19, %20")
GPUKIT_WGMMA_TYPES64(", 1, 1, %35, %36")
GPUKIT_WGMMA_TYPES96(", 1, 1, %51, %52")
GPUKIT_WGMMA_TYPES128(", 1, 1, %67, %68")
GPUKIT_WGMMA_TYPES192(", 1, 1, %99, %100")
GPUKIT_WGMMA_TYPES256(", 1, 1, %131, %132")
#define GPUKIT_WGMMA_HALVES(N, R, A, B, P, turns)                         \
  GPUKIT_WGMMA(half, float, "f", N, R, "k16.f32.f16.f16", turns, A, B, P) \
  GPUKIT_WGMMA(bfloat16, float, "f", N, R, "k16.f32.bf16.bf16", turns, A, B, P)
GPUKIT_WGMMA_HALVES(80, 40, "%40", "%41", "%42", ", 1, 1, %43, %44")
GPUKIT_WGMMA_HALVES(112, 56, "%56", "%57", "%58", ", 1, 1, %59, %60")
GPUKIT_WGMMA_HALVES(144, 72, "%72", "%73", "%74", ", 1, 1, %75, %76")
GPUKIT_WGMMA_HALVES(160, 80, "%80", "%81", "%82", ", 1, 1, %83, %84")
GPUKIT_WGMMA_HALVES(176, 88, "%88", "%89", "%90", ", 1, 1, %91, %92")
GPUKIT_WGMMA_HALVES(208, 104, "%104", "%105", "%106", ", 1, 1, %107, %108")
GPUKIT_WGMMA_HALVES(224, 112, "%112", "%113", "%114", ", 1, 1, %115, %116")
GPUKIT_WGMMA_HALVES(240, 120, "%120", "%121", "%122", ", 1, 1, %123, %124")
GPUKIT_WGMMA(float8_e4m3, float, "f", 144, 72, "k32.f32.e4m3.e4m3", ", 1, 1", "%72", "%73", "%74")

/// With a in registers, of 32 bytes of K: of its warp's 16 rows a thread has rows lane / 4 and lane / 4 + 8 at bytes
/// 4 (lane % 4) of K, then the same two 16 bytes further. float stands for TF32. TurnB: b lies along N.
template <typename T, int N, int TurnB = 0>
struct WgmmaTaken;

#define GPUKIT_WGMMA_TAKEN(T, N, R, kind, turn, tail, A, B, P)                                         \
  template <>                                                                                          \
  struct WgmmaTaken<T, N, turn> {                                                                      \
    static GPUKIT_DEVICE void run(float (&d)[R], const uint32_t (&a)[4], uint64_t b, int add) {        \
      asm volatile("{.reg .pred p; setp.ne.b32 p, " P ", 0; wgmma.mma_async.sync.aligned.m64n" #N kind \
                   " {" GPUKIT_WGMMA_REGS##R "}, {" A "}, " B ", p, 1, 1" tail ";}"                    \
                   : GPUKIT_WGMMA_OUT##R("+f", 0)                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                    \
    }                                                                                                  \
  };
#define GPUKIT_WGMMA_TAKEN32(N, R, A, B, P) GPUKIT_WGMMA_TAKEN(float, N, R, "k8.f32.tf32.tf32", 0, "", A, B, P)
#define GPUKIT_WGMMA_TAKEN16(N, R, A, B, P)                            \
  GPUKIT_WGMMA_TAKEN(half, N, R, "k16.f32.f16.f16", 0, ", 0", A, B, P) \
  GPUKIT_WGMMA_TAKEN(bfloat16, N, R, "k16.f32.bf16.bf16", 0, ", 0", A, B, P)
#define GPUKIT_WGMMA_TAKEN_TURNED(N, R, A, B, P)                       \
  GPUKIT_WGMMA_TAKEN(half, N, R, "k16.f32.f16.f16", 1, ", 1", A, B, P) \
  GPUKIT_WGMMA_TAKEN(bfloat16, N, R, "k16.f32.bf16.bf16", 1, ", 1", A, B, P)
GPUKIT_WGMMA_TAKEN32(64, 32, "%32, %33, %34, %35", "%36", "%37")
GPUKIT_WGMMA_TAKEN32(128, 64, "%64, %65, %66, %67", "%68", "%69")
GPUKIT_WGMMA_TAKEN32(192, 96, "%96, %97, %98, %99", "%100", "%101")
GPUKIT_WGMMA_TAKEN32(256, 128, "%128, %129, %130, %131", "%132", "%133")
GPUKIT_WGMMA_TAKEN(float8_e4m3, 112, 56, "k32.f32.e4m3.e4m3", 0, "", "%56, %57, %58, %59", "%60", "%61")
GPUKIT_WGMMA_TAKEN(float8_e4m3, 120, 60, "k32.f32.e4m3.e4m3", 0, "", "%60, %61, %62, %63", "%64", "%65")
GPUKIT_WGMMA_TAKEN(float8_e4m3, 128, 64, "k32.f32.e4m3.e4m3", 0, "", "%64, %65, %66, %67", "%68", "%69")
GPUKIT_WGMMA_TAKEN(float8_e4m3, 144, 72, "k32.f32.e4m3.e4m3", 0, "", "%72, %73, %74, %75", "%76", "%77")
GPUKIT_WGMMA_TAKEN(float8_e4m3, 224, 112, "k32.f32.e4m3.e4m3", 0, "", "%112, %113, %114, %115", "%116", "%117")
GPUKIT_WGMMA_TAKEN16(8, 4, "%4, %5, %6, %7", "%8", "%9")
GPUKIT_WGMMA_TAKEN16(16, 8, "%8, %9, %10, %11", "%12", "%13")
GPUKIT_WGMMA_TAKEN16(32, 16, "%16, %17, %18, %19", "%20", "%21")
GPUKIT_WGMMA_TAKEN16(64, 32, "%32, %33, %34, %35", "%36", "%37")
GPUKIT_WGMMA_TAKEN16(96, 48, "%48, %49, %50, %51", "%52", "%53")
GPUKIT_WGMMA_TAKEN16(128, 64, "%64, %65, %66, %67", "%68", "%69")
GPUKIT_WGMMA_TAKEN16(160, 80, "%80, %81, %82, %83", "%84", "%85")
GPUKIT_WGMMA_TAKEN16(192, 96, "%96, %97, %98, %99", "%100", "%101")
GPUKIT_WGMMA_TAKEN_TURNED(64, 32, "%32, %33, %34, %35", "%36", "%37")
GPUKIT_WGMMA_TAKEN_TURNED(96, 48, "%48, %49, %50, %51", "%52", "%53")
GPUKIT_WGMMA_TAKEN_TURNED(128, 64, "%64, %65, %66, %67", "%68", "%69")
GPUKIT_WGMMA_TAKEN_TURNED(192, 96, "%96, %97, %98, %99", "%100", "%101")
GPUKIT_WGMMA_TAKEN_TURNED(256, 128, "%128, %129, %130, %131", "%132", "%133")

}  // namespace gpukit
