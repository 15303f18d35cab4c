// gemv: out = w x for one vector, by CUDA cores at the speed of memory. Weights of 16-bit floats in either layout.
//
// The order of sums is a function of the sizes and template arguments alone: every thread walks its own k in ascending
// order, then lanes, warps and blocks are added by fixed trees. It differs from the order of the tensor cores.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/hopper/cluster.cuh"
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/matmul/dense/gemv_problem.cuh"
#include "gpukit/ops/matmul/dense/linear_end.cuh"

namespace gpukit {

/// 16 bytes that are read once: they leave nothing in the L1. Neither this nor load_cached is an .nc load: a kernel
/// that starts early is there while they are written.
GPUKIT_DEVICE uint4 load_streamed(const void* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
GPUKIT_DEVICE uint4 load_cached(const void* p) {
  uint4 v;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}

/// The two numbers of a word.
template <typename T>
struct FloatPair;
template <>
struct FloatPair<bfloat16> {
  static GPUKIT_DEVICE float low(uint32_t word) { return __uint_as_float(word << 16); }
  static GPUKIT_DEVICE float high(uint32_t word) { return __uint_as_float(word & 0xffff0000u); }
};
template <>
struct FloatPair<half> {
  static GPUKIT_DEVICE float low(uint32_t word) { return to_float(half{static_cast<uint16_t>(word)}); }
  static GPUKIT_DEVICE float high(uint32_t word) { return to_float(half{static_cast<uint16_t>(word >> 16)}); }
};

template <typename T>
GPUKIT_DEVICE void unpack(float (&to)[8], const uint4& v) {
  const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = FloatPair<T>::low(words[i]);
    to[2 * i + 1] = FloatPair<T>::high(words[i]);
  }
}

/// The block's row of each of kMatrices matrices, contiguous along k, by x: `sums` of thread 0, which gets true. A
/// thread has kMatrices * kDepth loads under way. Rows and x are at multiples of 16 bytes, k is one of 8.
template <typename T, int kMatrices, int kDepth>
GPUKIT_DEVICE bool multiply_rows(float (&sums)[kMatrices], const T* const (&rows)[kMatrices], const T* x,
                                 const GemvProblem& s) {
  constexpr int kWarps = kGemvThreads / 32, kStep = kGemvThreads * 8;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  let_next_start();
  if (threadIdx.x == 0 && blockIdx.x < s.early_blocks) {
#pragma unroll
    for (int r = 0; r < kMatrices; ++r) prefetch_rows(rows[r], s.k * static_cast<int64_t>(sizeof(T)));
  }
  wait_for_previous();
#pragma unroll
  for (int r = 0; r < kMatrices; ++r) sums[r] = 0.0f;
  const auto multiply = [&](const uint4(&loaded)[kMatrices], const T* at) {
    float x8[8];
    unpack<T>(x8, load_cached(at));
#pragma unroll
    for (int r = 0; r < kMatrices; ++r) {
      float w8[8];
      unpack<T>(w8, loaded[r]);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[r] = __fmaf_rn(w8[i], x8[i], sums[r]);
    }
  };

  int64_t k = (warp * 32 + lane) * 8;
#pragma unroll 1
  for (; k + (kDepth - 1) * kStep < s.k; k += kDepth * kStep) {
    uint4 loaded[kDepth][kMatrices];
#pragma unroll
    for (int d = 0; d < kDepth; ++d)
#pragma unroll
      for (int r = 0; r < kMatrices; ++r) loaded[d][r] = load_streamed(rows[r] + k + d * kStep);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) multiply(loaded[d], x + k + d * kStep);
  }
  if constexpr (kDepth > 1) {
    uint4 loaded[kDepth - 1][kMatrices];
#pragma unroll
    for (int d = 0; d < kDepth - 1; ++d)
      if (k + d * kStep < s.k) {
#pragma unroll
        for (int r = 0; r < kMatrices; ++r) loaded[d][r] = load_streamed(rows[r] + k + d * kStep);
      }
#pragma unroll
    for (int d = 0; d < kDepth - 1; ++d)
      if (k + d * kStep < s.k) multiply(loaded[d], x + k + d * kStep);
  }

  __shared__ float partial[kWarps][kMatrices];
#pragma unroll
  for (int r = 0; r < kMatrices; ++r) {
#pragma unroll
    for (int mask = 16; mask != 0; mask /= 2) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], mask);
    if (lane == r) partial[warp][r] = sums[r];
  }
  __syncthreads();
  if (threadIdx.x != 0) return false;
#pragma unroll
  for (int r = 0; r < kMatrices; ++r) {
    sums[r] = partial[0][r];
#pragma unroll
    for (int i = 1; i < kWarps; ++i) sums[r] += partial[i][r];
  }
  return true;
}

// gemv, gemv_linear, gemv_swiglu: one block an output.
template <typename T, typename Out>
__global__ void __launch_bounds__(kGemvThreads)
    gemv(Out* out, const T* w, const T* x, const __grid_constant__ GemvProblem s) {
  const T* const rows[1] = {w + blockIdx.x * s.w_stride};
  float sums[1];
  if (multiply_rows<T, 1, 2>(sums, rows, x, s)) out[blockIdx.x * s.out_stride] = store<Out>(sums[0]);
}

/// A layer of one row.
template <typename T>
__global__ void __launch_bounds__(kGemvThreads)
    gemv_linear(T* out, const T* w, const T* x, const __grid_constant__ GemvProblem s, const T* bias, const T* residual,
                const __grid_constant__ LinearSteps e) {
  const T* const rows[1] = {w + blockIdx.x * s.w_stride};
  float sums[1];
  if (!multiply_rows<T, 1, 2>(sums, rows, x, s)) return;
  const float ended = end_layer(sums[0], e, load_or_nothing(bias, blockIdx.x), load_or_nothing(residual, blockIdx.x));
  out[blockIdx.x * s.out_stride] = store<T>(ended);
}

/// silu(gate x) * (up x) of one row.
template <typename T>
__global__ void __launch_bounds__(kGemvThreads)
    gemv_swiglu(T* out, const T* gate, const T* up, const T* x, const __grid_constant__ GemvProblem s) {
  const T* const rows[2] = {gate + blockIdx.x * s.w_stride, up + blockIdx.x * s.w_stride};
  float sums[2];
  if (multiply_rows<T, 2, 1>(sums, rows, x, s))
    out[blockIdx.x * s.out_stride] = store<T>(silu_short(sums[0]) * sums[1]);
}

/// Blocks of gemv_columns on an SM. 0 leaves it to the compiler, which on SM 90 keeps more of them with fewer
/// registers.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
inline constexpr int kColumnsResident = 0;
#else
inline constexpr int kColumnsResident = 2;
#endif

/// Rows of w contiguous along n: w is [k, n]. `kLanes` lanes (8, 16 or 32) make 8 outputs each; the other lanes of a
/// warp, the warps and the `kBlocks` blocks of a cluster share k. Grid: kBlocks times ceil(n / (8 kLanes)). Every
/// address is a multiple of 16 bytes, n of 8.
template <typename T, typename Out, int kLanes, int kThreads, int kBlocks, int kDepth>
__global__ void __launch_bounds__(kThreads, kColumnsResident) GPUKIT_CLUSTER(kBlocks)
    gemv_columns(Out* out, const T* w, const T* x, const __grid_constant__ GemvProblem s) {
  constexpr int kRowsAtOnce = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes, row = static_cast<int>(threadIdx.x) / kLanes;
  const int block = static_cast<int>(blockIdx.x) % kBlocks;
  constexpr int kSharers = working_blocks<kBlocks>();
  if (block >= kSharers) return;
  const int64_t column = (static_cast<int64_t>(blockIdx.x) / kBlocks * kLanes + lane) * 8;
  constexpr int64_t kRound = kRowsAtOnce * kDepth;
  const int64_t share = ((s.k + kSharers - 1) / kSharers + kRound - 1) / kRound * kRound;
  const int64_t end = (block + 1) * share < s.k ? (block + 1) * share : s.k;
  const bool inside = column < s.n;
  const T* from = w + (inside ? column : 0);

  float sums[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) sums[i] = 0.0f;
  const auto multiply = [&](const uint4& loaded, int64_t k) {
    float w8[8];
    unpack<T>(w8, loaded);
    const float x1 = to_float(x[k]);
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = __fmaf_rn(w8[i], x1, sums[i]);
  };
  int64_t k = block * share + row;
#pragma unroll 1
  for (; k + (kDepth - 1) * kRowsAtOnce < end; k += kRound) {
    uint4 loaded[kDepth];
#pragma unroll
    for (int d = 0; d < kDepth; ++d) loaded[d] = load_streamed(from + (k + d * kRowsAtOnce) * s.w_stride);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) multiply(loaded[d], k + d * kRowsAtOnce);
  }
#pragma unroll 1
  for (; k < end; k += kRowsAtOnce) multiply(load_streamed(from + k * s.w_stride), k);

  __shared__ float partial[kThreads / 32][kLanes * 8];
  __shared__ float total[kLanes * 8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int mask = 16; mask >= kLanes; mask /= 2) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], mask);
  if (static_cast<int>(threadIdx.x) % 32 < kLanes) {
#pragma unroll
    for (int i = 0; i < 8; ++i) partial[threadIdx.x / 32][lane * 8 + i] = sums[i];
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.x);
  const bool mine = thread < kLanes * 8;
  if (mine) {
    float sum = partial[0][thread];
#pragma unroll
    for (int i = 1; i < kThreads / 32; ++i) sum += partial[i][thread];
    total[thread] = sum;
  }
  sync_cluster<kSharers>();
  const int64_t at = static_cast<int64_t>(blockIdx.x) / kBlocks * (kLanes * 8) + thread;
  if (block == 0 && mine && at < s.n) {
    float sum = total[thread];
#pragma unroll
    for (int i = 1; i < kSharers; ++i) sum += load_from_block(&total[thread], i);
    out[at * s.out_stride] = store<Out>(sum);
  }
  // Nobody leaves while its shared memory is read.
  if constexpr (kSharers > 1) sync_cluster<kSharers>();
}

}  // namespace gpukit
