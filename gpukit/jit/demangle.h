// Types in a mangled name (the Itanium C++ ABI), as far as function types need it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::jit {

struct MangledType {
  enum class Kind : uint8_t { builtin, named, pointer, reference, function, array };
  Kind kind = Kind::builtin;
  std::string text;  // as written in C
  std::string name;  // named: without const or volatile
  char code = '\0';  // builtin: its letter in the ABI
  bool is_const = false;
  std::shared_ptr<const MangledType> target;  // pointer, reference, array
  std::vector<MangledType> parameters;        // function
};

/// The argument of a one-parameter function template, from the lowered name of an instance: `_Z5probeIPFvPfiEEvv`.
/// Throws FormatError for a name it cannot read.
MangledType template_argument_type(std::string_view lowered);

}  // namespace gpukit::jit
