#include "gpukit/text/thinking.h"

#include <algorithm>

namespace gpukit::text {
namespace {

constexpr std::string_view kOpen = "<think>", kClose = "</think>";

/// Length of the longest end of `text` that begins `tag`.
size_t begun(std::string_view text, std::string_view tag) {
  size_t length = std::min(text.size(), tag.size() - 1);
  while (!text.ends_with(tag.substr(0, length))) --length;
  return length;
}

}  // namespace

ThinkingParser::Texts ThinkingParser::add_text(std::string_view text) {
  Texts out;
  const std::string all = std::exchange(waiting_, {}).append(text);
  std::string_view rest = all;
  for (;;) {
    const std::string_view tag = in_thinking_ ? kClose : kOpen;
    const size_t found = rest.find(tag);
    if (found == std::string_view::npos) {
      const size_t waits = begun(rest, tag);
      emit(out, rest.substr(0, rest.size() - waits));
      waiting_ = rest.substr(rest.size() - waits);
      return out;
    }
    emit(out, rest.substr(0, found));
    rest.remove_prefix(found + tag.size());
    in_thinking_ = !in_thinking_;
  }
}

ThinkingParser::Texts ThinkingParser::flush() {
  Texts out;
  emit(out, std::exchange(waiting_, {}));
  return out;
}

void ThinkingParser::emit(Texts& out, std::string_view text) {
  (in_thinking_ ? out.first : out.second) += text;
  (in_thinking_ ? thinking_ : response_) += text;
}

}  // namespace gpukit::text
