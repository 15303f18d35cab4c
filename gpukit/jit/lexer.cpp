#include "gpukit/jit/lexer.h"

namespace gpukit::jit {
namespace {

bool is_identifier_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v'; }

class Scanner {
 public:
  Scanner(std::string_view text, std::vector<Token>* tokens, std::vector<std::string>* directives)
      : text_(text), tokens_(tokens), directives_(directives) {}

  void run() {
    bool line_start = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        line_start = true;
        ++at_;
      } else if (is_blank(c)) {
        ++at_;
      } else if (skip_splice() || skip_comment()) {
        continue;
      } else if (c == '#' && line_start) {
        ++at_;
        directive();
      } else {
        line_start = false;
        token();
      }
    }
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// A backslash at the end of a line joins it to the next.
  bool skip_splice() {
    if (peek() != '\\') return false;
    const size_t length = peek(1) == '\n' ? 2 : peek(1) == '\r' && peek(2) == '\n' ? 3 : 0;
    at_ += length;
    return length != 0;
  }

  bool skip_comment() {
    if (peek() != '/') return false;
    if (peek(1) == '/') {
      while (at_ < text_.size() && peek() != '\n')
        if (!skip_splice()) ++at_;
      return true;
    }
    if (peek(1) != '*') return false;
    const size_t end = text_.find("*/", at_ + 2);
    at_ = end == std::string_view::npos ? text_.size() : end + 2;
    return true;
  }

  void directive() {
    std::string line;
    while (at_ < text_.size() && peek() != '\n') {
      if (skip_splice()) continue;
      if (skip_comment()) {
        line += ' ';
        continue;
      }
      const size_t start = at_;
      if (peek() == '"' || peek() == '\'') {
        quoted();
      } else {
        ++at_;
      }
      line += text_.substr(start, at_ - start);
    }
    if (directives_ != nullptr) directives_->push_back(std::move(line));
  }

  /// Moves past a string or character literal; an unterminated one ends with its line.
  void quoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && peek() != quote && peek() != '\n') at_ += peek() == '\\' ? 2 : 1;
    if (peek() == quote) ++at_;
    if (at_ > text_.size()) at_ = text_.size();
  }

  /// R"tag( ... )tag"
  void raw_string() {
    const size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return quoted();
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const size_t end = text_.find(close, open);
    at_ = end == std::string_view::npos ? text_.size() : end + close.size();
  }

  void token() {
    const size_t start = at_;
    const char c = peek();
    Token::Kind kind = Token::Kind::symbol;
    if (is_identifier_start(c)) {
      kind = Token::Kind::identifier;
      while (is_identifier_start(peek()) || is_digit(peek())) ++at_;
      if (peek() == '"' && text_[at_ - 1] == 'R') {
        kind = Token::Kind::text;
        raw_string();
      }
    } else if (is_digit(c)) {
      kind = Token::Kind::number;
      while (is_identifier_start(peek()) || is_digit(peek()) || peek() == '.' || (peek() == '\'' && is_digit(peek(1))))
        ++at_;
    } else if (c == '"' || c == '\'') {
      kind = Token::Kind::text;
      quoted();
    } else {
      ++at_;
    }
    if (tokens_ != nullptr) tokens_->push_back({kind, std::string(text_.substr(start, at_ - start))});
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Token>* tokens_;
  std::vector<std::string>* directives_;
};

}  // namespace

std::vector<Token> tokens(std::string_view text) {
  std::vector<Token> found;
  Scanner(text, &found, nullptr).run();
  return found;
}

std::vector<std::string> directives(std::string_view text) {
  std::vector<std::string> found;
  Scanner(text, nullptr, &found).run();
  return found;
}

}  // namespace gpukit::jit
