#include "gpukit/scheduler/inspect/nvtx.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/nvtx.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "tests/support/fake_driver.h"

namespace gpukit::scheduler {
namespace {

using gpukit::testing::FakeDriver;

constexpr Device kCpu{DeviceKind::cpu, 0};

void work(const char* name) {
  runtime::run_host(name, kCpu, std::span<const memory::Use>(), [](void* const*) {});
}

std::vector<std::string>* g_ranges = nullptr;
int push(const char* name) {
  g_ranges->push_back(std::string("push ") + name);
  return 0;
}
int pop() {
  g_ranges->push_back("pop");
  return 0;
}
void mark(const char*) {}

TEST(Nvtx, RangesSurroundSubmissions) {
  FakeDriver fake;
  runtime::open_device(kCpu);
  std::vector<std::string> ranges;
  g_ranges = &ranges;
  const driver::NvtxTable table{push, pop, mark};
  driver::replace_nvtx(&table);
  EXPECT_TRUE(NvtxRanges::instance().start());
  work("a");
  fake.fail_nth_of("cuLaunchHostFunc", 1, 1);
  EXPECT_THROW(work("b"), CudaError);
  NvtxRanges::instance().stop();
  work("c");
  driver::replace_nvtx(nullptr);
  EXPECT_EQ(ranges, (std::vector<std::string>{"push a", "pop", "push b", "pop"}));
  EXPECT_EQ(runtime::open_device(kCpu).default_stream->control.load(), nullptr);
}

TEST(Nvtx, AbsentIsSilentAndSaysWhatWasTried) {
  const driver::NvtxLibrary& library = driver::nvtx();
  if (library.table != nullptr) {
    EXPECT_FALSE(library.path.empty());
    return;
  }
  EXPECT_FALSE(NvtxRanges::instance().start());
  EXPECT_NE(library.reason.find("tried "), std::string::npos);
}

}  // namespace
}  // namespace gpukit::scheduler
