// Values that are sums over rows, written once for kernels and for the CPU.
//
// F::row(index, p) gives what is needed of a row, its width among it: lane l adds up elements l, l + 32, ... and the
// lanes merge in pairs. F has Params, Value, Row, Sums (32-bit words), `none()`, `add(sums, row, i, a, b, c, p)`,
// `merge` (commutative to the bit) and `finish(sums, row, a, b, c, p)`.
#pragma once
#include "gpukit/ops/common/types.cuh"
#ifdef __CUDACC_RTC__
#include "gpukit/ops/common/reduce.cuh"
#endif

namespace gpukit {

inline constexpr int kLanes = 32;

struct alignas(8) ComplexValue {
  float re, im;
};

template <typename F>
struct LaneParams {
  int64_t rows;
  typename F::Params params;
};

#ifdef __CUDACC_RTC__
template <typename F>
__global__ void lane_values(typename F::Value* out, const float* a, const float* b, const float* c,
                            const LaneParams<F> p) {
  const int lane = threadIdx.x & (kLanes - 1);
  const int64_t warps = blockDim.x / kLanes;
  for (int64_t index = blockIdx.x * warps + threadIdx.x / kLanes; index < p.rows; index += gridDim.x * warps) {
    const typename F::Row row = F::row(index, p.params);
    typename F::Sums sums = F::none();
    for (int64_t i = lane; i < row.width; i += kLanes) F::add(sums, row, i, a, b, c, p.params);
#pragma unroll
    for (int mask = 1; mask < kLanes; mask <<= 1) sums = F::merge(sums, shuffle_xor(sums, mask));
    if (lane == 0) out[index] = F::finish(sums, row, a, b, c, p.params);
  }
}
#endif

}  // namespace gpukit
