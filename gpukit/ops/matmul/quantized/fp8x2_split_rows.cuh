// split_rows: tokens taken apart once for many blocks of w8a16_fp8x2_sm90.
#pragma once
#include "gpukit/ops/hopper/pdl.cuh"
#include "gpukit/ops/matmul/quantized/fp8x2_split.cuh"

namespace gpukit {

/// Tokens `first` to `last` of x as quantised values [groups of 8, 16, k], the first quantised values of eight tokens
/// and then their second ones, and factors [k / 128, padded]; zeros for tokens that are not there. `row`: of x. Grid
/// (padded / 8, ceil(k / 128 / warps)).
template <typename X>
__global__ void split_rows(uint8_t* values, uint32_t* factors, const X* x, int first, int last, int64_t row, int k,
                           int padded) {
  let_next_start();
  const int lane = static_cast<int>(threadIdx.x) % 32, token = lane % 8, quarter = lane / 8;
  const int at = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) / 32, group = static_cast<int>(blockIdx.x);
  if (at * 128 >= k) return;
  const int count = last - first;
  const bool here = group * 8 + token < count;
  const int64_t column = at * 128 + quarter * 32;
  SplitChain<8> chain = {};
  if (here) {
    const uint4* const from = reinterpret_cast<const uint4*>(x + (first + group * 8 + token) * row + column);
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const uint4 four = from[q];
      chain.pairs[q][0] = four.x, chain.pairs[q][1] = four.y, chain.pairs[q][2] = four.z, chain.pairs[q][3] = four.w;
    }
  }
  chain.scale();
  if (quarter == 0) factors[int64_t{at} * padded + group * 8 + token] = chain.factor;
  if (group * 8 >= count) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint32_t high[4], low[4];
    chain.split(h, high, low);
    uint8_t* const to = values + (int64_t{group} * 16 + token) * k + column + h * 16;
    *reinterpret_cast<uint4*>(to) = {high[0], high[1], high[2], high[3]};
    *reinterpret_cast<uint4*>(to + int64_t{8} * k) = {low[0], low[1], low[2], low[3]};
  }
}

}  // namespace gpukit
