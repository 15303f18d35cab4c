#include "gpukit/text/splitter.h"

#include "gpukit/text/unicode.h"
#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Point {
  char32_t value = 0;
  PointClass kind = PointClass::other;
  size_t end = 0;  // of the text: where the next one begins
};

bool is_line_end(char32_t point) { return point == U'\r' || point == U'\n'; }

class Words {
 public:
  Words(Splitter splitter, std::string_view text) : splitter_(splitter), text_(text) {}

  std::vector<std::string_view> run() {
    std::vector<std::string_view> words;
    for (size_t at = 0; at < text_.size();) {
      const size_t end = splitter_ == Splitter::gpt2 ? gpt2_word(at) : line_word(at);
      words.push_back(text_.substr(at, end - at));
      at = end;
    }
    return words;
  }

 private:
  Point point_at(size_t at) const {
    const CodePoint point = known_point_at(text_, at);
    return {.value = point.value, .kind = class_of(point.value), .end = at + point.length};
  }
  bool is_at(size_t at, PointClass kind) const { return at < text_.size() && point_at(at).kind == kind; }

  /// The end of a run of one class, of at most `most` code points.
  size_t run_end(size_t at, PointClass kind, size_t most = std::string_view::npos) const {
    for (size_t count = 0; count < most && at < text_.size(); ++count) {
      const Point point = point_at(at);
      if (point.kind != kind) break;
      at = point.end;
    }
    return at;
  }

  /// 's 't 'm 'd 're 've 'll: the end, or `at` when there is none.
  size_t contraction_end(size_t at, bool any_case) const {
    if (text_[at] != '\'') return at;
    std::string_view rest = text_.substr(at + 1, 2);
    // The long s is a small s in any case.
    if (any_case && rest == "\xc5\xbf") return at + 3;
    char letters[2] = {0, 0};
    for (size_t i = 0; i < rest.size(); ++i) {
      const char c = rest[i];
      letters[i] = any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    switch (letters[0]) {
      case 's':
      case 't':
      case 'm':
      case 'd': return at + 2;
      case 'r':
      case 'v': return letters[1] == 'e' ? at + 3 : at;
      case 'l': return letters[1] == 'l' ? at + 3 : at;
      default: return at;
    }
  }

  /// White space: all of it at the end of the text, else without the last one, which goes with the word behind it.
  size_t space_end(size_t at) const {
    size_t last = at;
    size_t end = at;
    while (is_at(end, PointClass::space)) {
      last = end;
      end = point_at(end).end;
    }
    return end == text_.size() || last == at ? end : last;
  }

  size_t gpt2_word(size_t at) const {
    if (const size_t end = contraction_end(at, false); end != at) return end;
    const size_t begin = text_[at] == ' ' && at + 1 < text_.size() ? at + 1 : at;
    const PointClass kind = point_at(begin).kind;
    return kind == PointClass::space ? space_end(at) : run_end(begin, kind);
  }

  size_t line_word(size_t at) const {
    if (const size_t end = contraction_end(at, true); end != at) return end;
    const Point first = point_at(at);
    const bool one_before = first.kind != PointClass::number && !is_line_end(first.value);
    if (first.kind == PointClass::letter || (one_before && is_at(first.end, PointClass::letter)))
      return run_end(first.end, PointClass::letter);
    if (first.kind == PointClass::number) return run_end(at, PointClass::number, splitter_ == Splitter::qwen2 ? 1 : 3);
    const size_t begin = text_[at] == ' ' ? at + 1 : at;
    if (is_at(begin, PointClass::other)) {
      size_t end = run_end(begin, PointClass::other);
      while (end < text_.size() && is_line_end(text_[end])) ++end;
      return end;
    }
    return lines_end(at);
  }

  /// White space up to its last line end; without one, as elsewhere.
  size_t lines_end(size_t at) const {
    size_t lines = at;
    for (size_t end = at; is_at(end, PointClass::space);) {
      const Point point = point_at(end);
      end = point.end;
      if (is_line_end(point.value)) lines = end;
    }
    return lines != at ? lines : space_end(at);
  }

  Splitter splitter_;
  std::string_view text_;
};

}  // namespace

std::optional<Splitter> splitter_of(std::string_view pattern) {
  if (pattern == kGpt2) return Splitter::gpt2;
  if (pattern == kQwen2) return Splitter::qwen2;
  if (pattern == kLlama3) return Splitter::llama3;
  return std::nullopt;
}

std::vector<std::string_view> split_words(Splitter splitter, std::string_view text) {
  if (text.empty()) return {};
  return splitter == Splitter::none ? std::vector{text} : Words(splitter, text).run();
}

}  // namespace gpukit::text
