// y[i] = a y[i - 1] + b0 x[i] + b1 x[i - 1] along rows, as a scan of tiles: the order of every sum depends on the
// length of the row alone.
//
// A tile is 8 samples of each of 256 threads. What a tile adds to those behind it is its last result, computed as if
// nothing were before it; these ends are a recurrence of the same form, with a^tile.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

inline constexpr int kPoleThreads = 256, kPoleEach = 8, kPoleTile = kPoleThreads * kPoleEach;

struct OnePoleParams {
  int64_t rows, n, tiles;
  float a, b0, b1;
  float lane_step[5];    // a^8, a^16, ... a^128
  float lane_power[32];  // a^(8 lane)
  float warp_power;      // a^256
};

#ifdef __CUDACC_RTC__

/// factor * value, where a factor of 0 ends what was infinite.
GPUKIT_DEVICE float decayed(float factor, float value) { return factor == 0.0f ? 0.0f : factor * value; }

/// The results of this thread's samples; all threads of the block call it.
GPUKIT_DEVICE void one_pole_tile(float (&y)[kPoleEach], const float* row, int64_t begin, float before, float carry,
                                 float* warp_ends, const OnePoleParams& p) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int64_t first = begin + static_cast<int64_t>(threadIdx.x) * kPoleEach;
  float x[kPoleEach];
#pragma unroll
  for (int j = 0; j < kPoleEach; ++j) x[j] = first + j < p.n ? row[first + j] : 0.0f;
  float last = before;
  if (threadIdx.x > 0 && p.b1 != 0.0f) last = first - 1 < p.n ? row[first - 1] : 0.0f;
#pragma unroll
  for (int j = 0; j < kPoleEach; ++j) {
    const float now = x[j];
    x[j] = p.b1 == 0.0f ? p.b0 * now : fmaf(p.b1, last, p.b0 * now);
    last = now;
  }
  float end = 0.0f;
#pragma unroll
  for (int j = 0; j < kPoleEach; ++j) end = fmaf(p.a, end, x[j]);
#pragma unroll
  for (int k = 0; k < 5; ++k) {
    const float left = __shfl_up_sync(0xffffffffu, end, 1 << k);
    if (lane >= 1 << k) end = decayed(p.lane_step[k], left) + end;
  }
  if (lane == 31) warp_ends[warp] = end;
  float start = __shfl_up_sync(0xffffffffu, end, 1);
  if (lane == 0) start = 0.0f;
  __syncthreads();
  for (int w = 0; w < warp; ++w) carry = decayed(p.warp_power, carry) + warp_ends[w];
  start = decayed(p.lane_power[lane], carry) + start;
#pragma unroll
  for (int j = 0; j < kPoleEach; ++j) {
    start = p.a == 0.0f ? x[j] : fmaf(p.a, start, x[j]);
    y[j] = start;
  }
}

/// The last result of each whole tile as if it stood alone, and its last sample.
__global__ void __launch_bounds__(kPoleThreads)
    one_pole_ends(float* ends, float* edges, const float* x, const __grid_constant__ OnePoleParams p) {
  __shared__ float warp_ends[kPoleThreads / 32];
  for (int64_t index = blockIdx.x; index < p.rows * p.tiles; index += gridDim.x) {
    const int64_t begin = index % p.tiles * kPoleTile;
    const float* row = x + index / p.tiles * p.n;
    float y[kPoleEach];
    one_pole_tile(y, row, begin, begin > 0 ? row[begin - 1] : 0.0f, 0.0f, warp_ends, p);
    if (threadIdx.x == kPoleThreads - 1) {
      ends[index] = y[kPoleEach - 1];
      edges[index] = begin + kPoleTile - 1 < p.n ? row[begin + kPoleTile - 1] : 0.0f;
    }
    __syncthreads();
  }
}

/// `ends`, which are complete, and `edges` are not read where a row is one tile. `out` may be `x`.
__global__ void __launch_bounds__(kPoleThreads)
    one_pole_rows(float* out, const float* x, const float* ends, const float* edges,
                  const __grid_constant__ OnePoleParams p) {
  __shared__ float warp_ends[kPoleThreads / 32];
  for (int64_t index = blockIdx.x; index < p.rows * p.tiles; index += gridDim.x) {
    const int64_t tile = index % p.tiles, begin = tile * kPoleTile;
    const int64_t row = index / p.tiles * p.n;
    float y[kPoleEach];
    one_pole_tile(y, x + row, begin, tile > 0 ? edges[index - 1] : 0.0f, tile > 0 ? ends[index - 1] : 0.0f, warp_ends,
                  p);
    __syncthreads();
    const int64_t first = begin + static_cast<int64_t>(threadIdx.x) * kPoleEach;
#pragma unroll
    for (int j = 0; j < kPoleEach; ++j)
      if (first + j < p.n) out[row + first + j] = y[j];
  }
}

#endif

}  // namespace gpukit
