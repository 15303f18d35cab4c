// Modules and launches on a driver that runs kernels as host functions: bundle lookup, loading, packing, graphs,
// errors.
#include "gpukit/jit/module.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/jit/binary_kernel.h"
#include "gpukit/jit/bundle.h"
#include "gpukit/jit/launch.h"
#include "gpukit/jit/source.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"

namespace gpukit::jit {
namespace {

namespace fs = std::filesystem;
using driver::CUresult;

constexpr Device kCpu{DeviceKind::cpu, 0};

/// What the driver below was asked.
struct Calls {
  int libraries = 0;
  int functions = 0;
  int static_shared = 0;
  int overlapping = 0;      // launches
  std::vector<int> raised;  // cuFuncSetAttribute
  std::string refuse;       // images that start with this are not loaded
};
Calls calls;

struct FillTask {
  float* out;
  float value;
  long long count;
};
std::vector<std::unique_ptr<FillTask>> tasks;  // a graph may run one again

void run_fill(void* argument) {
  const FillTask task = *static_cast<FillTask*>(argument);
  for (long long i = 0; i < task.count; ++i) task.out[i] += task.value;
}

/// The host table with kernels: images that start with `fake`, and one kernel, fill(float*, float, long long).
const driver::CudaTable& fake_table() {
  static driver::CudaTable table = [] {
    driver::CudaTable t = driver::host_table();
    t.cuDeviceGetAttribute = [](int* value, int attribute, driver::CUdevice device) -> CUresult {
      if (attribute == driver::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return *value = 9, CUresult{0};
      return driver::host_table().cuDeviceGetAttribute(value, attribute, device);
    };
    t.cuLibraryLoadData = [](driver::CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**,
                             unsigned) -> CUresult {
      const auto* text = static_cast<const char*>(image);
      if (std::strncmp(text, "fake", 4) != 0) return 200;
      if (!calls.refuse.empty() && std::strncmp(text, calls.refuse.c_str(), calls.refuse.size()) == 0) return 209;
      *library = reinterpret_cast<driver::CUlibrary>(static_cast<uintptr_t>(++calls.libraries));
      return 0;
    };
    t.cuLibraryGetKernel = [](driver::CUkernel* kernel, driver::CUlibrary, const char* name) -> CUresult {
      if (std::strcmp(name, "lowered_fill") != 0) return 500;
      *kernel = reinterpret_cast<driver::CUkernel>(uintptr_t{7});
      return 0;
    };
    t.cuKernelGetFunction = [](driver::CUfunction* function, driver::CUkernel) -> CUresult {
      ++calls.functions;
      *function = reinterpret_cast<driver::CUfunction>(uintptr_t{7});
      return 0;
    };
    t.cuFuncGetAttribute = [](int* value, int, driver::CUfunction) -> CUresult {
      return *value = calls.static_shared, CUresult{0};
    };
    t.cuFuncSetAttribute = [](driver::CUfunction, int, int value) -> CUresult {
      return calls.raised.push_back(value), CUresult{0};
    };
    t.cuLaunchKernel = [](driver::CUfunction, unsigned grid_x, unsigned, unsigned, unsigned block_x, unsigned, unsigned,
                          unsigned, driver::CUstream stream, void** arguments, void**) -> CUresult {
      if (grid_x == 0 || block_x > 1024) return 1;
      FillTask* task = tasks.emplace_back(new FillTask).get();
      std::memcpy(&task->out, arguments[0], 8);
      std::memcpy(&task->value, arguments[1], 4);
      std::memcpy(&task->count, arguments[2], 8);
      return driver::host_table().cuLaunchHostFunc(stream, run_fill, task);
    };
    t.cuLaunchKernelEx = [](const driver::CUlaunchConfig* c, driver::CUfunction function, void** arguments,
                            void** extra) -> CUresult {
      if (c->attribute_count != 1 || c->attributes->id != 6 || c->attributes->value[0] != 1) return 1;
      ++calls.overlapping;
      return fake_table().cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                                         c->block[2], c->shared_bytes, c->stream, arguments, extra);
    };
    return t;
  }();
  return table;
}

/// A module whose code is in a bundle made here, on the driver above.
class ModuleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    calls = {};
    std::string pattern = (fs::temp_directory_path() / "gpukit_module_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    runtime::replace_host_driver(fake_table());
    set_ = std::make_unique<Module>("gpukit/ops/common/types.cuh", std::nullopt, std::vector<std::string>{"fill"},
                                    std::vector<std::string>{});
  }
  void TearDown() override {
    storage_.reset();
    set_bundle_path("");
    runtime::replace_host_driver(driver::host_table());
    fs::remove_all(root_);
  }
  /// A bundle with this module's code for each arch; the code names its arch.
  void bundle_for(const std::vector<std::string>& archs, const std::string& more = "") {
    std::vector<BundleEntry> entries;
    for (const std::string& arch : archs) {
      Image image;
      image.names = {{"fill", "lowered_fill"}};
      image.code = "fake " + arch + more;
      const Key key = key_of(set_->request(arch), {12, 9});
      entries.push_back({key, arch, encode(key, image)});
    }
    const std::string path = (root_ / ("bundle" + std::to_string(bundles_++))).string();
    write_bundle(path, {12, 9}, archs, std::move(entries));
    set_bundle_path(path);
  }
  const Kernel& kernel() { return set_->kernels()[0]; }
  memory::Use buffer(int64_t count) {
    runtime::DeviceState& state = runtime::open_device(kCpu);
    storage_ = memory::Storage::allocate(*state.resource, static_cast<size_t>(count) * 4, state.default_stream);
    std::memset(values(), 0, static_cast<size_t>(count) * 4);
    return {&storage_, 0, true};
  }
  float* values() { return reinterpret_cast<float*>(storage_->address()); }

  fs::path root_;
  int bundles_ = 0;
  std::unique_ptr<Module> set_;
  std::shared_ptr<memory::Storage> storage_;
};

TEST_F(ModuleTest, LaunchesFromTheBundle) {
  bundle_for({"sm_80", "sm_90"});
  memory::Use out = buffer(5);
  for (int i = 0; i < 3; ++i) launch(kernel(), kCpu, {}, out, 1.5f, 4LL);
  runtime::synchronize(kCpu);
  EXPECT_EQ(values()[0], 4.5f);
  EXPECT_EQ(values()[3], 4.5f);
  EXPECT_EQ(values()[4], 0.0f);
  EXPECT_EQ(calls.libraries, 1);
  EXPECT_EQ(calls.functions, 1);
  EXPECT_EQ(set_->origin(kCpu), Origin::bundle);
  EXPECT_EQ(set_->image(kCpu)->code, "fake sm_90");
}

TEST_F(ModuleTest, OverlapsWithItsLikeWhereTheDriverCan) {
  bundle_for({"sm_90"});
  memory::Use out = buffer(4);
  const auto overlapping = [&](bool overlaps) {
    calls.overlapping = 0;
    launch(kernel(), kCpu, {.overlaps = overlaps}, out, 1.0f, 4LL);
    return calls.overlapping;
  };
  EXPECT_EQ(overlapping(false), 0);
  EXPECT_EQ(overlapping(true), 0);  // the one before may leave multiprocessors to others
  EXPECT_EQ(overlapping(true), 1);
  EXPECT_EQ(overlapping(true), 1);
  EXPECT_EQ(overlapping(false), 0);
  EXPECT_EQ(overlapping(true), 0);
  EXPECT_THROW(launch(kernel(), kCpu, {.grid_x = 0, .overlaps = true}, out, 1.0f, 4LL), CudaError);
  runtime::synchronize(kCpu);
  EXPECT_EQ(values()[3], 6.0f);

  // A driver that cannot runs them one after the other.
  driver::CudaTable old = fake_table();
  old.cuLaunchKernelEx = nullptr;
  storage_.reset();
  runtime::replace_host_driver(old);
  out = buffer(4);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(overlapping(true), 0);
  runtime::synchronize(kCpu);
  EXPECT_EQ(values()[3], 2.0f);
}

TEST_F(ModuleTest, CodeOfEarlierChipsDoesNotOverlap) {
  for (const auto& [target, overlapping] : {std::pair{"sm_80", 0}, std::pair{"sm_90", 1}}) {
    set_ = std::make_unique<Module>("gpukit/ops/common/types.cuh", std::nullopt, std::vector<std::string>{"fill"},
                                    std::vector<std::string>{});
    bundle_for({"compute_80"}, std::string("\n.version 8.8\n.target ") + target + "\n");
    memory::Use out = buffer(4);
    calls.overlapping = 0;
    for (int i = 0; i < 2; ++i) launch(kernel(), kCpu, {.overlaps = true}, out, 1.0f, 4LL);
    runtime::synchronize(kCpu);
    EXPECT_EQ(calls.overlapping, overlapping) << target;
    EXPECT_EQ(values()[3], 2.0f);
  }
}

TEST_F(ModuleTest, BundleLookupTakesTheNearestChip) {
  bundle_for({"sm_80", "sm_89", "compute_80"});
  auto code = [&](int major, int minor) {
    const auto image = find_in_bundle(*bundle(), *set_, major, minor);
    return image ? image->code : "none";
  };
  EXPECT_EQ(code(8, 0), "fake sm_80");
  EXPECT_EQ(code(8, 6), "fake sm_80");
  EXPECT_EQ(code(8, 9), "fake sm_89");
  EXPECT_EQ(code(9, 0), "fake compute_80");
  EXPECT_EQ(code(12, 1), "fake compute_80");
  EXPECT_EQ(code(7, 5), "none");
  bundle_for({"sm_90"});
  EXPECT_EQ(code(8, 0), "none");
  EXPECT_EQ(code(10, 0), "none");
}

TEST_F(ModuleTest, TargetsOfLimitedModules) {
  auto target = [](std::vector<std::string> archs, int major, int minor) {
    return Module("gpukit/ops/common/types.cuh", std::nullopt, {"k"}, std::move(archs)).target(major, minor);
  };
  EXPECT_EQ(target({}, 8, 6), "sm_86");
  EXPECT_EQ(target({"90a"}, 9, 0), "sm_90a");
  EXPECT_EQ(target({"90a", "100f"}, 10, 3), "sm_100f");
  EXPECT_EQ(target({"100a"}, 10, 0), "sm_100a");
  EXPECT_THROW(target({"100a"}, 10, 3), UnsupportedError);
  EXPECT_THROW(target({"90a"}, 8, 0), UnsupportedError);
  EXPECT_THROW(target({"120f"}, 10, 0), UnsupportedError);
}

TEST_F(ModuleTest, RefusedAndMissingCodeSaysWhatWasTried) {
  bundle_for({"sm_80"});
  memory::Use out = buffer(1);
  try {
    launch(kernel(), kCpu, {}, out, 1.0f, 1LL);
    // With NVRTC here `fill` is compiled, and there is no such kernel in types.cuh.
    FAIL() << "a kernel without code was launched";
  } catch (const NvrtcError& e) {
    EXPECT_NE(std::string(e.what()).find("types.cuh"), std::string::npos) << e.what();
  }
}

TEST_F(ModuleTest, SharedMemoryLimitIsRaisedOnce) {
  bundle_for({"sm_90"});
  memory::Use out = buffer(1);
  calls.static_shared = 1024;
  auto shared = [&](unsigned bytes) {
    LaunchConfig config;
    config.shared_bytes = bytes;
    launch(kernel(), kCpu, config, out, 1.0f, 1LL);
  };
  shared(0);
  shared(47 * 1024);
  EXPECT_TRUE(calls.raised.empty());
  shared(48 * 1024);
  shared(48 * 1024);
  shared(100 * 1024);
  shared(64 * 1024);
  EXPECT_EQ(calls.raised, (std::vector<int>{48 * 1024, 100 * 1024}));
}

TEST_F(ModuleTest, AFailedLaunchNamesKernelGridAndBlock) {
  bundle_for({"sm_90"});
  memory::Use out = buffer(1);
  LaunchConfig config;
  config.grid_x = 3;
  config.block_x = 2048;
  try {
    launch(kernel(), kCpu, config, out, 1.0f, 1LL);
    FAIL() << "a block of 2048 threads was launched";
  } catch (const CudaError& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.code, 1);
    EXPECT_NE(text.find("fill"), std::string::npos) << text;
    EXPECT_NE(text.find("grid (3, 1, 1)"), std::string::npos) << text;
    EXPECT_NE(text.find("block (2048, 1, 1)"), std::string::npos) << text;
  }
  launch(kernel(), kCpu, {}, out, 1.0f, 1LL);
  EXPECT_EQ(values()[0], 1.0f);
}

TEST_F(ModuleTest, FirstUseInsideACaptureAndVerify) {
  bundle_for({"sm_90"});
  memory::Use out = buffer(3);
  runtime::Graph graph(kCpu);
  graph.begin_capture();
  {
    const runtime::Session session = runtime::current_session().with_stream(graph.stream());
    runtime::SessionGuard guard(session);
    float value = 2.0f;
    launch(kernel(), kCpu, {}, out, value, 3LL);
    value = 100.0f;  // the parameters were read at the call
  }
  graph.end_capture();
  EXPECT_EQ(values()[0], 0.0f);
  EXPECT_TRUE(graph.verify());
  EXPECT_EQ(values()[0], 0.0f);
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(values()[2], 2.0f);
}

TEST_F(ModuleTest, BinaryKernelsLaunchAsOursDo) {
  const std::vector<std::string> types = {"*fp32", "fp32", "i64"};
  const BinaryKernel kernel("lowered_fill", "fake of another", types), again("lowered_fill", "fake of another", types);
  EXPECT_EQ(kernel.attributes(kCpu).max_threads, 0);
  Argument arguments[3];
  arguments[0].kind = Argument::Kind::array;
  arguments[0].device = kCpu;
  arguments[0].size = 3;
  arguments[0].use = buffer(3);
  arguments[1].kind = arguments[2].kind = Argument::Kind::number;
  arguments[1].number = Scalar(2.0);
  arguments[2].number = Scalar(int64_t{3});
  LaunchOptions options;
  options.grid = Extent{2, 1, 1};
  options.block = Extent{128, 1, 1};
  runtime::Graph graph(kCpu);
  graph.begin_capture();
  {
    const runtime::Session session = runtime::current_session().with_stream(graph.stream());
    runtime::SessionGuard guard(session);
    again.launch(kCpu, arguments, options);
  }
  graph.end_capture();
  EXPECT_TRUE(graph.verify());
  kernel.launch(kCpu, arguments, options);
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(values()[2], 4.0f);
  EXPECT_EQ(calls.libraries, 1);

  arguments[0].dtype = DType::float16;
  EXPECT_THROW(kernel.launch(kCpu, arguments, options), DTypeError);
  EXPECT_THROW(kernel.launch(kCpu, {arguments, 2}, options), ArgumentError);
  EXPECT_THROW(BinaryKernel("lowered_fill", "", types), ArgumentError);
  EXPECT_THROW(BinaryKernel("lowered_fill", "fake", {"nvTmaDesc"}), UnsupportedError);
  EXPECT_THROW(BinaryKernel("lowered_fill", "fake", {"void"}), UnsupportedError);
  EXPECT_THROW(BinaryKernel("lowered_fill", "broken", types).attributes(kCpu), NvrtcError);
  EXPECT_TRUE(type_of_word("k", "*kbf16").constant);
}

TEST(Source, ClosureFollowsIncludesOfTheTable) {
  const auto files = embedded_closure("gpukit/ops/common/vec.cuh");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_STREQ(files[0]->name, "gpukit/ops/common/vec.cuh");
  EXPECT_STREQ(files[2]->name, "gpukit/ops/common/types.cuh");
  EXPECT_THROW(embedded_closure("gpukit/none.cuh"), NotFoundError);
  EXPECT_TRUE(include_closure("#include \"gpukit/ops/common/types.cuh\"\n").complete);
  EXPECT_TRUE(include_closure("// #include <x>\nint a;").complete);
  EXPECT_FALSE(include_closure("#include <cuda_fp16.h>\n").complete);
  EXPECT_FALSE(include_closure("#include \"mine.h\"\n").complete);
  EXPECT_FALSE(include_closure("#include NAME\n").complete);
  EXPECT_FALSE(include_closure("#if __has_include(\"x.h\")\n#endif\n").complete);
}

TEST(Source, OurOwnIncludesArePlain) {
  for (const EmbeddedFile& file : embedded_files()) {
    const auto& quick = embedded_closure(file.name);
    EXPECT_EQ(&quick, &embedded_closure(file.name));
    const auto read = include_closure({file.data, file.size}).files;  // by tokens
    EXPECT_EQ(std::vector(quick.begin() + 1, quick.end()), read) << file.name;
  }
}

}  // namespace
}  // namespace gpukit::jit
