// Tokenizer files made of random changes to good ones: every one is read, or refused by name; what is read takes any
// text. PYGPUKIT_FUZZ is the number of inputs. A failure names its seed; PYGPUKIT_FUZZ_ROUND begins there.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "gpukit/base/env.h"
#include "gpukit/base/error.h"
#include "gpukit/text/tokenizer.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

uint64_t setting(const char* name, const char* standard) { return std::stoull(env::get(name).value_or(standard)); }

constexpr std::string_view kBytes =
    R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true, "normalized": false},
{"id": 10, "content": "ab a", "lstrip": true, "rstrip": true, "single_word": true, "normalized": true}],
"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
"special_tokens": {"<s>": {"ids": [9]}}}, "decoder": {"type": "ByteLevel"},
"model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "ignore_merges": false, "vocab":
{"<unk>": 0, "a": 1, "b": 2, "ab": 3, "\u0120": 4, "\u0120a": 5, "\u00c3": 6, "\u00a4": 7, "aba": 8}, "merges":
["a b", "\u0120 a", ["ab", "a"]]}})";

constexpr std::string_view kSentences =
    R"({"added_tokens": [{"id": 9, "content": "<s>", "special": true, "normalized": true}],
"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"},
{"type": "Replace", "pattern": {"String": " "}, "content": "_"}]}, "pre_tokenizer": {"type": "Metaspace",
"replacement": "_", "prepend_scheme": "first", "split": true}, "post_processor": null,
"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "_"}, "content": " "},
{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
"model": {"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab":
{"<unk>": 0, "a": 1, "b": 2, "ab": 3, "_": 4, "_a": 5, "<0xC3>": 6, "<0xA4>": 7}, "merges": ["a b", "_ a"]}})";

constexpr std::string_view kPieces[] = {
    "{",    "}",        "[",       "]",        ",",      ":",          "\"",
    "null", "true",     "-1",      "0",        "11",     "2147483647", "1e999",
    "1e30", "\"a\"",    "\"ab\"",  "\"type\"", "\"id\"", "\\u0000",    "\\ud83d\\ude00",
    "\xff", "\xcc\x81", "\"NFC\"", "\"Fuse\"", "a",      " "};

constexpr std::string_view kTexts[] = {
    "a",         "b", " ", "<s>", "ab a", "\n", "'s", "_", "\xc3\xa4", "\xcc\x81", "<0xC3>", "9", "\xf0\x9f\x98\x80",
    "ababababab"};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}

  std::string file() {
    std::string text(below(2) == 0 ? kBytes : kSentences);
    for (uint64_t left = below(4); left > 0; --left) {
      const size_t at = below(text.size() + 1);
      switch (below(4)) {
        case 0: text.insert(at, kPieces[below(std::size(kPieces))]); break;
        case 1: text.erase(at, below(9)); break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(random_());
          break;
        default: text.insert(at, text.substr(below(text.size() + 1), below(60))); break;
      }
    }
    return text;
  }

  /// UTF-8, made of random bytes or of what the files above know.
  std::string text() {
    std::string bytes, out;
    for (uint64_t left = below(12); left > 0; --left) {
      if (below(3) == 0)
        bytes += static_cast<char>(random_());
      else
        bytes += kTexts[below(std::size(kTexts))];
    }
    append_lossy(out, bytes, false);
    return out;
  }

  uint64_t below(uint64_t limit) { return random_() % limit; }

 private:
  std::mt19937_64 random_;
};

/// Ids come back as UTF-8, and as the same text when they are streamed.
void check(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  const std::string whole = tokenizer.decode(ids, false);
  ASSERT_EQ(valid_prefix(whole), whole.size());
  TokenStream stream(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    ASSERT_EQ(valid_prefix(piece), piece.size());
    streamed += piece;
  }
  streamed += stream.flush();
  if (whole.find(kReplacement) == std::string::npos) {
    ASSERT_EQ(streamed, whole);
  }
}

TEST(TokenizerFuzz, FilesAreReadOrRefused) {
  const uint64_t first = setting("PYGPUKIT_FUZZ_ROUND", "0"), count = setting("PYGPUKIT_FUZZ", "100000");
  uint64_t read = 0, refused = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("PYGPUKIT_FUZZ_ROUND=" + std::to_string(seed));
    Maker maker(seed);
    try {
      const Tokenizer tokenizer = Tokenizer::from_json(maker.file());
      ++read;
      for (int i = 0; i < 3; ++i) {
        try {
          check(tokenizer, maker.text());
        } catch (const ArgumentError&) {  // a character without a token
        }
      }
    } catch (const FormatError&) {
      ++refused;
    } catch (const UnsupportedError&) {
      ++refused;
    }
    if (::testing::Test::HasFailure()) return;
  }
  if (count >= 1000) {
    EXPECT_GT(read, count / 20);
    EXPECT_GT(refused, count / 20);
  }
}

}  // namespace
}  // namespace gpukit::text
