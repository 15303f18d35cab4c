// quantize: codes and scales of blocks. One warp (kWide: one block of 256 threads) makes one scale and its codes, two
// neighbouring columns per thread and step, so that a packed byte has one writer.
// dequantize: one element per thread and step.
#pragma once
#include "gpukit/ops/quantize/quantize_space.cuh"

namespace gpukit {

inline constexpr int kQuantizeThreads = 256;

/// The part of one block that lies inside the array.
struct QuantizeBlockAt {
  int64_t batch, row, column, rows, columns;
};
GPUKIT_DEVICE QuantizeBlockAt block_at(const QuantizeSpace& s, int64_t index) {
  QuantizeBlockAt at;
  int64_t row_block, column_block;
  at.batch = quotient(quotient(index, s.column_blocks, column_block), s.row_blocks, row_block);
  at.row = row_block * s.block_rows;
  at.column = column_block * s.block_columns;
  at.rows = s.rows - at.row < s.block_rows ? s.rows - at.row : s.block_rows;
  at.columns = s.columns - at.column < s.block_columns ? s.columns - at.column : s.block_columns;
  return at;
}

GPUKIT_DEVICE float number(float v) { return v; }
GPUKIT_DEVICE float number(half v) { return to_float(v); }
GPUKIT_DEVICE float number(bfloat16 v) { return to_float(v); }

/// The largest of `v` over the warp or, kWide, the block. Every thread takes part and gets it.
template <bool kWide>
GPUKIT_DEVICE float group_max(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, mask));
  if constexpr (kWide) {
    __shared__ float warps[kQuantizeThreads / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kQuantizeThreads / 32; ++i) v = fmaxf(v, warps[i]);
  }
  return v;
}

/// largest = the largest finite magnitude of x, by its bits: they order like the numbers. It starts at 0.
template <typename T>
__global__ void __launch_bounds__(kQuantizeThreads)
    largest_magnitude(uint32_t* largest, const T* x, const __grid_constant__ QuantizeSpace s) {
  float m = 0.0f;
  for (int64_t index = blockIdx.x; index < s.blocks; index += gridDim.x) {
    const QuantizeBlockAt at = block_at(s, index);
    const T* from = x + at.batch * s.x_batch + at.row * s.x_row + at.column * s.x_column;
    for (int64_t row = 0; row < at.rows; ++row)
      for (int64_t c = threadIdx.x; c < at.columns; c += kQuantizeThreads)
        m = fmaxf(m, finite_magnitude(number(from[row * s.x_row + c * s.x_column])));
  }
  m = group_max<true>(m);
  if (threadIdx.x == 0) atomicMax(largest, __float_as_uint(m));
}

/// What largest_magnitude left in `scale` becomes the scale of the tensor.
__global__ void finish_scale(float* scale, Code code) {
  if (threadIdx.x == 0) *scale = scale_of_tensor(code, *scale);
}

/// visit(row, column) for this thread's pairs of columns of a block.
template <typename Visit>
GPUKIT_DEVICE void for_each_pair(const QuantizeBlockAt& at, int thread, int threads, Visit visit) {
  const int64_t pairs = (at.columns + 1) / 2;
#pragma unroll 1
  for (int64_t row = 0; row < at.rows; ++row)
#pragma unroll 1
    for (int64_t pair = thread; pair < pairs; pair += threads) visit(row, 2 * pair);
}

/// scale: float32 or, for float4_e2m1, float8_e4m3. zero and whole, the scale of the tensor, are null
/// where the format has none.
template <typename T, bool kWide>
__global__ void __launch_bounds__(kQuantizeThreads, 4)
    quantize(uint8_t* data, void* scale, int8_t* zero, const T* x, const float* whole,
             const __grid_constant__ QuantizeSpace s) {
  constexpr int kThreads = kWide ? kQuantizeThreads : 32;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const int64_t groups = static_cast<int64_t>(gridDim.x) * (kQuantizeThreads / kThreads);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kQuantizeThreads / kThreads) + threadIdx.x / kThreads;
  const float of_all = whole != nullptr ? *whole : 1.0f;

  for (int64_t index = first; index < s.blocks; index += groups) {
    const QuantizeBlockAt at = block_at(s, index);
    const T* from = x + at.batch * s.x_batch + at.row * s.x_row + at.column * s.x_column;
    const auto load = [&](int64_t row, int64_t column) {
      return column < at.columns ? number(from[row * s.x_row + column * s.x_column]) : 0.0f;
    };

    float high = 0.0f, low = 0.0f;  // largest magnitude; with zero points largest and smallest value
    if (s.whole == 0) {
      for_each_pair(at, thread, kThreads, [&](int64_t row, int64_t column) {
        for (int i = 0; i < 2; ++i) {
          const float v = load(row, column + i), m = finite_magnitude(v);
          if (zero == nullptr)
            high = fmaxf(high, m);
          else if (v > 0.0f)
            high = fmaxf(high, m);
          else
            low = fmaxf(low, m);
        }
      });
      high = group_max<kWide>(high);
      if (zero != nullptr) low = -group_max<kWide>(low);
    }

    BlockScale by = {0.0f, 0};
    if (s.code == Code::float4_e2m1) {
      const float8_e4m3 block = nvfp4_block_scale(high, of_all);
      by.divisor = to_float(block) * of_all;
      if (thread == 0) static_cast<uint8_t*>(scale)[index] = block.bits;
    } else if (s.whole != 0) {
      by.divisor = of_all;
    } else {
      by.divisor = zero != nullptr ? asymmetric_scale(low, high) : symmetric_scale(high, s.code);
      if (zero != nullptr) by.zero = zero_code(low, by.divisor);
      if (thread == 0) static_cast<float*>(scale)[index] = by.divisor;
      if (thread == 0 && zero != nullptr) zero[index] = static_cast<int8_t>(by.zero);
    }

    const bool packed = is_packed(s.code);
    const int64_t start = (at.batch * s.rows + at.row) * s.columns + at.column;
    for_each_pair(at, thread, kThreads, [&](int64_t row, int64_t column) {
      uint32_t even = 0, odd = 0;  // one copy of the code below serves both
#pragma unroll 1
      for (int i = 0; i < 2; ++i) {
        even = odd;
        odd = block_code(s.code, zero != nullptr, load(row, column + i), by);
      }
      const int64_t to = start + row * s.columns + column;
      if (packed) {
        data[to / 2] = static_cast<uint8_t>(even | odd << 4);
      } else {
        data[to] = static_cast<uint8_t>(even);
        if (column + 1 < at.columns) data[to + 1] = static_cast<uint8_t>(odd);
      }
    });
  }
}

template <typename T>
struct NumberStore {
  static GPUKIT_DEVICE T of(float v) { return v; }
};
template <>
struct NumberStore<half> {
  static GPUKIT_DEVICE half of(float v) { return to_half(v); }
};
template <>
struct NumberStore<bfloat16> {
  static GPUKIT_DEVICE bfloat16 of(float v) { return to_bfloat16(v); }
};

template <typename T>
__global__ void __launch_bounds__(kQuantizeThreads)
    dequantize(T* out, const uint8_t* data, const void* scale, const int8_t* zero, const float* tensor_scale,
               const __grid_constant__ DequantizeSpace s) {
  const float whole = tensor_scale != nullptr ? *tensor_scale : 1.0f;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kQuantizeThreads + threadIdx.x; i < s.size;
       i += static_cast<int64_t>(gridDim.x) * kQuantizeThreads) {
    int64_t row, column;
    const int64_t batch = quotient(quotient(i, s.columns, column), s.rows, row);
    const int64_t at = is_packed(s.code) ? column / 2 : column;
    const uint8_t byte = data[batch * s.batch + row * s.row + at * s.column];
    const int32_t shift = zero != nullptr ? zero[scale_at(s.zero, batch, row, column)] : 0;
    const float v = dequantized(s.code, byte, column, scale, scale_at(s.scale, batch, row, column), shift, whole);
    out[batch * s.out_batch + row * s.out_row + column * s.out_column] = NumberStore<T>::of(v);
  }
}

}  // namespace gpukit
