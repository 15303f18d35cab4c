// What a kernel source includes: its closure in the embedded table, and whether it reaches outside it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpukit/jit/embedded.h"

namespace gpukit::jit {

/// Null when no embedded file has that name.
const EmbeddedFile* find_embedded(std::string_view name);

struct Closure {
  std::vector<const EmbeddedFile*> files;  // each once, in the order first met
  bool complete = true;                    // false: something outside the table is, or may be, included
  std::string missing;                     // the first file that is not in the table
};

/// Every embedded file that `text` includes, directly or not. Conditional directives are not evaluated: a superset.
Closure include_closure(std::string_view text);

/// The closure of one embedded file, itself first; found once. Throws NotFoundError when a file is missing.
const std::vector<const EmbeddedFile*>& embedded_closure(std::string_view name);

}  // namespace gpukit::jit
