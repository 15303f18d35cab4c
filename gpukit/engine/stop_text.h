// The text of a request as its tokens come, up to the first of some strings that end it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "gpukit/text/tokenizer.h"

namespace gpukit::engine {

/// Makes text of token ids as they come: push() gives what an id completes, flush() what is left.
struct TextSource {
  std::function<std::string(int32_t)> push;
  std::function<std::string()> flush;
};
TextSource text_source(const text::Tokenizer& tokenizer);

class StopText {
 public:
  /// Throws ArgumentError for an empty string.
  StopText(TextSource source, std::vector<std::string> stops);
  /// What can be shown now. What may be the beginning of a stop string is held back; the string itself is never given.
  std::string push(int32_t token);
  /// What was held back, when no more tokens come.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::string show();

  TextSource source_;
  std::vector<std::string> stops_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace gpukit::engine
