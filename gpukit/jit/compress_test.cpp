#include "gpukit/jit/compress.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace gpukit::jit {
namespace {

std::string random_bytes(size_t size, int values, uint32_t seed) {
  std::mt19937 random(seed);
  std::string data;
  for (size_t i = 0; i < size; ++i) data += static_cast<char>(random() % static_cast<uint32_t>(values));
  return data;
}

/// Like machine code: records of 16 bytes, copied from far before with small changes.
std::string code_like(size_t records, uint32_t seed) {
  std::mt19937 random(seed);
  std::string data = random_bytes(16 * 64, 256, seed);
  while (data.size() < records * 16) {
    std::string part = data.substr(random() % (data.size() - 256), 16 + random() % 240);
    part[random() % part.size()] ^= static_cast<char>(1 << random() % 8);
    data += part;
  }
  return data;
}

std::vector<std::string> samples() {
  std::vector<std::string> list = {
      "", "a", "ab", "aaa", "abcabcabcabc", std::string(100000, 'x'), std::string(5000, '\0')};
  for (size_t size : {2, 3, 4, 5, 255, 256, 257, 2047, 2048, 2049, 5000}) {
    list.push_back(random_bytes(size, 256, 1));
    list.push_back(random_bytes(size, 2, 2));
  }
  list.push_back(code_like(3000, 3));
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "add.s32 \t%r" + std::to_string(i) + ", %r" + std::to_string(i - 7) + ";\n";
  list.push_back(text);
  return list;
}

TEST(Compress, RoundTrip) {
  for (const std::string& data : samples()) {
    const std::string packed = compress(data);
    const auto back = decompress(packed, data.size());
    ASSERT_TRUE(back) << data.size();
    EXPECT_EQ(*back, data) << data.size();
    EXPECT_EQ(compress(data), packed);
    EXPECT_LE(packed.size(), data.size() + data.size() / 50 + 64);
  }
}

TEST(Compress, RepeatsFarApartAreSmall) {
  const std::string one = random_bytes(30000, 256, 7);
  const std::string gap = random_bytes(200000, 256, 8);
  EXPECT_LT(compress(one + gap + one).size(), compress(one + gap).size() + 64);
  EXPECT_LT(compress(code_like(20000, 4)).size(), 20000u * 16 / 8);
}

TEST(Compress, AnyInputIsSafe) {
  const std::string data = code_like(200, 5);
  const std::string packed = compress(data);
  for (size_t i = 0; i < packed.size(); ++i) {
    std::string bad = packed;
    bad[i] ^= 0x20;
    const auto back = decompress(bad, data.size());
    EXPECT_TRUE(!back || back->size() == data.size());
    const auto cut = decompress(packed.substr(0, i), data.size());
    EXPECT_TRUE(!cut || cut->size() == data.size());
  }
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto back = decompress(random_bytes(100, 256, seed), 5000);
    EXPECT_TRUE(!back || back->size() == 5000);
  }
  EXPECT_FALSE(decompress("", 10));
}

}  // namespace
}  // namespace gpukit::jit
