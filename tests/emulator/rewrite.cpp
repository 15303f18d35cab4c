#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "tests/emulator/compile.h"

namespace emulator {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Rewriter {
 public:
  explicit Rewriter(const std::string& source) : in_(source) {}

  std::string run() {
    while (at_ < in_.size()) {
      if (copy_comment_or_text()) continue;
      if (!in_word(in_[at_])) {
        out_ += in_[at_];
        if (in_[at_++] == '{' && !cluster_.empty()) out_ += " emulator_cluster(" + std::exchange(cluster_, {}) + ");";
        continue;
      }
      const std::string word = read_word();
      if (word == "asm" || word == "__asm__") {
        assembly();
      } else if (word == "__shared__") {
        shared(false);
      } else if (word == "extern" && next_is("__shared__")) {
        skip_space();
        read_word();
        shared(true);
      } else if (word == "GPUKIT_CLUSTER" && next_is("(") && !in_define()) {
        cluster();
      } else {
        out_ += word;
      }
    }
    return std::move(out_);
  }

 private:
  /// The end of a comment, a string or a character that starts at `at`; `at` itself when none does.
  size_t after_opaque(size_t at) const {
    if (in_.compare(at, 2, "//") == 0) return std::min(in_.find('\n', at), in_.size());
    if (in_.compare(at, 2, "/*") == 0) return std::min(in_.find("*/", at), in_.size() - 2) + 2;
    const char quote = in_[at];
    if (quote != '"' && quote != '\'') return at;
    // A mark between digits.
    if (quote == '\'' && at > 0 && std::isalnum(static_cast<unsigned char>(in_[at - 1])) != 0) return at;
    size_t end = at + 1;
    while (end < in_.size() && in_[end] != quote) end += in_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, in_.size());
  }

  bool copy_comment_or_text() {
    const size_t end = after_opaque(at_);
    if (end == at_) return false;
    out_.append(in_, at_, end - at_);
    at_ = end;
    return true;
  }

  std::string read_word() {
    const size_t begin = at_;
    while (at_ < in_.size() && in_word(in_[at_])) ++at_;
    return in_.substr(begin, at_ - begin);
  }
  void skip_space() {
    while (at_ < in_.size() && (std::isspace(static_cast<unsigned char>(in_[at_])) != 0 || in_[at_] == '\\')) ++at_;
  }
  bool next_is(const char* word) const {
    size_t at = at_;
    while (at < in_.size() && std::isspace(static_cast<unsigned char>(in_[at])) != 0) ++at;
    return in_.compare(at, std::strlen(word), word) == 0;
  }

  /// Pieces of `text` between `separator`s outside of brackets and strings.
  static std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> pieces(1);
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
      if (!quoted) depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
      if (c == separator && depth == 0 && !quoted)
        pieces.emplace_back();
      else
        pieces.back() += c;
    }
    return pieces;
  }

  static std::string trim(const std::string& text) {
    const char* blank = " \t\n\r\\";
    const size_t begin = text.find_first_not_of(blank);
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(blank) - begin + 1);
  }

  /// asm [volatile] ( text : outputs : inputs : clobbers ) at `at_`.
  void assembly() {
    const size_t begin = at_;
    skip_space();
    if (in_.compare(at_, 8, "volatile") == 0) at_ += 8;
    skip_space();
    const size_t open = at_;
    int depth = 0;
    do {
      const size_t opaque = after_opaque(at_);
      if (opaque != at_) {
        at_ = opaque;
        continue;
      }
      depth += (in_[at_] == '(') - (in_[at_] == ')');
      ++at_;
    } while (depth > 0 && at_ < in_.size());
    const std::vector<std::string> parts = split(in_.substr(open + 1, at_ - open - 2), ':');
    std::string operands;
    for (size_t part = 1; part < parts.size() && part <= 2; ++part) {
      for (const std::string& piece : split(parts[part], ',')) {
        const std::string operand = trim(piece);
        if (operand.empty()) continue;
        if (operand[0] != '"') {  // a macro of operands
          operands += ", " + operand;
          continue;
        }
        const size_t bracket = operand.find('(');
        operands += std::string(", ::emulator::") + (part == 1 ? "output(" : "input(") + operand.substr(0, bracket) +
                    ", " + operand.substr(bracket + 1);
      }
    }
    if (!trim(parts[0]).empty() && trim(parts[0]) != "\"\"")
      out_ += "do { static const ::emulator::Program* emulator_program = emulator_assemble(" + trim(parts[0]) +
              "); ::emulator::execute(emulator_program" + operands + "); } while (false)";
    keep_lines(begin);
  }

  bool in_define() const {
    const size_t line = in_.rfind('\n', at_) + 1;
    return in_.compare(line, 7, "#define") == 0;
  }

  /// GPUKIT_CLUSTER(blocks) of a kernel: told at the start of its body.
  void cluster() {
    const size_t begin = in_.find('(', at_);
    int depth = 0;
    at_ = begin;
    do {
      depth += (in_[at_] == '(') - (in_[at_] == ')');
      ++at_;
    } while (depth > 0 && at_ < in_.size());
    cluster_ = in_.substr(begin + 1, at_ - begin - 2);
  }

  /// Where the lines of a declaration went: in a macro they are continued.
  void keep_lines(size_t begin) {
    for (size_t i = begin; i < at_; ++i) {
      if (in_[i] != '\n') continue;
      size_t before = i;
      while (before > begin && (in_[before - 1] == ' ' || in_[before - 1] == '\r')) --before;
      out_ += before > begin && in_[before - 1] == '\\' ? "\\\n" : "\n";
    }
  }

  /// The declaration after [extern] __shared__.
  void shared(bool dynamic) {
    const size_t begin = at_;
    const size_t end = in_.find(';', at_);
    std::string text = trim(in_.substr(begin, end - begin));
    for (const char* word : {"__align__", "alignas"}) {
      const size_t found = text.find(word);
      if (found != std::string::npos) text = trim(text.erase(found, text.find(')', found) + 1 - found));
    }
    // The name is the last word before the sizes.
    size_t sizes = text.size();
    while (sizes > 0 && text[sizes - 1] == ']') sizes = trim(text.substr(0, text.rfind('[', sizes - 1))).size();
    size_t name_at = sizes;
    while (name_at > 0 && in_word(text[name_at - 1])) --name_at;
    const std::string name = text.substr(name_at, sizes - name_at);
    const std::string type = name + "_emulated";
    out_ += "typedef " + text.substr(0, name_at) + type + text.substr(sizes) + "; ";
    if (dynamic) {
      // Each block of a cluster has its own; outside of functions, where lines start at the margin, there is one.
      const size_t line = in_.rfind('\n', begin) + 1;
      if (in_[line] != ' ') out_ += "static ";
      out_ += type + "& " + name + " = *reinterpret_cast<" + type + "*>(emulator_dynamic_shared())";
    } else {
      out_ += "static char " + name + "_key; " + type + "& " + name + " = *static_cast<" + type +
              "*>(emulator_shared(&" + name + "_key, sizeof(" + type + ")))";
    }
    at_ = end;
    keep_lines(begin);
  }

  const std::string& in_;
  std::string out_, cluster_;
  size_t at_ = 0;
};

}  // namespace

std::string rewrite(const std::string& source) { return Rewriter(source).run(); }

}  // namespace emulator
