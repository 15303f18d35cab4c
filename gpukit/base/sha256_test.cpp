#include "gpukit/base/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace gpukit {
namespace {

TEST(Sha256, KnownVectors) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t length : {0u, 1u, 55u, 56u, 63u, 64u, 65u, 119u, 120u, 128u, 300u}) {
    const std::string_view part = std::string_view(text).substr(0, length);
    for (size_t step : {1u, 3u, 64u, 100u}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += step) hash.update(part.substr(at, step));
      EXPECT_EQ(hash.finish(), sha256(part)) << length << " by " << step;
    }
  }
}

TEST(Sha256, InstructionsAndTheLoopAgree) {
  std::vector<uint8_t> data(64 * 9);
  uint32_t seed = 1;
  for (uint8_t& byte : data) byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  for (size_t count : {0u, 1u, 2u, 8u}) {
    for (size_t offset : {0u, 1u, 13u}) {
      uint32_t a[8], b[8];
      for (uint32_t i = 0; i < 8; ++i) a[i] = b[i] = seed * (i + 1);
      sha256_blocks(a, data.data() + offset, count);
      sha256_blocks_plain(b, data.data() + offset, count);
      EXPECT_TRUE(std::equal(a, a + 8, b)) << count << " blocks from byte " << offset;
    }
  }
}

TEST(Sha256, FieldsHaveOneReading) {
  Sha256 a, b;
  a.field("ab");
  a.field("c");
  b.field("a");
  b.field("bc");
  EXPECT_NE(a.finish(), b.finish());
}

}  // namespace
}  // namespace gpukit
