// Which cuBLASLt is opened, and why not another.
#include "gpukit/driver/cublaslt.h"

#include <gtest/gtest.h>

namespace gpukit::driver {
namespace {

CublasLtSearch search_of(const std::string& only) {
  CublasLtSearch search;
  search.only = only;
  search.driver_major = 13;
  return search;
}

TEST(CublasLt, OffWinsOverAPath) {
  CublasLtSearch search = search_of("/a/libcublasLt.so.13");
  search.off = true;
  const CublasLtLibrary found = open_cublaslt(search);
  EXPECT_FALSE(found.usable);
  EXPECT_EQ(found.reason, "cuBLASLt not available: PYGPUKIT_NO_CUBLASLT is set");
}

TEST(CublasLt, NothingIsOpenedWithoutADriver) {
  CublasLtSearch search = search_of("/a/libcublasLt.so.13");
  search.driver_major = 0;
  EXPECT_EQ(open_cublaslt(search).reason, "cuBLASLt not available: there is no CUDA driver");
}

TEST(CublasLt, ReasonNamesEachPathAndTheFix) {
  CublasLtSearch search = search_of("");
  search.driver_major = 12;
  search.candidates = {{"this process", "libgpukit-absent.so.9", 12, true},
                       {"system", "libcublasLt.so.13", 13, false},
                       {"b", "/b/libcublasLt.so.12", 12, false}};
  search.missing = {{"/a/libcublasLt.so.12", "no such file"}};
  const std::string reason = open_cublaslt(search).reason;
  EXPECT_TRUE(reason.starts_with("cuBLASLt not available: tried /a/libcublasLt.so.12 (no such file), ")) << reason;
  for (const char* part : {"libgpukit-absent.so.9 (not loaded in this process)",
                           "libcublasLt.so.13 (CUDA 13 is newer than the driver's 12)", "/b/libcublasLt.so.12 ("})
    EXPECT_NE(reason.find(part), std::string::npos) << reason;
  EXPECT_TRUE(reason.ends_with("pip install nvidia-cublas-cu12")) << reason;
  search.driver_major = 13;
  search.candidates.clear();
  EXPECT_TRUE(open_cublaslt(search).reason.ends_with("pip install nvidia-cublas"));
}

#if defined(__linux__)
TEST(CublasLt, OtherLibraryIsPassedOver) {
  const std::string reason = open_cublaslt(search_of("libm.so.6")).reason;
  EXPECT_NE(reason.find("libm.so.6 (has no cublasLtGetVersion)"), std::string::npos) << reason;
}
#endif

}  // namespace
}  // namespace gpukit::driver
