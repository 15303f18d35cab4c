#include "gpukit/jit/options.h"

#include <gtest/gtest.h>

namespace gpukit::jit {
namespace {

using Options = std::vector<std::string>;

TEST(NvrtcOptions, GoThroughAsTheyAre) {
  const Options given = {"-DX=1",       "-D", "Y",  "--use_fast_math", "-lineinfo",
                         "--std=c++20", "-I", "/x", "-arch=sm_90",     "--no-such-option"};
  Options passed_over;
  EXPECT_EQ(nvrtc_options(given, &passed_over), given);
  EXPECT_EQ(passed_over, Options());
}

TEST(NvrtcOptions, OfTheHostsCompilerArePassedOver) {
  Options passed_over;
  EXPECT_EQ(nvrtc_options({"-O3", "-DX", "-Xcompiler", "-fPIC", "-ccbin=g++", "-O0", "--optimize", "2",
                           "-gencode=arch=compute_90,code=sm_90", "--threads", "4", "-G"},
                          &passed_over),
            Options({"-DX", "-G"}));
  EXPECT_EQ(passed_over, Options({"-O3", "-Xcompiler -fPIC", "-ccbin=g++", "-O0", "--optimize 2",
                                  "-gencode=arch=compute_90,code=sm_90", "--threads 4"}));
  EXPECT_EQ(nvrtc_options({"-Xcompiler"}), Options());
}

TEST(NvrtcOptions, SpellingsOfNvccAreTranslated) {
  EXPECT_EQ(nvrtc_options({"-Xptxas", "-O1,-v"}), Options({"--ptxas-options=-O1", "--ptxas-options=-v"}));
  EXPECT_EQ(nvrtc_options({"-Xptxas=-v", "-Xptxas -dlcm=cg"}),
            Options({"--ptxas-options=-v", "--ptxas-options=-dlcm=cg"}));
  EXPECT_EQ(nvrtc_options({"--ptxas-options", "-v", "-DX"}), Options({"--ptxas-options=-v", "-DX"}));
  EXPECT_EQ(nvrtc_options({"-std", "c++17", "-res-usage"}), Options({"--std=c++17", "--ptxas-options=-v"}));
}

}  // namespace
}  // namespace gpukit::jit
