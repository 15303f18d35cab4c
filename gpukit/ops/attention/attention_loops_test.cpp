#include "gpukit/ops/attention/attention_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace gpukit::cpu {
namespace {

std::vector<MatmulLevel> levels() {
  std::vector<MatmulLevel> found;
  for (const MatmulLevel level : {MatmulLevel::plain, MatmulLevel::avx2, MatmulLevel::avx512})
    if (level <= best_matmul_level()) found.push_back(level);
  return found;
}

/// Scores of one tile, some of them out of the range of exponentials.
std::vector<float> scores(int seed) {
  std::vector<float> x(kKeyTile);
  for (int i = 0; i < kKeyTile; ++i) x[static_cast<size_t>(i)] = 40.0f * std::sin(static_cast<float>(seed + 7 * i));
  return x;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST(AttentionLoops, EveryLevelHasItsOwn) {
  const AttentionLoops plain = attention_loops(MatmulLevel::plain);
  for (const MatmulLevel level : levels()) {
    if (level == MatmulLevel::plain) continue;
    const AttentionLoops wide = attention_loops(level);
    EXPECT_NE(wide.softmax, plain.softmax);
    EXPECT_NE(wide.scale, plain.scale);
    EXPECT_NE(wide.merge, plain.merge);
    EXPECT_NE(wide.read, plain.read);
  }
}

TEST(AttentionLoops, EveryLevelHasTheSameBits) {
  std::vector<float> bias(kKeyTile, 0.25f);
  bias[5] = kNoScore;
  const ScoreRow rows[] = {{0.125f, 0, 0, 0, 0, kKeyTile, nullptr},
                           {3.0f, 20.0f, 0, 0, 3, 61, nullptr},
                           {1.0f, 0, 0.5f, 40, 0, kKeyTile, bias.data()},
                           {1.0f, 0, 0, 0, 9, 9, nullptr}};
  const AttentionLoops plain = attention_loops(MatmulLevel::plain);
  for (const MatmulLevel level : levels()) {
    const AttentionLoops loops = attention_loops(level);
    for (const ScoreRow& row : rows) {
      SoftmaxState state, expected;
      for (int tile = 0; tile < 3; ++tile) {
        std::vector<float> a = scores(tile), b = scores(tile);
        const float factor = loops.softmax(a.data(), row, &state), wanted = plain.softmax(b.data(), row, &expected);
        EXPECT_TRUE(same_bits(a, b));
        EXPECT_EQ(factor, wanted);
        EXPECT_EQ(state.sum, expected.sum);
        EXPECT_EQ(state.most, expected.most);
        loops.merge(a.data(), scores(tile + 5).data(), kKeyTile, 0.3f, 0.7f);
        plain.merge(b.data(), scores(tile + 5).data(), kKeyTile, 0.3f, 0.7f);
        EXPECT_TRUE(same_bits(a, b));
        loops.scale(a.data(), kKeyTile - 1, 0.1f);
        plain.scale(b.data(), kKeyTile - 1, 0.1f);
        EXPECT_TRUE(same_bits(a, b));
      }
    }
  }
}

TEST(AttentionLoops, EveryLevelReadsHeads) {
  std::vector<half> given(100);
  for (size_t i = 0; i < given.size(); ++i) given[i] = to_half(0.37f * static_cast<float>(i) - 11.0f);
  for (const MatmulLevel level : levels()) {
    const AttentionLoops loops = attention_loops(level);
    std::vector<float> to(45);
    EXPECT_TRUE(loops.read(to.data(), given.data(), CacheKind::float16, 3, 45, 2, 1.0f));
    for (size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], to_float(given[3 + 2 * i]));
    std::vector<half> infinite = given;
    infinite[40] = half{0x7c00};
    EXPECT_FALSE(loops.read(to.data(), infinite.data(), CacheKind::float16, 0, 45, 1, 1.0f));
  }
}

}  // namespace
}  // namespace gpukit::cpu
