#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/kv_cache/kv_cache_impl.h"
#include "gpukit/runtime/fault.h"

namespace gpukit::cuda {

namespace {

const jit::KernelSet kernels("gpukit/ops/kv_cache/kv_cache.cuh", {"gpukit::store_tokens<{T}>"},
                             {DType::uint8, DType::uint16, DType::uint32, DType::uint64});

DType move_type(int bytes) {
  switch (bytes) {
    case 1: return DType::uint8;
    case 2: return DType::uint16;
    case 4: return DType::uint32;
    default: return DType::uint64;
  }
}

}  // namespace

void store_tokens(const StoreParams& params, const Array& cache, const Array& tokens, const Array& slots) {
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(std::min<int64_t>(params.tokens, 0x7fffffff)),
                                 .block_x = 256};
  jit::launch(kernels.get(0, move_type(itemsize(cache.dtype()))), cache.device(), config, write(cache), read(tokens),
              read(slots), runtime::fault_address(cache.device()), params);
}

}  // namespace gpukit::cuda
