// From CUDA C to a library of the host.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace emulator {

/// In the name of every library made here.
inline constexpr const char* kKernelFile = "/emulated_kernel_";

/// How an image starts that the emulated driver loads; the path of the library follows.
inline constexpr const char* kImageStart = "emulated kernel library ";

/// Inline assembly becomes calls of the emulator, shared memory references to its arena. Lines stay where they are.
std::string rewrite(const std::string& source);

struct Source {
  std::string name, text;
};

struct Compiled {
  std::string library;  // path; empty when it failed
  std::string log;
  std::vector<std::string> names;  // mangled, of the expressions
};

/// Made once for each content.
Compiled compile(const Source& main, const std::vector<Source>& headers, const std::vector<std::string>& expressions,
                 const std::vector<std::string>& options);

}  // namespace emulator
