// Just enough of a C++ lexer to read kernel signatures and preprocessor directives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::jit {

struct Token {
  enum class Kind : uint8_t { identifier, number, text, symbol };
  Kind kind = Kind::symbol;
  std::string value;  // symbols are one character each
  bool is(std::string_view v) const { return value == v && kind != Kind::text; }
};

/// The tokens of `text` without comments and preprocessor lines. Never fails: what it cannot read becomes symbols.
std::vector<Token> tokens(std::string_view text);

/// The preprocessor lines of `text` without the `#`, comments removed and continued lines joined.
std::vector<std::string> directives(std::string_view text);

}  // namespace gpukit::jit
