// scaled_matmul: one block makes 64 x 64 outputs, 4 x 4 per thread, from slices of 16 steps of k that are transposed
// into numbers on their way to shared memory. 256 threads. Any sizes, strides and formats; groups of k are multiples
// of 16. Grouped: rows of a tile are taken expert by expert.
#pragma once
#include "gpukit/ops/common/fault.cuh"
#include "gpukit/ops/matmul/plan/scaled_problem.cuh"

namespace gpukit {

inline constexpr int kScaledTile = 64, kScaledDepth = 16, kScaledThreads = 256;
inline constexpr int kScaledLoads = kScaledTile * kScaledDepth / kScaledThreads;  // per thread, operand and slice

/// Integers are summed exactly, without groups and chains.
template <typename Sum>
inline constexpr bool kIsExact = false;
template <>
inline constexpr bool kIsExact<int> = true;

GPUKIT_DEVICE float add_product(float sum, float a, float b) { return __fmaf_rn(a, b, sum); }
GPUKIT_DEVICE int add_product(int sum, int a, int b) { return static_cast<int>(sum + static_cast<uint32_t>(a) * b); }

/// The smallest expert of the tile above `last`, or -1.
GPUKIT_DEVICE int32_t next_expert(const int32_t (&experts)[kScaledTile], int32_t last) {
  int32_t next = -1;
#pragma unroll 1
  for (int i = 0; i < kScaledTile; ++i)
    if (experts[i] > last && (next < 0 || experts[i] < next)) next = experts[i];
  return next;
}

GPUKIT_DEVICE void store_zero(void* out, Code code, int64_t at) {
  if (code == Code::int32)
    static_cast<int32_t*>(out)[at] = 0;
  else
    store_number(out, code, at, 0.0f);
}

/// One operand; `rows` of a tile of it that are not there are negative.
struct ScaledSource {
  const ScaledOperand& layout;
  const void* data;
  const void* scale;
  const int8_t* zero;
  int64_t batch;
};

/// One slice as numbers, from step k on; what lies outside becomes 0. A thread's elements are one step of four rows.
template <typename Sum, int kPitch>
GPUKIT_DEVICE void load_slice(Sum (&slice)[kScaledDepth][kPitch], const ScaledSource& from,
                              const int64_t (&rows)[kScaledTile], int64_t k, int64_t end) {
  const ScaledOperand& o = from.layout;
  const int step = static_cast<int>(threadIdx.x) % kScaledDepth, lane = static_cast<int>(threadIdx.x) / kScaledDepth;
  const auto each = [&](auto number) {
    Sum loaded[kScaledLoads];
#pragma unroll
    for (int i = 0; i < kScaledLoads; ++i) {
      const int64_t row = rows[lane + i * (kScaledTile / kScaledLoads)];
      loaded[i] = row >= 0 && k + step < end ? number(row, k + step) : Sum(0);
    }
#pragma unroll
    for (int i = 0; i < kScaledLoads; ++i) slice[step][lane + i * (kScaledTile / kScaledLoads)] = loaded[i];
  };
  const auto at = [&](int64_t row, int64_t step) { return from.batch * o.batch + row * o.row + step * o.k; };
  const auto nibble = [&](int64_t row, int64_t step) {
    return nibble_of(static_cast<const uint8_t*>(from.data)[at(row, step >> 1)], step);
  };
  if constexpr (kIsExact<Sum>) {
    if (o.code == Code::int8)
      each([&](int64_t r, int64_t c) { return static_cast<Sum>(static_cast<const int8_t*>(from.data)[at(r, c)]); });
    else
      each([&](int64_t r, int64_t c) { return static_cast<Sum>(int4_value(nibble(r, c))); });
  } else {
    switch (o.code) {
      case Code::float32:
        each([&](int64_t r, int64_t c) { return static_cast<const float*>(from.data)[at(r, c)]; });
        break;
      case Code::float16:
        each([&](int64_t r, int64_t c) { return to_float(static_cast<const half*>(from.data)[at(r, c)]); });
        break;
      case Code::bfloat16:
        each([&](int64_t r, int64_t c) { return to_float(static_cast<const bfloat16*>(from.data)[at(r, c)]); });
        break;
      case Code::float8_e4m3:
        each([&](int64_t r, int64_t c) { return to_float(static_cast<const float8_e4m3*>(from.data)[at(r, c)]); });
        break;
      case Code::float8_e5m2:
        each([&](int64_t r, int64_t c) { return to_float(static_cast<const float8_e5m2*>(from.data)[at(r, c)]); });
        break;
      case Code::int8:
        each([&](int64_t r, int64_t c) { return static_cast<float>(static_cast<const int8_t*>(from.data)[at(r, c)]); });
        break;
      case Code::int4:
        each([&](int64_t r, int64_t c) {
          const int32_t zero = from.zero != nullptr ? from.zero[scale_at(o.zero, from.batch, r, c)] : 0;
          return static_cast<float>(int4_value(nibble(r, c)) - zero);
        });
        break;
      default:
        each([&](int64_t r, int64_t c) {
          const float8_e4m3 scale = static_cast<const float8_e4m3*>(from.scale)[scale_at(o.scale, from.batch, r, c)];
          return e2m1_value(nibble(r, c)) * to_float(scale);
        });
    }
  }
}

template <typename Sum>
__global__ void __launch_bounds__(kScaledThreads, 2)
    scaled_matmul(void* out, const void* a, const void* a_scale, const float* a_tensor_scale, const void* b,
                  const void* b_scale, const int8_t* b_zero, const float* b_tensor_scale, const void* bias,
                  const float* out_scale, const int32_t* ids, Fault* fault, const __grid_constant__ ScaledProblem s) {
  constexpr int kPitch = kScaledTile + 4;  // spreads the banks and keeps 4 lanes aligned
  constexpr bool kExact = kIsExact<Sum>;
  __shared__ __align__(16) Sum slices[2][kScaledDepth][kPitch];
  __shared__ Sum totals_of_tile[kScaledTile][kScaledTile + 1];
  __shared__ int64_t rows[2][kScaledTile];  // of a and b; -1: none
  __shared__ int32_t experts[kScaledTile];  // of the rows of a; -1: none

  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = thread / 16 * 4, thread_column = thread % 16 * 4;
  const int64_t column_tiles = (s.n + kScaledTile - 1) / kScaledTile;
  const int64_t tiles = (s.m + kScaledTile - 1) / kScaledTile * column_tiles;

  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t first_row = tile / column_tiles * kScaledTile, first_column = tile % column_tiles * kScaledTile;
    if (thread < kScaledTile) {
      const int64_t row = first_row + thread, column = first_column + thread;
      rows[1][thread] = column < s.n ? column : -1;
      experts[thread] = row >= s.m ? -1 : ids == nullptr ? 0 : ids[row * s.id_m];
      if (experts[thread] < 0 || (ids != nullptr && experts[thread] >= s.experts)) {
        if (row < s.m) {
          if (experts[thread] != -1) note_fault(fault, s.fault_op, experts[thread], s.experts);
          for (int64_t c = column - thread; c < s.n && c < column - thread + kScaledTile; ++c)
            store_zero(out, s.out, row * s.out_m + c * s.out_n);
        }
        experts[thread] = -1;
      }
    }
    __syncthreads();

    for (int32_t expert = next_expert(experts, -1); expert >= 0; expert = next_expert(experts, expert)) {
      if (thread < kScaledTile) rows[0][thread] = experts[thread] == expert ? first_row + thread : -1;
      Sum sums[4][4] = {};
      float chains[4][4] = {}, totals[4][4] = {};
#pragma unroll 1
      for (int64_t k = 0; k < s.k; k += kScaledDepth) {
        __syncthreads();
#pragma unroll 1
        for (int side = 0; side < 2; ++side) {
          const ScaledSource source =
              side == 0 ? ScaledSource{s.a, a, a_scale, nullptr, 0} : ScaledSource{s.b, b, b_scale, b_zero, expert};
          load_slice(slices[side], source, rows[side], k, s.k);
        }
        __syncthreads();
        const int depth = s.k - k < kScaledDepth ? static_cast<int>(s.k - k) : kScaledDepth;
#pragma unroll 4
        for (int kk = 0; kk < depth; ++kk) {
          Sum x[4], y[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            x[i] = slices[0][kk][thread_row + i];
            y[i] = slices[1][kk][thread_column + i];
          }
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) sums[i][j] = add_product(sums[i][j], x[i], y[j]);
        }

        if constexpr (!kExact) {
          const int64_t done = k + depth;
          if ((done & (s.group - 1)) != 0 && done != s.k) continue;
          float a_by[4], b_by[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int64_t row = rows[0][thread_row + i], column = rows[1][thread_column + i];
            a_by[i] = row >= 0 ? group_scale(s.a, a_scale, 0, row, k) : 0.0f;
            b_by[i] = column >= 0 ? group_scale(s.b, b_scale, expert, column, k) : 0.0f;
          }
          const bool chain_ends = (done & (s.chain - 1)) == 0 || done == s.k;
#pragma unroll
          for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              chains[i][j] = __fmaf_rn(sums[i][j], a_by[i] * b_by[j], chains[i][j]);
              sums[i][j] = 0.0f;
              if (chain_ends) {
                totals[i][j] += chains[i][j];
                chains[i][j] = 0.0f;
              }
            }
        }
      }

      __syncthreads();
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          totals_of_tile[thread_row + i][thread_column + j] = kExact ? sums[i][j] : static_cast<Sum>(totals[i][j]);
      __syncthreads();
#pragma unroll 1
      for (int e = thread; e < kScaledTile * kScaledTile; e += kScaledThreads) {
        const int64_t row = rows[0][e / kScaledTile], column = rows[1][e % kScaledTile];
        if (row < 0 || column < 0) continue;
        const Sum total = totals_of_tile[e / kScaledTile][e % kScaledTile];
        const int64_t at = row * s.out_m + column * s.out_n;
        if (kExact && s.out == Code::int32) {
          static_cast<int32_t*>(out)[at] = static_cast<int32_t>(total);
          continue;
        }
        const float by = row_scale(s.a, a_scale, a_tensor_scale, 0, row) *
                         row_scale(s.b, b_scale, b_tensor_scale, expert, column) * s.alpha;
        float v = static_cast<float>(total) * by;
        if (bias != nullptr) v += load_bias(bias, s.bias, column * s.bias_n);
        if (out_scale != nullptr) v /= *out_scale;
        store_number(out, s.out, at, v);
      }
      __syncthreads();
    }
    __syncthreads();
  }
}

}  // namespace gpukit
