// Functions compiled for wider registers than every processor has. (The Windows compilers do not keep the stack aligned
// for them.)
#pragma once

#if defined(__x86_64__) && !defined(_WIN32)
#define GPUKIT_X86_LEVELS 1
#define GPUKIT_AVX2 __attribute__((target("avx2,fma")))
#define GPUKIT_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#define GPUKIT_ALWAYS_INLINE __attribute__((always_inline)) inline
#define GPUKIT_NEVER_INLINE __attribute__((noinline))
#else
#define GPUKIT_ALWAYS_INLINE inline
#define GPUKIT_NEVER_INLINE
#endif

namespace gpukit::cpu {

inline int find_vector_level() {
#ifdef GPUKIT_X86_LEVELS
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 2 : avx2 ? 1 : 0;
#else
  return 0;
#endif
}
/// What this processor has: 1 is GPUKIT_AVX2, 2 GPUKIT_AVX512.
inline const int kVectorLevel = find_vector_level();

#ifdef GPUKIT_X86_LEVELS
template <typename Loop, typename... Args>
GPUKIT_AVX2 __attribute__((flatten, noinline)) void run_avx2(Args... args) {
  Loop::run(args...);
}
template <typename Loop, typename... Args>
GPUKIT_AVX512 __attribute__((flatten, noinline)) void run_avx512(Args... args) {
  Loop::run(args...);
}
#endif

/// Loop::run(args...), an always inlined function, in the widest registers there are. What it calls is inlined too.
template <typename Loop, typename... Args>
void run_wide(Args... args) {
#ifdef GPUKIT_X86_LEVELS
  if (kVectorLevel == 2) return run_avx512<Loop, Args...>(args...);
  if (kVectorLevel == 1) return run_avx2<Loop, Args...>(args...);
#endif
  Loop::run(args...);
}

}  // namespace gpukit::cpu
