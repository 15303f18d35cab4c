#include "gpukit/ops/matmul/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/copy.h"

namespace gpukit {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

Array numbered(const Dims& shape) {
  Array x = Array::empty(shape, DType::float32, kCpu);
  float* const to = static_cast<float*>(x.host_data());
  std::iota(to, to + x.size(), 0.0f);
  return x;
}
std::vector<float> numbers(const Array& x) {
  const Array dense = contiguous(x);
  const float* const from = static_cast<const float*>(dense.host_data());
  return {from, from + dense.size()};
}

TEST(Pack, WhatLiesWellIsReturned) {
  for (const Array& x : {numbered({3, 8}), numbered({5, 1}), numbered({}), numbered({7}), numbered({0, 3}),
                         numbered({6, 16}).narrow(1, 4, 3), numbered({1, 5})}) {
    EXPECT_TRUE(is_packed_rows(x)) << x.shape().str();
    const Array packed = pack(x);
    EXPECT_EQ(packed.storage(), x.storage()) << x.shape().str();
    EXPECT_EQ(packed.strides(), x.strides()) << x.shape().str();
  }
}

TEST(Pack, OthersAreCopiedToRowsAtMultiplesOf16Bytes) {
  for (const Array& x : {numbered({3, 5}), numbered({5, 3}).transpose(), numbered({4, 9}).narrow(1, 1, 8),
                         numbered({2, 3, 7}), numbered({9}).narrow(0, 1, 6),
                         numbered({1, 6}).broadcast_to({4, 6}).permute({1, 0}), numbered({1, 8}).broadcast_to({3, 8}),
                         numbered({3, 8}).slice(0, 2, -1, -1), numbered({2, 5}).transpose().narrow(1, 1, 1)}) {
    EXPECT_FALSE(is_packed_rows(x)) << x.shape().str();
    const Array packed = pack(x);
    EXPECT_TRUE(is_packed_rows(packed)) << x.shape().str();
    EXPECT_EQ(packed.shape(), x.shape());
    EXPECT_NE(packed.storage(), x.storage());
    EXPECT_EQ(numbers(packed), numbers(x)) << x.shape().str();
  }
  EXPECT_EQ(pack(numbered({3, 5})).strides(), Dims({8, 1}));
}

TEST(Pack, CodesCountBytes) {
  const Array values = Array::empty({4, 24}, DType::int4, kCpu);
  EXPECT_FALSE(is_packed_rows(values));
  EXPECT_EQ(pack(values).strides(), Dims({32, 1}));
}

}  // namespace
}  // namespace gpukit
