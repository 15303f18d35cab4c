#include "gpukit/ops/conv/conv_gather.h"

#include <gtest/gtest.h>

#include <vector>

namespace gpukit::cpu {
namespace {

template <typename T>
void expect_weights_in_order(MatmulLevel level) {
  using Sum = typename Sums<T>::type;
  // Three channels of 3 x 64 elements with two taps apart, three rows and taps in reverse.
  const GatherSteps steps{3, 2, -4, 64, 192};
  constexpr int64_t kWeights = 3 * 2 * 3, kStart = 8;
  std::vector<T> x(3 * 192);
  for (size_t i = 0; i < x.size(); ++i) x[i] = cpu::store<T>(static_cast<compute_t<T>>(i));
  const int64_t lanes = choose_block<T>(level).columns;
  for (int64_t first = 0; first < kWeights; ++first)
    for (int64_t depth = 0; first + depth <= kWeights; ++depth) {
      std::vector<Sum> to(static_cast<size_t>((depth + 1) * lanes), Sum(-1));
      choose_gather<T>(level)(to.data(), x.data() + kStart, steps, first, depth);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t lane = 0; lane < lanes; ++lane) {
          const int64_t weight = first + k, tap = weight % 3, row = weight / 3 % 2, channel = weight / 6;
          const int64_t at = kStart + channel * 192 + row * 64 - 4 * tap + lane;
          ASSERT_EQ(to[static_cast<size_t>(k * lanes + lane)], cpu::load(x[static_cast<size_t>(at)]));
        }
      for (int64_t lane = 0; lane < lanes; ++lane) ASSERT_EQ(to[static_cast<size_t>(depth * lanes + lane)], Sum(-1));
    }
}

TEST(ConvGather, EveryLevelTakesTapsThenRowsThenChannels) {
  for (const MatmulLevel level : {MatmulLevel::plain, MatmulLevel::avx2, MatmulLevel::avx512}) {
    if (level > best_matmul_level()) continue;
    expect_weights_in_order<float>(level);
    expect_weights_in_order<double>(level);
    expect_weights_in_order<half>(level);
  }
}

}  // namespace
}  // namespace gpukit::cpu
