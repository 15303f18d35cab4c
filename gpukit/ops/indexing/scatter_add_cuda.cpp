#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/indexing/scatter_add.h"

namespace gpukit::cuda {
namespace {

const jit::KernelSet kernels("gpukit/ops/indexing/scatter_add.cuh", {"gpukit::scatter_add_rows<{T}>"},
                             {DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::uint16,
                              DType::uint32, DType::uint64, DType::float16, DType::bfloat16, DType::float32,
                              DType::float64});

constexpr unsigned kBlock = 256;

jit::LaunchConfig plan(int64_t size) {
  constexpr int64_t kMaxGrid = 1 << 20;  // further elements are reached by the kernel's stride
  return {.grid_x = static_cast<unsigned>(std::min((size + kBlock - 1) / kBlock, kMaxGrid)), .block_x = kBlock};
}

}  // namespace

void scatter_add(const ScatterRows& rows) {
  jit::launch(kernels.get(0, rows.out.dtype()), rows.out.device(), plan(rows.sorted.size()), write(rows.out),
              read(rows.sorted), read(rows.order), read(rows.values), rows.sorted.shape(0), rows.sorted.shape(1),
              rows.out.shape(1));
}

}  // namespace gpukit::cuda
