#include "gpukit/ops/fft/fft_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace gpukit::fft {
namespace {

constexpr int64_t kSm80 = 163 << 10, kSm86 = 99 << 10, kSm90 = 227 << 10;

TEST(FftPlan, RadicesMultiplyToTheLength) {
  for (int64_t n = 1; n <= 8192; ++n) {
    if (!is_smooth(n)) continue;
    const std::vector<int> factors = radices(n);
    EXPECT_EQ(std::accumulate(factors.begin(), factors.end(), int64_t{1}, std::multiplies<>()), n);
    EXPECT_LE(factors.size(), 16u) << n;
  }
}

TEST(FftPlan, ConvolutionsAreSmoothAndLongEnough) {
  for (int64_t n = 2; n < 4000; ++n) {
    const int64_t m = convolution_length(n);
    EXPECT_TRUE(is_smooth(m)) << n;
    EXPECT_GE(m, 2 * n - 1) << n;
    EXPECT_LT(m, 4 * n) << n;
  }
}

TEST(FftPlan, TheLongestRowFitsTheChip) {
  EXPECT_EQ(longest_row(kSm80, 8), 8192);
  EXPECT_EQ(longest_row(kSm90, 8), 8192);
  EXPECT_EQ(longest_row(kSm86, 8), 4096);
  EXPECT_EQ(longest_row(kSm90, 16), 4096);
  EXPECT_EQ(longest_row(kSm86, 16), 2048);
}

TEST(FftPlan, BlocksFitTheChip) {
  for (const int64_t shared : {kSm80, kSm86, kSm90})
    for (const int64_t point : {8, 16})
      for (int64_t n = 1; n <= longest_row(shared, point); n = n * 2 + n % 3)
        for (const bool columns : {false, true}) {
          const int64_t rows = rows_of_block(n, point, columns, shared);
          EXPECT_GE(rows, 1);
          EXPECT_LE(rows * row_bytes(n, point) + 2048, shared) << n;
          if (!columns) {
            EXPECT_LE(rows, std::max<int64_t>(1, 2048 / n)) << n;
          }
        }
  // Whole sectors of columns: 2^20 is two passes of 1024.
  EXPECT_EQ(rows_of_block(1024, 8, true, kSm90), 12);
  EXPECT_EQ(rows_of_block(1024, 8, true, kSm80), 8);
  EXPECT_EQ(rows_of_block(256, 8, true, kSm90), 16);
}

TEST(FftPlan, BigLengthsAreTwoPasses) {
  for (const int64_t n : {int64_t{1} << 14, int64_t{1} << 20, int64_t{10'000'000}, int64_t{1} << 26}) {
    const int64_t first = balanced_divisor(n, 8192);
    EXPECT_GT(first, 0) << n;
    EXPECT_EQ(n % first, 0) << n;
    EXPECT_LE(n / first, 8192) << n;
  }
  EXPECT_EQ(balanced_divisor(int64_t{1} << 27, 8192), 0);
}

}  // namespace
}  // namespace gpukit::fft
