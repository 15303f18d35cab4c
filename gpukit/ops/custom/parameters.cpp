#include "gpukit/ops/custom/parameters.h"

#include <algorithm>
#include <array>

namespace gpukit::custom {

namespace {

/// Words of C++ that a parameter or a kernel may not be called, and names the generated program uses.
constexpr std::string_view kReserved[] = {
    "alignas",  "alignof", "asm",       "auto",      "bool",     "break",     "case",      "catch",    "char",
    "class",    "const",   "continue",  "constexpr", "decltype", "default",   "delete",    "do",       "double",
    "else",     "enum",    "explicit",  "extern",    "false",    "float",     "for",       "friend",   "goto",
    "if",       "inline",  "int",       "long",      "mutable",  "namespace", "new",       "noexcept", "nullptr",
    "operator", "private", "protected", "public",    "raw",      "register",  "return",    "short",    "signed",
    "sizeof",   "static",  "struct",    "switch",    "template", "this",      "throw",     "true",     "try",
    "typedef",  "typeid",  "typename",  "union",     "unsigned", "using",     "virtual",   "void",     "volatile",
    "while",    "i",       "gpukit",    "complex",   "float16",  "bfloat16",  "threadIdx", "blockIdx", "blockDim",
    "gridDim",  "half",
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_identifier(std::string_view name) {
  if (name.empty() || !(is_letter(name[0]) || name[0] == '_')) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || c == '_' || (c >= '0' && c <= '9'); });
}

bool is_reserved(std::string_view name) {
  return name[0] == '_' || std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  constexpr std::string_view kSpace = " \t\r\n";
  for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

void read_type(const std::string& op, const char* argument, std::string_view word, Parameter* parameter) {
  if (word.size() == 1 && is_letter(word[0])) {
    parameter->letter = word[0];
    return;
  }
  for (int i = 0; i <= static_cast<int>(DType::complex128); ++i) {
    if (word != name(static_cast<DType>(i))) continue;
    parameter->dtype = static_cast<DType>(i);
    return;
  }
  constexpr std::pair<std::string_view, const char*> kOfC[] = {
      {"float", "float32"}, {"double", "float64"}, {"int", "int32"},   {"long", "int64"},
      {"half", "float16"},  {"char", "int8"},      {"short", "int16"}, {"unsigned", "uint32"}};
  std::string given = quoted(word);
  for (const auto& [of_c, dtype] : kOfC)
    if (word == of_c) given += " (write " + std::string(dtype) + ")";
  throw DTypeError(op, argument, "have as types one letter or the name of an arithmetic dtype", given);
}

}  // namespace

std::vector<Parameter> parse_parameters(const std::string& op, const char* argument, std::string_view text,
                                        std::vector<std::string>* names) {
  std::vector<Parameter> parameters;
  if (words_of(text).empty()) return parameters;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view one = text.substr(at, end - at);
    at = end + 1;
    std::vector<std::string_view> words = words_of(one);
    Parameter parameter;
    if (words.size() == 3 && words[0] == "raw") {
      parameter.raw = true;
      words.erase(words.begin());
    }
    if (words.size() != 2)
      throw ArgumentError(op, argument, "be a list of types and names, such as 'T x, raw float32 y'", quoted(one));
    read_type(op, argument, words[0], &parameter);
    parameter.name = words[1];
    if (!is_identifier(parameter.name))
      throw ArgumentError(op, argument, "name each parameter by an identifier", quoted(parameter.name));
    if (is_reserved(parameter.name))
      throw ArgumentError(op, argument, "name no parameter by a word of C++ or of the generated program",
                          quoted(parameter.name));
    if (std::find(names->begin(), names->end(), parameter.name) != names->end())
      throw ArgumentError(op, argument, "name each parameter differently", quoted(parameter.name) + " twice");
    names->push_back(parameter.name);
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

void check_kernel_name(const char* op, const std::string& name) {
  if (!is_identifier(name) || is_reserved(name))
    throw ArgumentError(op, "name", "be an identifier, no word of C++, without _ in front", quoted(name));
}

const char* spelled(DType dtype) {
  switch (dtype) {
    case DType::float16: return "float16";
    case DType::bfloat16: return "bfloat16";
    case DType::complex64: return "complex<float>";
    case DType::complex128: return "complex<double>";
    default: return kernel_type(dtype);
  }
}

void Letters::take(const Parameter& parameter, const Array& array) {
  const DType dtype = array.dtype();
  if (parameter.letter == '\0') {
    if (dtype != parameter.dtype)
      throw DTypeError(kernel_, parameter.name, std::string("have dtype ") + name(parameter.dtype), name(dtype));
    return;
  }
  if (is_storage_only(dtype))
    throw DTypeError(kernel_, parameter.name, "have an arithmetic dtype (convert it with astype)", name(dtype));
  const int letter = parameter.letter;
  if (!dtypes_[letter]) {
    dtypes_[letter] = dtype;
    from_[letter] = &parameter.name;
  } else if (*dtypes_[letter] != dtype) {
    throw DTypeError(kernel_, parameter.name,
                     std::string("have dtype ") + name(*dtypes_[letter]) + ", which " + parameter.letter + " is by " +
                         *from_[letter],
                     name(dtype));
  }
}

void Letters::take_number(const Parameter& parameter, const Scalar& number) {
  if (parameter.letter == '\0' || dtypes_[static_cast<int>(parameter.letter)]) return;
  constexpr DType kOfKind[] = {DType::boolean, DType::int64, DType::float32, DType::complex64};
  dtypes_[static_cast<int>(parameter.letter)] = kOfKind[static_cast<int>(number.kind)];
  from_[static_cast<int>(parameter.letter)] = &parameter.name;
}

DType Letters::of(const Parameter& parameter) const {
  if (parameter.letter == '\0') return parameter.dtype;
  const std::optional<DType>& dtype = dtypes_[static_cast<int>(parameter.letter)];
  if (!dtype)
    throw DTypeError(kernel_, parameter.name, std::string("have a type that an argument gives (pass it as out=)"),
                     std::string("the letter ") + parameter.letter + ", which no argument has");
  return *dtype;
}

std::string Letters::typedefs() const {
  std::string text;
  for (int letter = 0; letter < 128; ++letter)
    if (dtypes_[letter])
      text += std::string("typedef ") + spelled(*dtypes_[letter]) + " " + static_cast<char>(letter) + ";\n";
  return text;
}

std::string Letters::key() const {
  std::string text;
  for (int letter = 0; letter < 128; ++letter)
    if (dtypes_[letter])
      text += {static_cast<char>(letter), static_cast<char>('A' + static_cast<int>(*dtypes_[letter]))};
  return text;
}

ElementBytes number_of(const std::string& kernel, const Parameter& parameter, DType dtype, const Scalar& number) {
  const bool fits = number.kind == ScalarKind::boolean ||
                    (number.kind == ScalarKind::integer && dtype != DType::boolean) ||
                    (number.kind == ScalarKind::real && (is_floating(dtype) || is_complex(dtype))) ||
                    (number.kind == ScalarKind::complex && is_complex(dtype));
  if (!fits) {
    constexpr const char* kKinds[] = {"a bool", "an int", "a float", "a complex"};
    throw DTypeError(kernel, parameter.name, std::string("be a number for ") + name(dtype),
                     kKinds[static_cast<int>(number.kind)]);
  }
  return to_element((kernel + ": " + parameter.name).c_str(), number, dtype);
}

}  // namespace gpukit::custom
