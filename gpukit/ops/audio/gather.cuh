// Operations whose elements are computed one by one, written once for kernels and for the CPU.
//
// F::at(i, a, b, c, p) gives element i of the result from up to three contiguous arrays and F::Params.
#pragma once
#include "gpukit/ops/common/types.cuh"

namespace gpukit {

template <typename F>
struct GatherParams {
  int64_t size;
  typename F::Params params;
};

#ifdef __CUDACC_RTC__
template <typename F>
__global__ void gather_elements(typename F::Value* out, const float* a, const float* b, const float* c,
                                const GatherParams<F> p) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.size;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    out[i] = F::at(i, a, b, c, p.params);
}
#endif

}  // namespace gpukit
