#include "gpukit/driver/clusters.h"

#include "gpukit/driver/table.h"

namespace gpukit::driver {

void allow_large_clusters(const Api& api, FunctionHandle function) {
  api.check(api.table().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            "cuFuncSetAttribute");
}

int clusters_at_once(const Api& api, FunctionHandle function, const LaunchShape& shape) noexcept {
  if (api.table().cuOccupancyMaxActiveClusters == nullptr) return 0;
  const CUlaunchConfig config = {.grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
                                 .block = {shape.block[0], shape.block[1], shape.block[2]},
                                 .shared_bytes = shape.shared_bytes,
                                 .stream = nullptr,
                                 .attributes = nullptr,
                                 .attribute_count = 0};
  int clusters = 0;
  return api.table().cuOccupancyMaxActiveClusters(&clusters, function, &config) == CUDA_SUCCESS ? clusters : 0;
}

}  // namespace gpukit::driver
