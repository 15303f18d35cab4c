// Between kv_cache.cpp and its backends: arguments are checked, no memory is shared.
#pragma once

#include "gpukit/array/array.h"
#include "gpukit/ops/common/cache.cuh"
#include "gpukit/ops/kv_cache/store_params.cuh"

namespace gpukit {

namespace cpu {
void store_tokens(const char* op, const StoreParams& params, const Array& cache, const Array& tokens,
                  const Array& slots);
}  // namespace cpu
namespace cuda {
void store_tokens(const StoreParams& params, const Array& cache, const Array& tokens, const Array& slots);
}  // namespace cuda

}  // namespace gpukit
