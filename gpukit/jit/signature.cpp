#include "gpukit/jit/signature.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "gpukit/jit/lexer.h"

namespace gpukit::jit {
namespace {

using Tokens = std::vector<Token>;

/// Words that are part of a type and never a parameter's name.
bool is_type_word(const std::string& word) {
  constexpr std::string_view kWords[] = {"void",     "bool",     "char",    "short",    "int",     "long",
                                         "float",    "double",   "signed",  "unsigned", "wchar_t", "char8_t",
                                         "char16_t", "char32_t", "__int64", "auto"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

/// Words around a type that are neither the type nor the name.
bool is_qualifier(const std::string& word) {
  constexpr std::string_view kWords[] = {"const",     "volatile", "__restrict__",      "__restrict", "restrict",
                                         "__const__", "register", "__grid_constant__", "struct",     "class",
                                         "enum",      "union",    "typename"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

char closing(const Token& token) {
  if (token.kind != Token::Kind::symbol) return '\0';
  switch (token.value[0]) {
    case '(': return ')';
    case '[': return ']';
    case '{': return '}';
    default: return '\0';
  }
}

/// The index after the bracket that closes the one at `open`; the size of `list` when none does.
size_t skip_brackets(const Tokens& list, size_t open) {
  const std::string close(1, closing(list[open]));
  size_t i = open + 1;
  while (i < list.size()) {
    if (list[i].is(close)) return i + 1;
    i = closing(list[i]) != '\0' ? skip_brackets(list, i) : i + 1;
  }
  return i;
}

/// The index after the `>` that closes the `<` at `open`, or `open` when it is not a template argument list.
size_t skip_angles(const Tokens& list, size_t open) {
  int depth = 0;
  for (size_t i = open; i < list.size();) {
    if (closing(list[i]) != '\0') {
      if (list[i].is("{")) return open;
      i = skip_brackets(list, i);
      continue;
    }
    if (list[i].is(";")) return open;
    if (list[i].is("<")) ++depth;
    if (list[i].is(">") && --depth == 0) return i + 1;
    ++i;
  }
  return open;
}

/// The name declared by one parameter, or empty.
std::string parameter_name(const Tokens& list, size_t begin, size_t end, const std::set<std::string>& macros) {
  std::string name;
  bool has_type = false;  // something before the name that can be its type
  for (size_t i = begin; i < end;) {
    const Token& token = list[i];
    if (token.is("=")) break;
    if (token.is("(")) {
      const size_t after = skip_brackets(list, i);
      // A pointer to a function or an array: `float (*name)[4]`.
      if (i + 2 < after && list[i + 1].is("*")) {
        for (size_t k = i + 2; k + 1 < after; ++k)
          if (list[k].kind == Token::Kind::identifier && !is_qualifier(list[k].value)) return list[k].value;
        return {};
      }
      // A macro call: part of a type when more follows, else not readable.
      name.clear();
      has_type = true;
      i = after;
      continue;
    }
    if (closing(token) != '\0') {
      i = skip_brackets(list, i);
      continue;
    }
    if (token.is("<")) {
      const size_t after = skip_angles(list, i);
      if (after == i) return {};
      name.clear();
      has_type = true;
      i = after;
      continue;
    }
    if (token.kind == Token::Kind::identifier) {
      if (is_qualifier(token.value)) {
      } else if (is_type_word(token.value)) {
        has_type = true;
        name.clear();
      } else if (!has_type) {
        has_type = true;
      } else {
        name = token.value;
      }
    } else if (token.is(":")) {
      // `ns::Type` is one type: the part before the colons was not a name.
      name.clear();
      has_type = false;
    }
    ++i;
  }
  return macros.count(name) != 0 ? std::string() : name;
}

/// The parameters between the parentheses at `open`.
std::vector<std::string> parameter_names(const Tokens& list, size_t open, const std::set<std::string>& macros) {
  const size_t end = skip_brackets(list, open) - 1;
  std::vector<std::string> names;
  size_t begin = open + 1;
  if (begin >= end || (begin + 1 == end && list[begin].is("void"))) return names;
  for (size_t i = begin; i <= end;) {
    if (i == end || list[i].is(",")) {
      names.push_back(parameter_name(list, begin, i, macros));
      begin = ++i;
    } else if (closing(list[i]) != '\0') {
      i = skip_brackets(list, i);
    } else if (list[i].is("<")) {
      const size_t after = skip_angles(list, i);
      i = after == i || after > end ? i + 1 : after;
    } else {
      ++i;
    }
  }
  return names;
}

/// Names that `#define` gives a meaning to, and whether one of the texts could declare a kernel.
struct Macros {
  std::set<std::string> names;
  bool may_declare = false;
};

Macros macros_of(std::string_view source) {
  Macros macros;
  for (const std::string& line : directives(source)) {
    const Tokens words = tokens(line);
    if (words.empty()) continue;
    if (words[0].is("include")) macros.may_declare = true;
    if (!words[0].is("define") || words.size() < 2) continue;
    macros.names.insert(words[1].value);
    if (line.find("##") != std::string::npos || line.find("__global__") != std::string::npos) macros.may_declare = true;
  }
  return macros;
}

/// Where the declaration after `__global__` at `from` says `name (`; the index of the parenthesis, or 0.
size_t find_declaration(const Tokens& list, size_t from, const std::string& name) {
  for (size_t i = from + 1; i < list.size();) {
    if (list[i].is(";") || list[i].is("{") || list[i].is("__global__")) return 0;
    if (list[i].kind == Token::Kind::identifier && list[i].value == name && i + 1 < list.size()) {
      size_t next = i + 1;
      if (list[next].is("<")) next = skip_angles(list, next);  // an explicit specialisation
      if (next < list.size() && list[next].is("(")) return next;
    }
    i = closing(list[i]) != '\0' ? skip_brackets(list, i) : i + 1;
  }
  return 0;
}

/// Whether the declaration that contains `at` starts with `template <...>` with at least one parameter.
bool declared_as_template(const Tokens& list, size_t at) {
  for (size_t i = at; i-- > 0;) {
    if (list[i].is(";") || list[i].is("}") || list[i].is("{")) return false;
    if (list[i].is("template")) return i + 2 < list.size() && list[i + 1].is("<") && !list[i + 2].is(">");
  }
  return false;
}

}  // namespace

std::string base_name(std::string_view function) {
  function = function.substr(0, function.find('<'));
  const size_t colons = function.rfind("::");
  if (colons != std::string_view::npos) function.remove_prefix(colons + 2);
  while (!function.empty() && function.back() == ' ') function.remove_suffix(1);
  while (!function.empty() && function.front() == ' ') function.remove_prefix(1);
  return std::string(function);
}

Signature read_signature(std::string_view source, std::string_view function) {
  const std::string name = base_name(function);
  const Tokens list = tokens(source);
  const Macros macros = macros_of(source);
  Signature signature;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is("__global__")) continue;
    const size_t open = find_declaration(list, i, name);
    if (open == 0) continue;
    signature.status = Signature::Status::found;
    signature.is_template |= declared_as_template(list, i);
    signature.declarations.push_back(parameter_names(list, open, macros.names));
  }
  if (signature.status != Signature::Status::found && macros.may_declare) signature.status = Signature::Status::unknown;
  return signature;
}

std::vector<std::string> kernel_names(std::string_view source) {
  const Tokens list = tokens(source);
  std::vector<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is("__global__")) continue;
    // The name is the word before the last parenthesis of the declaration.
    std::string name;
    for (size_t k = i + 1; k < list.size() && !list[k].is(";") && !list[k].is("{") && !list[k].is("__global__");) {
      if (list[k].is("(") && list[k - 1].kind == Token::Kind::identifier) name = list[k - 1].value;
      k = closing(list[k]) != '\0' ? skip_brackets(list, k) : k + 1;
    }
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> Signature::names(size_t count) const {
  std::vector<std::set<std::string>> seen(count);
  for (const std::vector<std::string>& declaration : declarations) {
    if (declaration.size() != count) continue;
    for (size_t i = 0; i < count; ++i)
      if (!declaration[i].empty()) seen[i].insert(declaration[i]);
  }
  std::vector<std::string> result(count);
  for (size_t i = 0; i < count; ++i)
    if (seen[i].size() == 1) result[i] = *seen[i].begin();
  // A name that appears twice names nothing.
  for (size_t i = 0; i < count; ++i) {
    const std::string name = result[i];
    if (!name.empty() && std::count(result.begin(), result.end(), name) > 1)
      std::replace(result.begin(), result.end(), name, std::string());
  }
  return result;
}

}  // namespace gpukit::jit
