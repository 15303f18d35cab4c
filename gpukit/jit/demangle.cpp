#include "gpukit/jit/demangle.h"

#include <algorithm>

#include "gpukit/base/error.h"

namespace gpukit::jit {
namespace {

using Type = MangledType;

const char* builtin_text(char code) {
  switch (code) {
    case 'v': return "void";
    case 'b': return "bool";
    case 'c': return "char";
    case 'a': return "signed char";
    case 'h': return "unsigned char";
    case 's': return "short";
    case 't': return "unsigned short";
    case 'i': return "int";
    case 'j': return "unsigned int";
    case 'l': return "long";
    case 'm': return "unsigned long";
    case 'x': return "long long";
    case 'y': return "unsigned long long";
    case 'w': return "wchar_t";
    case 'f': return "float";
    case 'd': return "double";
    case 'n': return "__int128";
    case 'o': return "unsigned __int128";
    case 'e': return "long double";
    case 'g': return "__float128";
    case 'z': return "...";
    default: return nullptr;
  }
}

/// The part of the Itanium C++ ABI's mangling that function types need.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Type template_argument_type() {
    expect("_Z");
    substitutions_.push_back(named(source_name()));
    expect("I");
    Type type = parse_type();
    expect("E");
    return type;
  }

 private:
  [[noreturn]] void fail() const {
    throw FormatError("unreadable mangled name " + std::string(text_) + " at byte " + std::to_string(at_));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) fail();
  }
  static Type named(std::string name) {
    Type type;
    type.kind = Type::Kind::named;
    type.text = name;
    type.name = std::move(name);
    return type;
  }
  Type remember(Type type) {
    substitutions_.push_back(type);
    return type;
  }

  std::string source_name() {
    size_t length = 0;
    if (peek() < '1' || peek() > '9') fail();
    while (peek() >= '0' && peek() <= '9') {
      length = length * 10 + static_cast<size_t>(text_[at_++] - '0');
      if (length > text_.size()) fail();
    }
    if (length > text_.size() - at_) fail();
    std::string name(text_.substr(at_, length));
    at_ += length;
    return name.rfind("_GLOBAL__N", 0) == 0 ? "(anonymous namespace)" : name;
  }

  Type parse_type() {
    if (++depth_ > 200) fail();
    Type type = type_body();
    --depth_;
    return type;
  }

  Type type_body() {
    switch (peek()) {
      case 'r':
      case 'V':
      case 'K': return qualified();
      case 'P': return indirect(Type::Kind::pointer, "*");
      case 'R': return indirect(Type::Kind::reference, "&");
      case 'O': return indirect(Type::Kind::reference, "&&");
      case 'F': return function();
      case 'A': return array();
      case 'N': return nested();
      case 'S': return substituted();
      case 'D': return extended();
      case 'u': {
        ++at_;
        return remember(named(source_name()));
      }
      default: break;
    }
    if (peek() >= '1' && peek() <= '9') {
      Type type = remember(named(source_name()));
      return peek() == 'I' ? remember(named(type.name + template_arguments())) : type;
    }
    const char* text = builtin_text(peek());
    if (text == nullptr) fail();
    Type type;
    type.code = text_[at_++];
    type.text = text;
    return type;
  }

  Type qualified() {
    bool constant = false, is_volatile = false;
    while (peek() == 'r' || peek() == 'V' || peek() == 'K') {
      constant |= peek() == 'K';
      is_volatile |= peek() == 'V';
      ++at_;
    }
    Type type = parse_type();
    const std::string words = std::string(constant ? "const " : "") + (is_volatile ? "volatile " : "");
    // On a pointer the words belong to the right of the star.
    if (!words.empty()) {
      const bool behind = type.kind == Type::Kind::pointer;
      type.text = behind ? type.text + " " + words.substr(0, words.size() - 1) : words + type.text;
    }
    type.is_const |= constant;
    return remember(std::move(type));
  }

  Type indirect(Type::Kind kind, const char* mark) {
    ++at_;
    Type type;
    type.kind = kind;
    type.target = std::make_shared<const Type>(parse_type());
    const std::string& inner = type.target->text;
    const bool wrapped = type.target->kind == Type::Kind::function || type.target->kind == Type::Kind::array;
    const size_t split = wrapped ? inner.find(type.target->kind == Type::Kind::array ? '[' : '(') : inner.size();
    type.text = wrapped ? inner.substr(0, split) + "(" + mark + ")" + inner.substr(split) : inner + mark;
    return remember(std::move(type));
  }

  Type function() {
    expect("F");
    accept("Y");
    Type type;
    type.kind = Type::Kind::function;
    type.text = parse_type().text + " (";
    while (peek() != 'E') {
      if (accept("v") && peek() == 'E') break;
      if (peek() == '\0') fail();
      type.parameters.push_back(parse_type());
      if (type.parameters.size() > 1) type.text += ", ";
      type.text += type.parameters.back().text;
    }
    expect("E");
    type.text += ")";
    return remember(std::move(type));
  }

  Type array() {
    expect("A");
    const size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    const std::string extent(text_.substr(start, at_ - start));
    expect("_");
    Type type;
    type.kind = Type::Kind::array;
    type.target = std::make_shared<const Type>(parse_type());
    const std::string& inner = type.target->text;
    const size_t split = std::min(inner.find('['), inner.size());
    type.text = inner.substr(0, split) + (split == inner.size() ? " [" : "[") + extent + "]" + inner.substr(split);
    return remember(std::move(type));
  }

  /// N prefix E: each step of the prefix is a substitution of its own.
  Type nested() {
    expect("N");
    while (peek() == 'r' || peek() == 'V' || peek() == 'K') ++at_;
    Type type;
    bool any = false;
    while (!accept("E")) {
      if (peek() == 'S' && !any) {
        type = substituted_prefix();
      } else if (peek() == 'I' && any) {
        type = remember(named(type.name + template_arguments()));
      } else {
        const std::string name = source_name();
        type = remember(named(any ? type.name + "::" + name : name));
      }
      any = true;
    }
    if (!any) fail();
    return type;
  }

  Type substituted() {
    Type type = substituted_prefix();
    if (peek() == 'I') return remember(named(type.name + template_arguments()));
    return type;
  }

  Type substituted_prefix() {
    expect("S");
    switch (peek()) {
      case 't': ++at_; return peek() >= '1' && peek() <= '9' ? remember(named("std::" + source_name())) : named("std");
      case 'a': ++at_; return named("std::allocator");
      case 'b': ++at_; return named("std::basic_string");
      case 's': ++at_; return named("std::string");
      default: break;
    }
    size_t index = 0;
    if (!accept("_")) {
      while (peek() != '_') {
        const char c = peek();
        const bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'A' || c > 'Z')) fail();
        index = index * 36 + static_cast<size_t>(digit ? c - '0' : c - 'A' + 10);
        if (index > substitutions_.size()) fail();
        ++at_;
      }
      ++at_;
      ++index;
    }
    if (index >= substitutions_.size()) fail();
    return substitutions_[index];
  }

  Type extended() {
    if (accept("DF16b")) return named("__bf16");
    if (accept("DF16_")) return named("_Float16");
    if (accept("Do")) return parse_type();  // a function that does not throw
    static const struct {
      const char* code;
      char same_as;
      const char* text;
    } table[] = {{"Ds", 't', "char16_t"}, {"Di", 'j', "char32_t"}, {"Du", 'h', "char8_t"}, {"Dn", 'v', "nullptr_t"}};
    for (const auto& entry : table) {
      if (!accept(entry.code)) continue;
      Type type;
      type.code = entry.same_as;
      type.text = entry.text;
      return type;
    }
    fail();
  }

  std::string template_arguments() {
    expect("I");
    std::string text = "<";
    while (!accept("E")) {
      if (text.size() > 1) text += ", ";
      text += template_argument();
    }
    return text + ">";
  }

  std::string template_argument() {
    if (peek() == 'L') return literal();
    if (accept("J")) {
      std::string text;
      while (!accept("E")) text += (text.empty() ? "" : ", ") + template_argument();
      return text;
    }
    return parse_type().text;
  }

  std::string literal() {
    expect("L");
    parse_type();
    const size_t end = text_.find('E', at_);
    if (end == std::string_view::npos) fail();
    std::string text(text_.substr(at_, end - at_));
    at_ = end + 1;
    if (!text.empty() && text[0] == 'n') text[0] = '-';
    return text;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<Type> substitutions_;
};

}  // namespace

MangledType template_argument_type(std::string_view lowered) { return Parser(lowered).template_argument_type(); }

}  // namespace gpukit::jit
