#include <algorithm>

#include "gpukit/jit/launch.h"
#include "gpukit/ops/indexing/indexed_space.cuh"
#include "gpukit/ops/indexing/nonzero.h"

namespace gpukit::cuda {

namespace {

enum NonzeroKernel { count, scan, write_out };
const jit::KernelSet kernels("gpukit/ops/indexing/nonzero.cuh",
                             {"gpukit::count_flags", "gpukit::scan_counts", "gpukit::write_coordinates"});

}  // namespace

void count_flags(const Array& counts, const Array& flags) {
  const Device device = flags.device();
  const int64_t num_blocks = counts.size() - 1;
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(num_blocks), .block_x = kFlagBlock};
  jit::launch(kernels.get(count), device, config, write(counts), read(flags), flags.size());
  jit::launch(kernels.get(scan), device, jit::LaunchConfig{.block_x = kScanBlock}, write(counts), num_blocks);
}

void write_coordinates(const Array& coordinates, const Array& flags, const Array& counts) {
  FlagShape space{};
  space.rank = flags.ndim();
  std::copy(flags.shape().begin(), flags.shape().end(), space.shape);
  const jit::LaunchConfig config{.grid_x = static_cast<unsigned>(counts.size() - 1), .block_x = kFlagBlock};
  jit::launch(kernels.get(write_out), flags.device(), config, write(coordinates), read(flags), read(counts),
              flags.size(), coordinates.shape(1), space);
}

}  // namespace gpukit::cuda
