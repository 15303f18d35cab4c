#include "gpukit/driver/clusters.h"

#include <gtest/gtest.h>

#include "gpukit/driver/host_table.h"
#include "gpukit/driver/table.h"

namespace gpukit::driver {
namespace {

constexpr LaunchShape kCluster = {{16, 1, 1}, {256, 1, 1}, 1000};

TEST(Clusters, AreCountedByTheDriver) {
  CudaTable table = host_table();
  table.cuOccupancyMaxActiveClusters = [](int* clusters, CUfunction, const CUlaunchConfig* config) {
    const bool asked = config->grid[0] == 16 && config->block[0] == 256 && config->shared_bytes == 1000 &&
                       config->attribute_count == 0;
    *clusters = asked ? 7 : -1;
    return CUresult{CUDA_SUCCESS};
  };
  EXPECT_EQ(clusters_at_once(Api(table, DeviceKind::cuda), nullptr, kCluster), 7);
}

TEST(Clusters, AreNoneWhereTheDriverCannotSay) {
  CudaTable table = host_table();
  EXPECT_EQ(clusters_at_once(Api(table, DeviceKind::cuda), nullptr, kCluster), 0);
  table.cuOccupancyMaxActiveClusters = nullptr;
  EXPECT_EQ(clusters_at_once(Api(table, DeviceKind::cuda), nullptr, kCluster), 0);
}

TEST(Clusters, LargeOnesAreAllowedByAnAttribute) {
  static int attribute, value;
  CudaTable table = host_table();
  table.cuFuncSetAttribute = [](CUfunction, int which, int to) {
    attribute = which;
    value = to;
    return CUresult{CUDA_SUCCESS};
  };
  allow_large_clusters(Api(table, DeviceKind::cuda), nullptr);
  EXPECT_EQ(attribute, 14);
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace gpukit::driver
