// JSON (RFC 8259): a strict parser and a writer whose numbers read back to the same value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gpukit {

class Json {
 public:
  using List = std::vector<Json>;
  using Members = std::vector<std::pair<std::string, Json>>;  // in the order written

  Json() = default;  // null
  Json(bool v) : value_(v) {}
  Json(int v) : value_(int64_t{v}) {}
  Json(int64_t v) : value_(v) {}
  Json(double v) : value_(v) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(std::string v) : value_(std::move(v)) {}
  static Json list() { return Json(Value(List())); }
  static Json object() { return Json(Value(Members())); }

  /// UTF-8 text of one value. Throws FormatError with the byte offset for anything else: trailing text, comments,
  /// duplicate names, lone surrogates, invalid UTF-8, numbers past the range of double, more than 200 levels.
  /// A number without fraction and exponent that fits is an int64, others are double.
  static Json parse(std::string_view text);
  /// indent 0: one line. Throws ArgumentError for a NaN or an infinity, and for what parse would not take back.
  std::string dump(int indent = 0) const;

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_object() const { return std::holds_alternative<Members>(value_); }

  // Each throws FormatError when the value is of another kind.
  bool as_bool() const;
  int64_t as_integer() const;
  double as_number() const;
  const std::string& as_string() const;
  const List& items() const;
  List& items();
  const Members& members() const;
  Members& members();

  /// A member, or null when there is none.
  const Json* find(std::string_view name) const;
  /// Throws FormatError naming the member.
  const Json& at(std::string_view name) const;
  /// Replaces or appends.
  void set(std::string_view name, Json value);
  void push_back(Json value) { items().push_back(std::move(value)); }

  friend bool operator==(const Json& a, const Json& b) { return a.value_ == b.value_; }

 private:
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, List, Members>;
  explicit Json(Value value) : value_(std::move(value)) {}
  void write(std::string& out, int indent, int level) const;
  Value value_;
};

}  // namespace gpukit
