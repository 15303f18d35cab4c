// WAV files of every format with random changes: each one is read, or refused by FormatError. PYGPUKIT_FUZZ is the
// number of inputs. A failure names its seed; PYGPUKIT_FUZZ_ROUND begins there.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/io/wav.h"

namespace gpukit::io {
namespace {

uint64_t setting(const char* name, const char* standard) { return std::stoull(env::get(name).value_or(standard)); }

constexpr uint32_t kOddNumbers[] = {0,    1,    2,          7,          16,         40,        255,
                                    1024, 1025, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};
constexpr const char* kTags[] = {"RIFF", "RIFX", "RF64", "WAVE", "fmt ", "data", "LIST", "fact", "JUNK"};
constexpr unsigned char kGuidTail[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xAA, 0, 0x38, 0x9B, 0x71};

class Maker {
 public:
  explicit Maker(uint64_t seed) : state_(seed) {}

  uint64_t below(uint64_t limit) { return next() % limit; }

  /// A file that is read as [channels, n].
  std::string file(int64_t* channels, int64_t* n) {
    constexpr int kBits[] = {8, 16, 24, 32, 32, 64};
    const uint64_t format = below(6);
    const bool extensible = below(3) == 0;
    const auto tag = static_cast<uint16_t>(format >= 4 ? 3 : 1);
    *channels = static_cast<int64_t>(below(4)) + 1;
    *n = static_cast<int64_t>(below(24));
    const auto rate = static_cast<uint32_t>(below(192000) + 1);
    const auto block = static_cast<uint16_t>(*channels * kBits[format] / 8);
    std::string body = "WAVE";
    if (below(4) == 0) chunk(body, "LIST", std::string(below(9), 'x'));
    std::string fmt;
    put(fmt, extensible ? uint16_t{0xFFFE} : tag);
    put(fmt, static_cast<uint16_t>(*channels));
    put(fmt, rate);
    put(fmt, rate * block);
    put(fmt, block);
    put(fmt, static_cast<uint16_t>(kBits[format]));
    if (extensible) {
      put(fmt, uint16_t{22});
      put(fmt, static_cast<uint16_t>(kBits[format]));
      put(fmt, uint32_t{0});
      put(fmt, tag);
      fmt.append(reinterpret_cast<const char*>(kGuidTail), sizeof(kGuidTail));
    }
    chunk(body, "fmt ", fmt);
    if (below(4) == 0) chunk(body, "fact", std::string(4, '\0'));
    std::string samples(static_cast<size_t>(*n * block), '\0');
    for (char& c : samples) c = static_cast<char>(next());
    chunk(body, "data", samples);
    std::string all = "RIFF";
    put(all, static_cast<uint32_t>(body.size()));
    return all + body;
  }

  void change(std::string& bytes) {
    const size_t at = below(bytes.size() + 1);
    switch (below(6)) {
      case 0: bytes.resize(at); break;
      case 1: bytes.insert(at, std::string(below(5), static_cast<char>(next()))); break;
      case 2: bytes.erase(at, below(9)); break;
      case 3:
        if (at < bytes.size()) bytes[at] = static_cast<char>(next());
        break;
      case 4: overwrite(bytes, at, kTags[below(std::size(kTags))]); break;
      default: {
        const uint32_t number = kOddNumbers[below(std::size(kOddNumbers))];
        char text[4];
        std::memcpy(text, &number, 4);
        overwrite(bytes, at, text);
        break;
      }
    }
  }

 private:
  static void overwrite(std::string& bytes, size_t at, const char* text) {
    if (bytes.size() >= 4) std::memcpy(bytes.data() + std::min(at, bytes.size() - 4), text, 4);
  }
  template <typename T>
  static void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void chunk(std::string& to, const char* name, const std::string& body) {
    to += name;
    put(to, static_cast<uint32_t>(body.size()));
    to += body;
    if (body.size() % 2 != 0) to.push_back('\0');
  }
  /// Made in no time, as each input has a seed of its own.
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

TEST(WavFuzz, FilesAreReadOrRefused) {
  const uint64_t first = setting("PYGPUKIT_FUZZ_ROUND", "0"), count = setting("PYGPUKIT_FUZZ", "1000000");
  uint64_t read = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Maker maker(seed * 0x2545f4914f6cdd1d);
    int64_t channels = 0, n = 0;
    std::string bytes = maker.file(&channels, &n);
    const uint64_t changes = maker.below(4);
    for (uint64_t i = 0; i < changes; ++i) maker.change(bytes);
    try {
      const WavData data = parse_wav("fuzz", std::as_bytes(std::span(bytes.data(), bytes.size())));
      ++read;
      const Dims& shape = data.samples.shape();
      ASSERT_GT(data.rate, 0) << "PYGPUKIT_FUZZ_ROUND=" << seed;
      ASSERT_LE(shape.product(), static_cast<int64_t>(bytes.size())) << "PYGPUKIT_FUZZ_ROUND=" << seed;
      if (changes == 0) {
        ASSERT_EQ(shape, (Dims{channels, n})) << "PYGPUKIT_FUZZ_ROUND=" << seed;
      }
    } catch (const FormatError& error) {
      ++refused;
      ASSERT_NE(changes, 0u) << "PYGPUKIT_FUZZ_ROUND=" << seed << ": " << error.what();
    }
  }
  EXPECT_EQ(read + refused, count);
  if (count >= 1000) {
    EXPECT_GT(read, count / 4);
    EXPECT_GT(refused, count / 4);
  }
}

}  // namespace
}  // namespace gpukit::io
