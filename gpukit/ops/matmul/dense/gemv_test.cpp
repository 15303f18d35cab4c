#include "gpukit/ops/matmul/dense/gemv.h"

#include <gtest/gtest.h>

namespace gpukit::cuda {
namespace {

/// A row [k] by a matrix of n outputs that lies along k, or along its outputs.
GemvProduct row_by(int64_t n, int64_t k, bool along_k) {
  return {.m = 1,
          .n = n,
          .k = k,
          .a_m = k,
          .a_k = 1,
          .b_k = along_k ? 1 : n,
          .b_n = along_k ? k : 1,
          .out_m = n,
          .out_n = 1,
          .a_aligned = true,
          .b_aligned = true,
          .input = DType::bfloat16,
          .out = DType::bfloat16};
}

std::string chosen(const GemvProduct& product) {
  const auto plan = plan_gemv(product);
  return plan ? plan->str().substr(0, plan->str().find(';')) : "none";
}

TEST(GemvPlan, BothLayoutsOfTheMatrix) {
  EXPECT_EQ(chosen(row_by(4096, 4096, true)), "gemv, w along k, 4096 blocks");
  EXPECT_EQ(chosen(row_by(512, 4096, false)), "gemv, w along its outputs, 64 blocks");
  EXPECT_EQ(chosen(row_by(4096, 4096, false)), "gemv, w along its outputs, 256 blocks");
  EXPECT_EQ(chosen(row_by(8192, 8192, false)), "gemv, w along its outputs, 256 blocks");
  EXPECT_EQ(chosen(row_by(14336, 4096, false)), "gemv, w along its outputs, 224 blocks");
}

TEST(GemvPlan, AColumnIsARowOfTheTranspose) {
  GemvProduct p = row_by(4096, 1024, true);
  p = {.m = p.n,
       .n = 1,
       .k = p.k,
       .a_m = p.b_n,
       .a_k = p.b_k,
       .b_k = p.a_k,
       .b_n = p.a_m,
       .out_m = 3,
       .out_n = 1,
       .a_aligned = true,
       .b_aligned = true,
       .input = p.input,
       .out = p.out};
  const auto plan = plan_gemv(p);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->w_is_a);
  EXPECT_EQ(plan->n, 4096);
  EXPECT_EQ(plan->w_stride, 1024);
  EXPECT_EQ(plan->out_stride, 3);
}

TEST(GemvPlan, WhatItCannotReadIsRefused) {
  EXPECT_EQ(chosen(row_by(64, 60, true)), "none");  // rows of 120 bytes
  EXPECT_EQ(chosen(row_by(60, 64, false)), "none");
  EXPECT_EQ(chosen(row_by(64, 0, true)), "none");
  GemvProduct p = row_by(64, 64, true);
  p.m = 2;
  EXPECT_EQ(chosen(p), "none");
  p = row_by(64, 64, true);
  p.a_aligned = false;
  EXPECT_EQ(chosen(p), "none");
  p = row_by(64, 64, true);
  p.a_k = 2;
  EXPECT_EQ(chosen(p), "none");
  p = row_by(64, 64, true);
  p.b_n = 0;  // one row of weights for all outputs
  EXPECT_EQ(chosen(p), "none");
  p = row_by(64, 64, true);
  p.input = p.out = DType::float32;
  EXPECT_EQ(chosen(p), "none");
}

TEST(GemvPlan, Float32Results) {
  GemvProduct p = row_by(64, 64, true);
  p.out = DType::float32;
  EXPECT_EQ(chosen(p), "gemv, w along k, 64 blocks");
  p = row_by(64, 64, false);
  p.out = DType::float32;
  EXPECT_EQ(chosen(p), "none");
}

}  // namespace
}  // namespace gpukit::cuda
