// Names of a kernel's parameters, read from its source. Their types come from the compiler (mangled.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::jit {

struct Signature {
  enum class Status : uint8_t {
    found,    // a __global__ function of that name is declared in the text
    unknown,  // not seen, but a macro or an included file may declare it
    missing,  // no such kernel
  };
  Status status = Status::missing;
  /// One list per declaration seen (a prototype and its definition, branches of an #if). An empty name cannot be read.
  std::vector<std::vector<std::string>> declarations;
  bool is_template = false;  // declared as a template: an instance needs arguments, `name<float>`

  /// Names for exactly `count` parameters: empty where declarations disagree or no name can be read.
  std::vector<std::string> names(size_t count) const;
};

/// `function` may carry a namespace and template arguments: `ns::scale<float, 4>`; only `scale` is looked for.
Signature read_signature(std::string_view source, std::string_view function);

/// Names of the __global__ functions declared in the text, each once.
std::vector<std::string> kernel_names(std::string_view source);

/// `ns::scale<float>` gives `scale`.
std::string base_name(std::string_view function);

}  // namespace gpukit::jit
