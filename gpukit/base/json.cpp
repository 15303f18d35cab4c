#include "gpukit/base/json.h"

#include <charconv>
#include <cmath>
#include <unordered_set>

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

constexpr int kMaxDepth = 200;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json run() {
    Json value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const char* why) const {
    throw FormatError("json: " + std::string(why) + " at byte " + std::to_string(at_));
  }
  bool more() const { return at_ < text_.size(); }
  unsigned char peek() const { return more() ? static_cast<unsigned char>(text_[at_]) : 0; }
  void skip_space() {
    while (more() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }
  void expect(char c, const char* why) {
    if (!more() || text_[at_] != c) fail(why);
    ++at_;
  }

  Json parse_value(int depth) {
    if (depth > kMaxDepth) fail("more than 200 levels");
    skip_space();
    if (!more()) fail("the text ends where a value should be");
    switch (peek()) {
      case '{': return parse_object(depth);
      case '[': return parse_list(depth);
      case '"': return Json(parse_string());
      case 't': return parse_word("true", Json(true));
      case 'f': return parse_word("false", Json(false));
      case 'n': return parse_word("null", Json());
      default: return parse_number();
    }
  }

  Json parse_word(std::string_view word, Json value) {
    if (text_.substr(at_, word.size()) != word) fail("not a value");
    at_ += word.size();
    return value;
  }

  Json parse_object(int depth) {
    Json object = Json::object();
    std::unordered_set<std::string> names;
    ++at_;
    skip_space();
    if (peek() == '}') {
      ++at_;
      return object;
    }
    for (;;) {
      skip_space();
      if (peek() != '"') fail("a member needs a name in quotes");
      std::string name = parse_string();
      if (!names.insert(name).second) fail("a name is used twice");
      skip_space();
      expect(':', "a member needs a colon");
      object.members().emplace_back(std::move(name), parse_value(depth + 1));
      skip_space();
      if (peek() != ',') break;
      ++at_;
    }
    expect('}', "an object needs ',' or '}'");
    return object;
  }

  Json parse_list(int depth) {
    Json list = Json::list();
    ++at_;
    skip_space();
    if (peek() == ']') {
      ++at_;
      return list;
    }
    for (;;) {
      list.push_back(parse_value(depth + 1));
      skip_space();
      if (peek() != ',') break;
      ++at_;
    }
    expect(']', "a list needs ',' or ']'");
    return list;
  }

  bool digit() const { return peek() >= '0' && peek() <= '9'; }
  void digits() {
    if (!digit()) fail("not a value");
    while (digit()) ++at_;
  }

  Json parse_number() {
    const size_t begin = at_;
    bool whole = true;
    if (peek() == '-') ++at_;
    if (peek() == '0')
      ++at_;
    else
      digits();
    if (peek() == '.') {
      whole = false;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      whole = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      digits();
    }
    const char* first = text_.data() + begin;
    const char* last = text_.data() + at_;
    int64_t integer = 0;
    // -0 must stay a negative zero, which only a double has.
    if (whole && std::string_view(first, last - first) != "-0" &&
        std::from_chars(first, last, integer).ec == std::errc())
      return Json(integer);
    double number = 0;
    const auto error = std::from_chars(first, last, number).ec;
    if (error == std::errc::result_out_of_range) number = underflow_or_fail(first, last);
    return Json(number);
  }

  /// Too small is zero, as every reader has it; too large has no value.
  double underflow_or_fail(const char* first, const char* last) const {
    int64_t exponent = 0, leading = 0;  // the value is about 10^(leading + exponent)
    bool fraction = false, significant = false;
    const char* p = first;
    for (; p < last && *p != 'e' && *p != 'E'; ++p) {
      if (*p == '.') fraction = true;
      if (*p < '0') continue;
      significant = significant || *p != '0';
      if (!fraction && significant) ++leading;
      if (fraction && !significant) --leading;
    }
    if (p < last) {
      const bool negative = p[1] == '-';
      p += p[1] == '-' || p[1] == '+' ? 2 : 1;
      if (std::from_chars(p, last, exponent).ec != std::errc()) exponent = INT64_MAX / 4;
      if (negative) exponent = -exponent;
    }
    if (leading + exponent > 0) fail("a number too large for a double");
    return *first == '-' ? -0.0 : 0.0;
  }

  uint32_t hex4() {
    uint32_t value = 0;
    if (text_.size() - at_ < 4) fail("\\u needs four hex digits");
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) fail("\\u needs four hex digits");
    at_ += 4;
    return value;
  }

  static void append_utf8(std::string& out, uint32_t c) {
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else if (c < 0x800) {
      out += static_cast<char>(0xc0 | (c >> 6));
      out += static_cast<char>(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      out += static_cast<char>(0xe0 | (c >> 12));
      out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
      out += static_cast<char>(0x80 | (c & 0x3f));
    } else {
      out += static_cast<char>(0xf0 | (c >> 18));
      out += static_cast<char>(0x80 | ((c >> 12) & 0x3f));
      out += static_cast<char>(0x80 | ((c >> 6) & 0x3f));
      out += static_cast<char>(0x80 | (c & 0x3f));
    }
  }

  void parse_escape(std::string& out) {
    const char c = more() ? text_[at_] : '\0';
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    if (const size_t i = kFrom.find(c); c != '\0' && i != std::string_view::npos) {
      ++at_;
      out += kTo[i];
      return;
    }
    if (c != 'u') fail("an unknown escape");
    ++at_;
    uint32_t code = hex4();
    if (code >= 0xdc00 && code < 0xe000) fail("half of a surrogate pair");
    if (code >= 0xd800 && code < 0xdc00) {
      if (text_.substr(at_, 2) != "\\u") fail("half of a surrogate pair");
      at_ += 2;
      const uint32_t low = hex4();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(out, code);
  }

  /// One character of more than one byte, checked for overlong forms and surrogates.
  void parse_wide(std::string& out) {
    const unsigned char lead = peek();
    const int extra = lead >= 0xf0 && lead < 0xf5   ? 3
                      : lead >= 0xe0 && lead < 0xf0 ? 2
                      : lead >= 0xc2 && lead < 0xe0 ? 1
                                                    : 0;
    if (extra == 0 || text_.size() - at_ <= static_cast<size_t>(extra)) fail("invalid UTF-8");
    uint32_t code = lead & (0x3fu >> extra);
    for (int i = 1; i <= extra; ++i) {
      const unsigned char c = static_cast<unsigned char>(text_[at_ + i]);
      if ((c & 0xc0) != 0x80) fail("invalid UTF-8");
      code = code << 6 | (c & 0x3f);
    }
    constexpr uint32_t kLowest[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLowest[extra] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) fail("invalid UTF-8");
    out += text_.substr(at_, extra + 1);
    at_ += extra + 1;
  }

  std::string parse_string() {
    std::string out;
    ++at_;
    for (;;) {
      if (!more()) fail("a string without an end");
      const unsigned char c = peek();
      if (c == '"') break;
      if (c == '\\') {
        ++at_;
        parse_escape(out);
      } else if (c < 0x20) {
        fail("a control character in a string");
      } else if (c < 0x80) {
        out += static_cast<char>(c);
        ++at_;
      } else {
        parse_wide(out);
      }
    }
    ++at_;
    return out;
  }

  std::string_view text_;
  size_t at_ = 0;
};

void write_string(std::string& out, const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20) {
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void write_number(std::string& out, double v) {
  if (!std::isfinite(v)) throw ArgumentError("json", "number", "be finite", std::isnan(v) ? "nan" : "inf");
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), v).ptr;
  std::string_view text(buffer, end - buffer);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";  // reads back as a double
}

template <typename T, typename V>
auto& get(V& value, const char* kind) {
  auto* found = std::get_if<T>(&value);
  if (found == nullptr) throw FormatError(std::string("json: the value is not ") + kind);
  return *found;
}

}  // namespace

Json Json::parse(std::string_view text) { return Parser(text).run(); }

void Json::write(std::string& out, int indent, int level) const {
  if (level > kMaxDepth) throw ArgumentError("json", "value", "have at most 200 levels", "more");
  const auto line = [&](int depth) {
    if (indent > 0) out += "\n" + std::string(static_cast<size_t>(indent) * depth, ' ');
  };
  if (is_null()) {
    out += "null";
  } else if (is_bool()) {
    out += as_bool() ? "true" : "false";
  } else if (is_integer()) {
    out += std::to_string(as_integer());
  } else if (is_number()) {
    write_number(out, as_number());
  } else if (is_string()) {
    write_string(out, as_string());
  } else if (is_list()) {
    out += '[';
    const char* separator = "";
    for (const Json& item : items()) {
      out += separator;
      separator = indent > 0 ? "," : ", ";
      line(level + 1);
      item.write(out, indent, level + 1);
    }
    if (!items().empty()) line(level);
    out += ']';
  } else {
    out += '{';
    const char* separator = "";
    for (const auto& [name, item] : members()) {
      out += separator;
      separator = indent > 0 ? "," : ", ";
      line(level + 1);
      write_string(out, name);
      out += ": ";
      item.write(out, indent, level + 1);
    }
    if (!members().empty()) line(level);
    out += '}';
  }
}

std::string Json::dump(int indent) const {
  std::string out;
  write(out, indent, 0);
  return out;
}

bool Json::as_bool() const { return get<bool>(value_, "true or false"); }
int64_t Json::as_integer() const { return get<int64_t>(value_, "an integer"); }
double Json::as_number() const {
  return is_integer() ? static_cast<double>(as_integer()) : get<double>(value_, "a number");
}
const std::string& Json::as_string() const { return get<std::string>(value_, "a string"); }
const Json::List& Json::items() const { return get<List>(value_, "a list"); }
Json::List& Json::items() { return get<List>(value_, "a list"); }
const Json::Members& Json::members() const { return get<Members>(value_, "an object"); }
Json::Members& Json::members() { return get<Members>(value_, "an object"); }

const Json* Json::find(std::string_view name) const {
  for (const auto& [key, value] : members())
    if (key == name) return &value;
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* found = find(name)) return *found;
  throw FormatError("json: there is no member '" + std::string(name) + "'");
}

void Json::set(std::string_view name, Json value) {
  for (auto& [key, old] : members())
    if (key == name) {
      old = std::move(value);
      return;
    }
  members().emplace_back(std::string(name), std::move(value));
}

}  // namespace gpukit
