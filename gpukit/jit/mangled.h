// Parameter types of a kernel, as the compiler sees them: read from the mangled name of a template over its function
// type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/base/dtype.h"

namespace gpukit::jit {

struct ParameterType {
  enum class Kind : uint8_t { scalar, pointer, unsupported };
  Kind kind = Kind::unsupported;
  DType dtype = DType::float32;  // scalar: what a number is converted to
  bool constant = false;         // pointer: to const
  uint32_t accepts = 0;          // pointer: one bit per dtype an array may have
  unsigned alignment = 1;        // pointer: the address must be a multiple of it
  std::string text;              // as written in C, e.g. `const float*`

  bool takes(DType d) const { return (accepts >> static_cast<int>(d) & 1u) != 0; }
};

/// The template whose instance over `decltype(&kernel)` tells the kernel's type; its body is empty.
inline constexpr const char* kProbeSource = "template <class F> __global__ void gpukit_probe() {}\n";
std::string probe_name(std::string_view function);

/// The parameters of F in the lowered name of `gpukit_probe<F>`. Throws FormatError for a name it cannot read.
std::vector<ParameterType> parse_probe(std::string_view lowered);

}  // namespace gpukit::jit
