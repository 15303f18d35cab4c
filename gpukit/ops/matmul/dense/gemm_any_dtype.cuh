// matmul: one block makes 64 x 64 outputs, 4 x 4 per thread, from slices of 16 steps of k staged in shared memory.
// 256 threads. Any sizes and strides; tiles beyond the grid are reached by its stride. Sums run over k in ascending
// order.
#pragma once
#include "gpukit/ops/common/half.cuh"
#include "gpukit/ops/matmul/plan/matmul_problem.cuh"

namespace gpukit {

/// How elements of T are summed: 16-bit floats in float, integers as unsigned so that they wrap around.
template <typename T>
struct MatmulSum {
  using type = uint32_t;
  static GPUKIT_DEVICE type load(T v) { return static_cast<type>(v); }
  static GPUKIT_DEVICE type add_product(type sum, type a, type b) { return sum + a * b; }
};
template <>
struct MatmulSum<bool> {
  using type = uint32_t;
  static GPUKIT_DEVICE type load(bool v) { return v ? 1u : 0u; }
  static GPUKIT_DEVICE type add_product(type sum, type a, type b) { return sum | (a & b); }
};
struct MatmulSum64 {
  using type = uint64_t;
  static GPUKIT_DEVICE type load(uint64_t v) { return v; }
  static GPUKIT_DEVICE type add_product(type sum, type a, type b) { return sum + a * b; }
};
template <>
struct MatmulSum<int64_t> : MatmulSum64 {};
template <>
struct MatmulSum<uint64_t> : MatmulSum64 {};
struct MatmulSumFloat {
  using type = float;
  static GPUKIT_DEVICE float load(float v) { return v; }
  static GPUKIT_DEVICE float load(half v) { return to_float(v); }
  static GPUKIT_DEVICE float load(bfloat16 v) { return to_float(v); }
  static GPUKIT_DEVICE float add_product(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
};
template <>
struct MatmulSum<float> : MatmulSumFloat {};
template <>
struct MatmulSum<half> : MatmulSumFloat {};
template <>
struct MatmulSum<bfloat16> : MatmulSumFloat {};
template <>
struct MatmulSum<double> {
  using type = double;
  static GPUKIT_DEVICE double load(double v) { return v; }
  static GPUKIT_DEVICE double add_product(double sum, double a, double b) { return __fma_rn(a, b, sum); }
};
template <>
struct MatmulSum<complex<float>> {
  using type = complex<float>;
  static GPUKIT_DEVICE type load(type v) { return v; }
  static GPUKIT_DEVICE type add_product(type sum, type a, type b) {
    return {__fmaf_rn(-a.im, b.im, __fmaf_rn(a.re, b.re, sum.re)),
            __fmaf_rn(a.im, b.re, __fmaf_rn(a.re, b.im, sum.im))};
  }
};
template <>
struct MatmulSum<complex<double>> {
  using type = complex<double>;
  static GPUKIT_DEVICE type load(type v) { return v; }
  static GPUKIT_DEVICE type add_product(type sum, type a, type b) {
    return {__fma_rn(-a.im, b.im, __fma_rn(a.re, b.re, sum.re)), __fma_rn(a.im, b.re, __fma_rn(a.re, b.im, sum.im))};
  }
};

template <typename R>
GPUKIT_DEVICE complex<R> negated(complex<R> sum) {
  return {R(0) - sum.re, R(0) - sum.im};
}

/// Sums can start with what they are stored as.
template <typename Out, typename Sum>
inline constexpr bool kSubtracts = false;
template <typename Sum>
inline constexpr bool kSubtracts<Sum, Sum> = true;

template <typename Out, typename Sum>
struct MatmulStore {
  static GPUKIT_DEVICE Out of(Sum v) { return static_cast<Out>(v); }
};
template <>
struct MatmulStore<half, float> {
  static GPUKIT_DEVICE half of(float v) { return to_half(v); }
};
template <>
struct MatmulStore<bfloat16, float> {
  static GPUKIT_DEVICE bfloat16 of(float v) { return to_bfloat16(v); }
};
template <typename Sum>
struct MatmulStore<bool, Sum> {
  static GPUKIT_DEVICE bool of(Sum v) { return v != 0; }
};

inline constexpr int kMatmulTile = 64, kMatmulDepth = 16, kMatmulThreads = 256;
inline constexpr int kMatmulLoads = kMatmulTile * kMatmulDepth / kMatmulThreads;  // per thread, operand and slice

/// One operand's slice: `lane` is a row of a or a column of b. Threads run along whichever of the two is dense in
/// memory.
struct MatmulSlice {
  int lane[kMatmulLoads], k[kMatmulLoads];
  GPUKIT_DEVICE MatmulSlice(bool along_k) {
#pragma unroll
    for (int i = 0; i < kMatmulLoads; ++i) {
      const int e = static_cast<int>(threadIdx.x) + i * kMatmulThreads;
      lane[i] = along_k ? e / kMatmulDepth : e % kMatmulTile;
      k[i] = along_k ? e % kMatmulDepth : e / kMatmulTile;
    }
  }
};

template <typename T, typename Sum>
GPUKIT_DEVICE void load_slice(Sum (&to)[kMatmulLoads], const MatmulSlice& slice, const T* from, int64_t lanes,
                              int64_t lane_stride, int64_t depth, int64_t k_stride) {
#pragma unroll
  for (int i = 0; i < kMatmulLoads; ++i) {
    const bool inside = slice.lane[i] < lanes && slice.k[i] < depth;
    to[i] = inside ? MatmulSum<T>::load(from[slice.lane[i] * lane_stride + slice.k[i] * k_stride]) : Sum{};
  }
}

template <typename T, typename Out>
__global__ void __launch_bounds__(kMatmulThreads, 1) matmul(Out* out, const T* a, const T* b, MatmulProblem s) {
  using Sum = typename MatmulSum<T>::type;
  constexpr int kPitch = kMatmulTile + 4;  // spreads the banks and keeps 4 lanes aligned
  __shared__ __align__(16) Sum a_slice[kMatmulDepth][kPitch];
  __shared__ __align__(16) Sum b_slice[kMatmulDepth][kPitch];

  const int thread_row = static_cast<int>(threadIdx.x) / 16 * 4, thread_column = static_cast<int>(threadIdx.x) % 16 * 4;
  const MatmulSlice a_map(s.a_k == 1 && s.a_m != 1), b_map(s.b_k == 1 && s.b_n != 1);
  const int64_t row_tiles = (s.m + kMatmulTile - 1) / kMatmulTile, column_tiles = (s.n + kMatmulTile - 1) / kMatmulTile;
  const int64_t tiles = row_tiles * column_tiles;

  for (int64_t tile = blockIdx.x; tile < s.batches * tiles; tile += gridDim.x) {
    const MatmulOffsets at = batch_offsets(s, tile / tiles);
    const int64_t row = tile % tiles / column_tiles * kMatmulTile, column = tile % column_tiles * kMatmulTile;
    const T* a_tile = a + at.a + row * s.a_m;
    const T* b_tile = b + at.b + column * s.b_n;

    Sum sums[4][4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[i][j] = Sum{};

    Out* out_tile = out + at.out;
    const auto each_output = [&](auto&& f) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int64_t r = row + thread_row + i, c = column + thread_column + j;
          if (r < s.m && c < s.n) f(sums[i][j], out_tile[r * s.out_m + c * s.out_n]);
        }
    };
    if constexpr (kSubtracts<Out, Sum>)
      if (s.subtracts) each_output([](Sum& sum, const Out& first) { sum = negated(first); });

    Sum a_next[kMatmulLoads], b_next[kMatmulLoads];
    load_slice<T>(a_next, a_map, a_tile, s.m - row, s.a_m, s.k, s.a_k);
    load_slice<T>(b_next, b_map, b_tile, s.n - column, s.b_n, s.k, s.b_k);
    for (int64_t k = 0; k < s.k; k += kMatmulDepth) {
#pragma unroll
      for (int i = 0; i < kMatmulLoads; ++i) {
        a_slice[a_map.k[i]][a_map.lane[i]] = a_next[i];
        b_slice[b_map.k[i]][b_map.lane[i]] = b_next[i];
      }
      __syncthreads();
      const int64_t following = k + kMatmulDepth;
      if (following < s.k) {
        load_slice<T>(a_next, a_map, a_tile + following * s.a_k, s.m - row, s.a_m, s.k - following, s.a_k);
        load_slice<T>(b_next, b_map, b_tile + following * s.b_k, s.n - column, s.b_n, s.k - following, s.b_k);
      }
      const auto step = [&](int kk) {
        Sum x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          x[i] = a_slice[kk][thread_row + i];
          y[i] = b_slice[kk][thread_column + i];
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[i][j] = MatmulSum<T>::add_product(sums[i][j], x[i], y[j]);
      };
      // A padded step would turn a sum of -0 into +0, so the last slice stops at k.
      if (following <= s.k) {
#pragma unroll 4
        for (int kk = 0; kk < kMatmulDepth; ++kk) step(kk);
      } else {
#pragma unroll 1
        for (int kk = 0; kk < static_cast<int>(s.k - k); ++kk) step(kk);
      }
      __syncthreads();
    }

    each_output([&](Sum sum, Out& place) {
      if constexpr (kSubtracts<Out, Sum>)
        if (s.subtracts) sum = negated(sum);
      place = MatmulStore<Out, Sum>::of(sum);
    });
  }
}

}  // namespace gpukit
