// Compile reports: what in the compiler's log makes a kernel fail.
#include "gpukit/jit/kernel_check.h"

#include <gtest/gtest.h>

namespace gpukit::jit {
namespace {

constexpr const char* kCleanLog =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function '_Z1kIfEvPT_' for 'sm_90'\n"
    "ptxas info    : Function properties for _Z1kIfEvPT_\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 40 registers, used 0 barriers\n"
    "ptxas         .     16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 128 registers, used 1 barriers, 16 bytes cumulative stack size\n";

KernelReport report(const std::string& log) {
  Image image;
  image.log = log;
  return report_of(image);
}

TEST(KernelReport, CleanLog) {
  const KernelReport clean = report(kCleanLog);
  EXPECT_EQ(clean.max_registers, 128);
  EXPECT_EQ(clean.spill_bytes, 0);
  EXPECT_EQ(clean.stack_bytes, 16);
  EXPECT_FALSE(clean.serialized);
  EXPECT_EQ(report("").max_registers, 0);
}

TEST(KernelReport, SpillsAndSerializedWgmmaAreSeen) {
  const std::string log = kCleanLog;
  const KernelReport spilled =
      report(log + "ptxas         .     1112 bytes stack frame, 1824 bytes spill stores, 2336 bytes spill loads\n");
  EXPECT_EQ(spilled.spill_bytes, 1824 + 2336);
  const KernelReport serialized = report(
      log +
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...\n");
  EXPECT_TRUE(serialized.serialized);
}

TEST(KernelReport, ModulesLimitedToChips) {
  const Module generic("gpukit/ops/common/types.cuh", std::nullopt, {"k"}, {});
  const Module hopper("gpukit/ops/common/types.cuh", std::nullopt, {"k"}, {"90a"});
  EXPECT_TRUE(applies(generic, "80"));
  EXPECT_TRUE(applies(generic, "120f"));
  EXPECT_TRUE(applies(hopper, "90a"));
  EXPECT_FALSE(applies(hopper, "90"));
  EXPECT_FALSE(applies(hopper, "80"));
}

}  // namespace
}  // namespace gpukit::jit
