// Headers and JSON made of random changes to good ones: every one is read, or refused by FormatError. PYGPUKIT_FUZZ is
// the number of inputs. A failure names its seed; PYGPUKIT_FUZZ_ROUND begins there.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/base/json.h"
#include "gpukit/io/safetensors_header.h"

namespace gpukit::io {
namespace {

uint64_t setting(const char* name, const char* standard) { return std::stoull(env::get(name).value_or(standard)); }

constexpr std::string_view kDTypes[] = {"BOOL", "U8", "F16", "BF16", "F32", "I64", "F8_E4M3", "F4", "X"};
constexpr int kSizes[] = {1, 1, 2, 2, 4, 8, 1, 1, 1};
constexpr std::string_view kPieces[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        ",",
                                        ":",
                                        "\"",
                                        "\\u0041",
                                        "\\ud800",
                                        "-",
                                        "1e9",
                                        "0",
                                        "-0",
                                        "true",
                                        "null",
                                        "1.5",
                                        "\xff",
                                        "\xc3\xa4",
                                        " ",
                                        "\n",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "\"dtype\"",
                                        "\"shape\"",
                                        "\"data_offsets\"",
                                        "\"__metadata__\"",
                                        "1e999",
                                        "[[[[[[[["};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  /// A header that is right but for what it says of dtypes that are not known.
  std::string header(int64_t* data_bytes) {
    std::string text = "{";
    int64_t end = 0;
    const uint64_t count = below(6);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t kind = below(std::size(kDTypes));
      const int64_t rows = static_cast<int64_t>(below(4)), columns = static_cast<int64_t>(below(300));
      const int64_t begin = end;
      end += rows * columns * kSizes[kind];
      if (i > 0) text += ", ";
      text += "\"t" + std::to_string(i) + "\": {\"dtype\": \"" + std::string(kDTypes[kind]) + "\", \"shape\": [" +
              std::to_string(rows) + ", " + std::to_string(columns) + "], \"data_offsets\": [" + std::to_string(begin) +
              ", " + std::to_string(end) + "]}";
    }
    *data_bytes = end;
    return text + "}";
  }

  void change(std::string& text) {
    for (uint64_t left = below(4); left > 0; --left) {
      const size_t at = below(text.size() + 1);
      switch (below(4)) {
        case 0: text.insert(at, kPieces[below(std::size(kPieces))]); break;
        case 1: text.erase(at, below(9)); break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(random_());
          break;
        default: text.insert(at, text.substr(below(text.size() + 1), below(40))); break;
      }
    }
  }

  uint64_t below(uint64_t limit) { return random_() % limit; }

 private:
  std::mt19937_64 random_;
};

/// What the parser promised of a table it gave.
void check(const SafeTensorsHeader& header, int64_t begin, int64_t file_bytes) {
  int64_t end = begin;
  for (const TensorInfo& tensor : header.tensors) {
    ASSERT_EQ(tensor.offset, end);
    ASSERT_EQ(tensor.bytes, tensor.shape.product() * itemsize(tensor.dtype));
    end += tensor.bytes;
  }
  ASSERT_EQ(end, file_bytes);
}

TEST(SafeTensorsFuzz, HeadersAreReadOrRefused) {
  const uint64_t first = setting("PYGPUKIT_FUZZ_ROUND", "0"), count = setting("PYGPUKIT_FUZZ", "100000");
  uint64_t read = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("PYGPUKIT_FUZZ_ROUND=" + std::to_string(seed));
    Maker maker(seed);
    int64_t data_bytes = 0;
    std::string text = maker.header(&data_bytes);
    maker.change(text);
    const int64_t begin = 8 + static_cast<int64_t>(text.size()), file_bytes = begin + data_bytes;
    try {
      check(parse_safetensors_header("fuzz", text, file_bytes), begin, file_bytes);
      ++read;
    } catch (const FormatError&) {
      ++refused;
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(read + refused, count);
  if (count >= 1000) {
    EXPECT_GT(read, count / 20);
    EXPECT_GT(refused, count / 20);
  }
}

TEST(SafeTensorsFuzz, JsonIsRefusedOrComesBack) {
  const uint64_t first = setting("PYGPUKIT_FUZZ_ROUND", "0"), count = setting("PYGPUKIT_FUZZ", "100000");
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Maker maker(~seed);
    int64_t unused = 0;
    std::string text = maker.header(&unused);
    maker.change(text);
    try {
      const Json value = Json::parse(text);
      ASSERT_EQ(Json::parse(value.dump()), value) << "PYGPUKIT_FUZZ_ROUND=" << seed;
      ASSERT_EQ(Json::parse(value.dump(2)), value) << "PYGPUKIT_FUZZ_ROUND=" << seed;
    } catch (const FormatError&) {
    }
  }
}

}  // namespace
}  // namespace gpukit::io
