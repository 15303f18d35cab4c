// Search order and reasons of the NVIDIA libraries, in folders made for the test.
#include "gpukit/driver/nvrtc.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <unistd.h>
#endif

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace gpukit::driver {
namespace {

#if defined(__linux__)

namespace fs = std::filesystem;

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~ScopedVariable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class LibrarySearch : public testing::Test {
 protected:
  LibrarySearch()
      : root(fs::temp_directory_path() /
             ("gpukit-search-" + std::to_string(counter++) + "-" + std::to_string(getpid()))) {
    fs::create_directories(root);
    set_site_packages({});
  }
  ~LibrarySearch() override {
    set_site_packages({});
    fs::remove_all(root);
  }
  std::string make(const std::string& relative) {
    fs::path path = root / relative;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "not a library, but long enough that the loader reads its header and refuses it.\n";
    return path.string();
  }
  static std::vector<std::string> paths(const std::vector<LibraryCandidate>& candidates) {
    std::vector<std::string> result;
    for (const auto& candidate : candidates) result.push_back((candidate.loaded ? "loaded " : "") + candidate.path);
    return result;
  }

  static inline int counter = 0;
  fs::path root;
  ScopedVariable conda{"CONDA_PREFIX", nullptr}, cuda_path{"CUDA_PATH", nullptr}, cuda_home{"CUDA_HOME", nullptr};
};

TEST_F(LibrarySearch, OrderOfPlaces) {
  std::string wheel13 = make("site/nvidia/cu13/lib/libnvrtc.so.13");
  std::string wheel12 = make("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  std::string conda12 = make("conda/lib/libnvrtc.so.12");
  std::string toolkit13 = make("toolkit/lib64/libnvrtc.so.13");
  std::string home12 = make("home/targets/x86_64-linux/lib/libnvrtc.so.12");
  ScopedVariable a("CONDA_PREFIX", (root / "conda").c_str()), b("CUDA_PATH", (root / "toolkit").c_str()),
      c("CUDA_HOME", (root / "home").c_str());
  set_site_packages({(root / "empty").string(), (root / "site").string()});
  std::vector<LibraryAttempt> missing;
  auto found = library_candidates(NvidiaLibrary::nvrtc, &missing);
  EXPECT_EQ(paths(found), (std::vector<std::string>{"loaded libnvrtc.so.13", "loaded libnvrtc.so.12", wheel13, wheel12,
                                                    conda12, "libnvrtc.so.13", "libnvrtc.so.12", toolkit13, home12}));
  ASSERT_EQ(missing.size(), 4u) << str(missing);
  EXPECT_EQ(missing[0].path, (root / "empty/nvidia").string());
  EXPECT_EQ(missing[0].reason, "no such folder");
  EXPECT_EQ(missing[1].path, (root / "conda/lib/libnvrtc.so.13").string());
  EXPECT_EQ(missing[1].reason, "no such file");
}

TEST_F(LibrarySearch, LibrariesOfOnePlaceShareItsName) {
  make("site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  make("site/nvidia/cublas/lib/libcublasLt.so.12");
  make("site/nvidia/cu13/lib/libnvrtc.so.13");
  make("site/nvidia/cu13/lib/libcublasLt.so.13");
  set_site_packages({(root / "site").string()});
  auto nvrtc = library_candidates(NvidiaLibrary::nvrtc, nullptr),
       lt = library_candidates(NvidiaLibrary::cublaslt, nullptr);
  ASSERT_EQ(nvrtc.size(), lt.size());
  for (size_t i = 0; i < nvrtc.size(); ++i) {
    EXPECT_EQ(nvrtc[i].place, lt[i].place);
    EXPECT_EQ(nvrtc[i].major, lt[i].major);
  }
  EXPECT_NE(nvrtc[2].place, nvrtc[3].place);
  EXPECT_TRUE(lt[3].path.ends_with("cublas/lib/libcublasLt.so.12"));
}

TEST_F(LibrarySearch, ReasonNamesEachPathAndTheFix) {
  NvrtcSearch search;
  search.candidates = {{"a", make("a/libnvrtc.so.12"), 12, false}, {"this process", "libgpukit-absent.so.9", 13, true}};
  search.missing = {{"/b/libnvrtc.so.13", "no such file"}};
  NvrtcLibrary found = open_nvrtc(search);
  EXPECT_FALSE(found.usable);
  EXPECT_TRUE(found.reason.starts_with("NVRTC JIT compiler not available: tried /b/libnvrtc.so.13 (no such file), "))
      << found.reason;
  EXPECT_NE(found.reason.find("a/libnvrtc.so.12 ("), std::string::npos) << found.reason;
  EXPECT_NE(found.reason.find("libgpukit-absent.so.9 (not loaded in this process)"), std::string::npos) << found.reason;
  EXPECT_TRUE(found.reason.ends_with("pip install nvidia-cuda-nvrtc-cu12")) << found.reason;
  search.driver_major = 13;
  EXPECT_TRUE(open_nvrtc(search).reason.ends_with("pip install nvidia-cuda-nvrtc"));
}

TEST_F(LibrarySearch, OffAndOnePath) {
  NvrtcSearch search;
  search.candidates = {{"a", make("a/libnvrtc.so.12"), 12, false}};
  search.off = true;
  EXPECT_EQ(open_nvrtc(search).reason, "NVRTC JIT compiler not available: PYGPUKIT_NVRTC is off");
  search.off = false;
  search.only = make("b/libmine.so");
  std::string reason = open_nvrtc(search).reason;
  EXPECT_NE(reason.find("b/libmine.so ("), std::string::npos) << reason;
  EXPECT_EQ(reason.find("a/libnvrtc.so.12"), std::string::npos) << reason;
}

TEST_F(LibrarySearch, OtherLibraryIsPassedOver) {
  NvrtcSearch search;
  search.only = "libm.so.6";
  EXPECT_NE(open_nvrtc(search).reason.find("libm.so.6 (has no nvrtcVersion)"), std::string::npos);
}

// Needs a real NVRTC; the package's test runs set one up, and a plain C++ build may have none.
TEST(Nvrtc, RealOneCompilesAndItsRulesHold) {
  std::string reason;
  const NvrtcTable* table = nvrtc(&reason);
  if (table == nullptr) {
    EXPECT_TRUE(reason.starts_with("NVRTC JIT compiler not available: ")) << reason;
    GTEST_SKIP() << reason;
  }
  EXPECT_TRUE(fs::is_regular_file(nvrtc_path())) << nvrtc_path();
  EXPECT_GE(nvrtc_version().major, 12);
  EXPECT_FALSE(nvrtc_archs().empty());

  nvrtcProgram program = nullptr;
  ASSERT_EQ(table->nvrtcCreateProgram(&program, "template<class T> __global__ void k(T* x) { *x = 1; }", "k.cu", 0,
                                      nullptr, nullptr),
            0);
  ASSERT_EQ(table->nvrtcAddNameExpression(program, "k<float>"), 0);
  const char* options[] = {"-arch=sm_80"};
  EXPECT_EQ(table->nvrtcCompileProgram(program, 1, options), 0);
  const char* lowered = nullptr;
  EXPECT_EQ(table->nvrtcGetLoweredName(program, "k<float>", &lowered), 0);
  EXPECT_STREQ(lowered, "_Z1kIfEvPT_");
  size_t bytes = 0;
  EXPECT_EQ(table->nvrtcGetCUBINSize(program, &bytes), 0);
  std::string cubin(bytes, '\0');
  EXPECT_EQ(table->nvrtcGetCUBIN(program, cubin.data()), 0);
  EXPECT_TRUE(
      cubin.starts_with("\x7f"
                        "ELF"));
  EXPECT_EQ(table->nvrtcDestroyProgram(&program), 0);

  NvrtcSearch search;
  search.only = nvrtc_path();
  search.driver_major = nvrtc_version().major - 1;
  std::string newer = open_nvrtc(search).reason;
  EXPECT_NE(newer.find("is newer than the driver's"), std::string::npos) << newer;
  search.driver_major = nvrtc_version().major;
  EXPECT_TRUE(open_nvrtc(search).usable);
  search.chips = {9990};
  EXPECT_NE(open_nvrtc(search).reason.find("does not know SM 9990"), std::string::npos);
}

#endif

}  // namespace
}  // namespace gpukit::driver
