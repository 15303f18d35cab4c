#include "gpukit/driver/visibility.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "gpukit/driver/host_table.h"

namespace gpukit::driver {
namespace {

using Environment = std::map<std::string, std::string>;

Visibility read(const DeviceProperties& properties, int ordinal, const Environment& environment) {
  return read_visibility(properties, ordinal, [&](const char* name) -> std::optional<std::string> {
    auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

DeviceProperties named(const char* name, const char* uuid = "GPU-00") {
  DeviceProperties properties;
  properties.name = name;
  properties.uuid = uuid;
  return properties;
}

TEST(Visibility, NothingSet) {
  Visibility v = read(named("NVIDIA H200"), 0, {});
  EXPECT_FALSE(v.mig);
  EXPECT_FALSE(v.visible_devices.has_value());
  EXPECT_TRUE(v.lines().empty());
}

TEST(Visibility, MigByNameUuidOrList) {
  Visibility by_name = read(named("NVIDIA H200 MIG 1g.18gb"), 0, {});
  EXPECT_TRUE(by_name.mig);
  EXPECT_EQ(by_name.mig_profile, "1g.18gb");
  EXPECT_EQ(by_name.lines(), std::vector<std::string>{"MIG instance: 1g.18gb"});
  EXPECT_TRUE(read(named("NVIDIA H200", "MIG-00"), 0, {}).mig);
  Environment list{{"CUDA_VISIBLE_DEVICES", "GPU-1, MIG-2 ,3"}};
  EXPECT_FALSE(read(named("NVIDIA H200"), 0, list).mig);
  EXPECT_TRUE(read(named("NVIDIA H200"), 1, list).mig);
  EXPECT_FALSE(read(named("NVIDIA H200"), 2, list).mig);
  EXPECT_FALSE(read(named("NVIDIA H200"), 9, list).mig);
  EXPECT_FALSE(read(named("NVIDIA MIGHTY"), 0, {}).mig);
}

TEST(Visibility, MigInstanceHasItsOwnIdentity) {
  CudaTable table = host_table();
  table.cuInit(0);
  table.cuDeviceGetUuid = [](CUuuid* uuid, CUdevice) -> CUresult {
    std::memset(uuid, 0x1a, sizeof *uuid);
    return CUDA_SUCCESS;
  };
  EXPECT_EQ(Api(table, DeviceKind::cuda).properties(0).uuid, "GPU-1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a");
  table.cuDeviceGetName = [](char* name, int length, CUdevice) -> CUresult {
    std::snprintf(name, static_cast<size_t>(length), "NVIDIA H200 MIG 2g.35gb");
    return CUDA_SUCCESS;
  };
  DeviceProperties properties = Api(table, DeviceKind::cuda).properties(0);
  EXPECT_EQ(properties.uuid, "MIG-1a1a1a1a-1a1a-1a1a-1a1a-1a1a1a1a1a1a");
  EXPECT_EQ(read(properties, 0, {}).mig_profile, "2g.35gb");
}

TEST(Visibility, ReportsWhatIsSet) {
  Visibility v = read(named("NVIDIA H200"), 0,
                      {{"CUDA_VISIBLE_DEVICES", ""},
                       {"CUDA_MPS_PIPE_DIRECTORY", "/run/mps"},
                       {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "25"},
                       {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=1G"}});
  EXPECT_EQ(v.visible_devices, "");
  EXPECT_EQ(v.lines(), (std::vector<std::string>{"CUDA_VISIBLE_DEVICES: (empty)", "CUDA_MPS_PIPE_DIRECTORY: /run/mps",
                                                 "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: 25",
                                                 "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT: 0=1G"}));
}

TEST(Visibility, ReadsTheProcessEnvironment) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  Visibility v = read_visibility(named("NVIDIA H200"), 0);
  EXPECT_EQ(v.visible_devices.has_value(), visible != nullptr);
  if (visible != nullptr) {
    EXPECT_EQ(*v.visible_devices, visible);
  }
}

}  // namespace
}  // namespace gpukit::driver
