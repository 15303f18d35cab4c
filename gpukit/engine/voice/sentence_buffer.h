// Text that grows piece by piece, given on by whole sentences.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpukit::voice {

class SentenceBuffer {
 public:
  void append(std::string_view text) { text_ += text; }
  /// The sentences after which another has begun; they leave the buffer. What looks like an end may still be an
  /// abbreviation or a number while nothing follows.
  std::vector<std::string> extract_sentences();
  /// All that is left, in one piece; empty for blanks only.
  std::string flush();
  void clear() { text_.clear(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace gpukit::voice
