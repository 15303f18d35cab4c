#include "gpukit/ops/matmul/linear_impl.h"

#include <gtest/gtest.h>

#include <string>

namespace gpukit::cuda {
namespace {

std::string form(int64_t m, int64_t n, int64_t k, int loaded = 1, int sm_count = 132) {
  const LinearForm f = choose_linear_form(m, n, k, loaded, sm_count);
  return std::to_string(f.rows) + " x " + std::to_string(f.columns);
}

TEST(LinearForm, ManyTilesAreWide) {
  EXPECT_EQ(form(2048, 14336, 4096), "128 x 256");
  EXPECT_EQ(form(2048, 18944, 3584), "128 x 256");
  EXPECT_EQ(form(2048, 4096, 14336), "128 x 256");
  EXPECT_EQ(form(256, 14336, 4096), "128 x 256");
}

TEST(LinearForm, NarrowWhereWideTilesLeaveMultiprocessorsIdle) {
  EXPECT_EQ(form(512, 4096, 4096), "128 x 128");
  EXPECT_EQ(form(1, 8, 8), "128 x 128");
}

TEST(LinearForm, LowWhereHalfTheChipWouldRest) {
  EXPECT_EQ(form(256, 4096, 4096), "64 x 128");
  EXPECT_EQ(form(64, 3584, 3584), "64 x 128");
}

TEST(LinearForm, FewerMultiprocessorsHaveMoreTilesEach) {
  EXPECT_EQ(form(512, 4096, 2048), "128 x 128");
  EXPECT_EQ(form(512, 4096, 2048, 1, 16), "128 x 256");
}

TEST(LinearForm, PairsHaveNoLowTiles) {
  EXPECT_EQ(form(2048, 14336, 4096, 2), "128 x 256");
  EXPECT_EQ(form(256, 4096, 4096, 2), "128 x 128");
}

}  // namespace
}  // namespace gpukit::cuda
