#include "gpukit/ops/matmul/linear.h"

#include <gtest/gtest.h>

#include <string>

namespace gpukit::cuda {
namespace {

std::string form(int64_t m, int64_t n, int64_t k, int loaded = 1, bool narrow = false, int sm_count = 132) {
  const LinearForm f = choose_linear_form(m, n, k, loaded, narrow, sm_count);
  return std::to_string(f.rows) + " x " + std::to_string(f.columns) + (f.turns ? " in turns" : " shared");
}

TEST(LinearForm, ManyTilesAreTakenInTurns) {
  EXPECT_EQ(form(2048, 14336, 4096), "128 x 128 in turns");
  EXPECT_EQ(form(2048, 18944, 3584), "128 x 128 in turns");
  EXPECT_EQ(form(2000, 4104, 64), "128 x 128 in turns");
}

TEST(LinearForm, LongSumsHideTheRest) { EXPECT_EQ(form(2048, 4096, 14336), "128 x 256 shared"); }

TEST(LinearForm, OneTileIsShared) {
  EXPECT_EQ(form(512, 4096, 4096), "128 x 128 shared");
  EXPECT_EQ(form(1, 8, 8), "128 x 128 shared");
}

TEST(LinearForm, LowTilesWhereHalfTheChipWouldRest) {
  EXPECT_EQ(form(256, 4096, 4096), "64 x 128 shared");
  EXPECT_EQ(form(256, 4096, 4096, 1, true), "64 x 128 shared");
  EXPECT_EQ(form(64, 3584, 3584), "64 x 128 shared");
  EXPECT_EQ(form(256, 14336, 4096), "128 x 256 shared");
}

TEST(LinearForm, FewerMultiprocessorsHaveMoreTilesEach) {
  EXPECT_EQ(form(512, 4096, 2048), "128 x 128 shared");
  EXPECT_EQ(form(512, 4096, 2048, 1, false, 16), "128 x 128 in turns");
}

TEST(LinearForm, WhatHasNoRoomStaysNarrowAndShared) { EXPECT_EQ(form(2048, 14336, 4096, 1, true), "128 x 128 shared"); }

TEST(LinearForm, PairsAreShared) {
  EXPECT_EQ(form(2048, 14336, 4096, 2), "128 x 256 shared");
  EXPECT_EQ(form(256, 4096, 4096, 2), "128 x 128 shared");
}

}  // namespace
}  // namespace gpukit::cuda
