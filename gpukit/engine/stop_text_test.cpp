#include "gpukit/engine/stop_text.h"

#include <gtest/gtest.h>

#include "gpukit/base/error.h"

namespace gpukit::engine {
namespace {

/// Every character of a-z is a token.
text::Tokenizer letters() {
  std::string vocab;
  for (char c = 'a'; c <= 'z'; ++c)
    vocab += std::string(c == 'a' ? "" : ",") + "\"" + c + "\":" + std::to_string(c - 'a');
  return text::Tokenizer::from_json(
      R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,)"
      R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},)"
      R"("post_processor":null,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,)"
      R"("use_regex":true},"model":{"type":"BPE","vocab":{)" +
      vocab + R"(},"merges":[]}})");
}

std::vector<std::string> pieces(const std::vector<std::string>& stops, const std::string& input) {
  StopText text(text_source(letters()), stops);
  std::vector<std::string> shown;
  for (const char c : input) {
    shown.push_back(text.push(c - 'a'));
    if (text.stopped()) break;
  }
  shown.push_back(text.flush());
  return shown;
}

TEST(StopText, HoldsBackWhatMayBeAStop) {
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces({}, "ab"), (Pieces{"a", "b", ""}));
  EXPECT_EQ(pieces({"end"}, "xend"), (Pieces{"x", "", "", "", ""}));
  EXPECT_EQ(pieces({"end"}, "xenex"), (Pieces{"x", "", "", "en", "ex", ""}));
  EXPECT_EQ(pieces({"end"}, "en"), (Pieces{"", "", "en"}));
  EXPECT_EQ(pieces({"bcd", "c"}, "abc"), (Pieces{"a", "", "b", ""}));
  EXPECT_EQ(pieces({"aab"}, "aaab"), (Pieces{"", "", "a", "", ""}));
  EXPECT_THROW(StopText(text_source(letters()), {""}), ArgumentError);
}

}  // namespace
}  // namespace gpukit::engine
