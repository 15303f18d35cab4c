#include "gpukit/driver/cuda.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "gpukit/driver/host_table.h"

namespace gpukit::driver {
namespace {

int fake_version = 12040;
std::map<std::string, int> asked;
std::set<std::string> hidden;

CUresult fake_get_version(int* version) {
  *version = fake_version;
  return CUDA_SUCCESS;
}

void* host_function(const char* name) {
  if (hidden.contains(name)) return nullptr;
#define GPUKIT_TEST_FIND(member, version, symbol, parameters) \
  if (std::strcmp(name, #member) == 0) return reinterpret_cast<void*>(host_table().member);
  GPUKIT_CUDA_FUNCTIONS(GPUKIT_TEST_FIND)
  GPUKIT_CUDA_OPTIONAL_FUNCTIONS(GPUKIT_TEST_FIND)
#undef GPUKIT_TEST_FIND
  return nullptr;
}

CUresult fake_get_proc_address(const char* symbol, void** function, int version, uint64_t flags, int*) {
  EXPECT_EQ(flags, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
  asked[symbol] = version;
  *function = host_function(symbol);
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

void* fake_symbol(const char* name) {
  if (std::strcmp(name, "cuDriverGetVersion") == 0) return reinterpret_cast<void*>(fake_get_version);
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return reinterpret_cast<void*>(fake_get_proc_address);
  return nullptr;
}

class CudaLoading : public testing::Test {
 protected:
  CudaLoading() {
    fake_version = 12040;
    asked.clear();
    hidden.clear();
  }
  CudaTable table;
  int version = 0;
};

TEST_F(CudaLoading, AsksForTheDeclaredVersions) {
  EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "");
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(asked["cuMemAlloc"], 3020);
  EXPECT_EQ(asked["cuCtxSynchronize"], 2000);  // 13.0 gave this name a parameter
  EXPECT_EQ(asked["cuStreamGetCaptureInfo"], 11030);
  EXPECT_EQ(asked["cuLibraryLoadData"], 12000);
  EXPECT_EQ(table.cuStreamQuery, host_table().cuStreamQuery);
}

TEST_F(CudaLoading, LeavesOutWhatTheDriverLacks) {
  auto filled = [&] {
    EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "");
    return std::pair(table.cuGreenCtxCreate != nullptr, table.cuGreenCtxStreamCreate != nullptr);
  };
  EXPECT_EQ(filled(), std::pair(true, false));  // 12.4
  EXPECT_EQ(asked["cuGreenCtxCreate"], 12040);
  EXPECT_FALSE(asked.contains("cuGreenCtxStreamCreate"));
  fake_version = 12000;
  EXPECT_EQ(filled(), std::pair(false, false));
  EXPECT_EQ(table.cuLaunchKernelEx, nullptr);
  fake_version = 13000;
  EXPECT_EQ(filled(), std::pair(true, true));
  EXPECT_EQ(asked["cuGreenCtxStreamCreate"], 12050);
  EXPECT_NE(table.cuLaunchKernelEx, nullptr);
  EXPECT_EQ(asked["cuMemHostRegister"], 6050);
  EXPECT_EQ(asked["cuMemCreate"], 10020);
  hidden.insert("cuGreenCtxCreate");
  EXPECT_EQ(filled(), std::pair(false, true));
  hidden.insert("cuMemMap");
  EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "has no cuMemMap");
}

TEST_F(CudaLoading, FallsBackToExportedNames) {
  auto exported = [](const char* name) -> void* {
    if (std::strcmp(name, "cuGetProcAddress_v2") == 0) return nullptr;
    if (std::strcmp(name, "cuMemAlloc_v2") == 0) return host_function("cuMemAlloc");
    if (void* known = fake_symbol(name)) return known;
    std::string plain = name;
    if (plain.ends_with("_v2")) plain.resize(plain.size() - 3);
    return host_function(plain.c_str());
  };
  EXPECT_EQ(fill_cuda_table(exported, &table, &version), "");
  EXPECT_EQ(table.cuMemAlloc, host_table().cuMemAlloc);
}

TEST_F(CudaLoading, RefusesAnOldDriver) {
  fake_version = 11080;
  EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "serves CUDA 11.8, needed is 12.0 (driver 525) or newer");
  fake_version = 12000;
  EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "");
}

TEST_F(CudaLoading, NamesAMissingFunction) {
  hidden.insert("cuGraphLaunch");
  EXPECT_EQ(fill_cuda_table(fake_symbol, &table, &version), "has no cuGraphLaunch");
}

TEST_F(CudaLoading, ReportsEveryPathTried) {
  const char* names[] = {"libgpukit-absent-a.so.1", "/nowhere/libgpukit-absent-b.so.1"};
  CudaDriver driver = open_cuda_driver(names);
  EXPECT_FALSE(driver.usable);
  EXPECT_EQ(driver.version, 0);
  EXPECT_TRUE(driver.report.starts_with("CUDA driver not detected: tried libgpukit-absent-a.so.1 (")) << driver.report;
  EXPECT_NE(driver.report.find("/nowhere/libgpukit-absent-b.so.1 ("), std::string::npos) << driver.report;
  EXPECT_EQ(open_cuda_driver({}).report, "CUDA driver not detected: this system has no CUDA");
}

#if defined(__linux__)
TEST_F(CudaLoading, PassesOverALibraryThatIsNoDriver) {
  const char* names[] = {"libm.so.6"};
  CudaDriver driver = open_cuda_driver(names);
  EXPECT_FALSE(driver.usable);
  EXPECT_NE(driver.report.find("libm.so.6 (has no cuDriverGetVersion)"), std::string::npos) << driver.report;
}
#endif

TEST_F(CudaLoading, ThisMachine) {
  const CudaTable* cuda = cuda_table();
  EXPECT_NE(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), nullptr);
  if (cuda == nullptr) {
    EXPECT_TRUE(cuda_load_report().starts_with("CUDA driver not detected: ")) << cuda_load_report();
    EXPECT_EQ(cuda_library_path(), "");
    EXPECT_EQ(cuda_driver_version(), 0);
  } else {
    EXPECT_GE(cuda_driver_version(), kMinDriverVersion);
    EXPECT_NE(cuda_load_report().find(cuda_library_path()), std::string::npos);
  }
}

}  // namespace
}  // namespace gpukit::driver
