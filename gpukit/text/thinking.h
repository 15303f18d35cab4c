// Splits what a thinking model writes into its thoughts, between <think> and </think>, and its answer.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace gpukit::text {

class ThinkingParser {
 public:
  /// `in_thinking`: the prompt has opened the thoughts already.
  explicit ThinkingParser(bool in_thinking = false) : starts_in_thinking_(in_thinking), in_thinking_(in_thinking) {}

  using Texts = std::pair<std::string, std::string>;  // thoughts, answer
  /// What of both `text` adds. What may be the beginning of a tag waits for the rest.
  Texts add_text(std::string_view text);
  /// What waited.
  Texts flush();
  /// Begins again.
  void reset() { *this = ThinkingParser(starts_in_thinking_); }

  bool in_thinking() const { return in_thinking_; }
  // All there is so far.
  const std::string& thinking_content() const { return thinking_; }
  const std::string& response_content() const { return response_; }

 private:
  void emit(Texts& out, std::string_view text);

  bool starts_in_thinking_, in_thinking_;
  std::string waiting_, thinking_, response_;
};

}  // namespace gpukit::text
