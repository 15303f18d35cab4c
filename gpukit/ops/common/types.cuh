// Names every kernel uses. NVRTC may have no headers at all, so integer types come from here.
// Structs shared with host code include this file too: it declares nothing the host already has.
#pragma once

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define GPUKIT_DEVICE __device__ __forceinline__
#else
#include <cstdint>
#define GPUKIT_DEVICE inline
#endif

namespace gpukit {

inline constexpr int kKernelRank = 8;

/// Mirror of StridedSpace for kernels: sizes and element strides of up to N operands, innermost axis last.
template <int N>
struct KernelSpace {
  int32_t rank;
  int64_t size;
  int64_t shape[kKernelRank];
  int64_t strides[N][kKernelRank];
};

}  // namespace gpukit
