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
