// What is done to text before tokens are looked for: `normalizer` of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpukit/text/fields.h"

namespace gpukit::text {

class Normalizer {
 public:
  Normalizer() = default;  // none
  /// Sequence, NFC, Prepend, Replace of a string. Throws FormatError, and UnsupportedError for other kinds.
  explicit Normalizer(const Fields& normalizer) { read(normalizer); }

  /// Throws ArgumentError for text that grows to more than 16 times of what it was.
  std::string apply(std::string_view text) const;

 private:
  struct Step {
    enum class Kind { nfc, prepend, replace } kind = Kind::nfc;
    std::string pattern = {}, content = {};
  };
  void read(const Fields& normalizer);

  std::vector<Step> steps_;
};

/// `text` with every `pattern` replaced, from the left. `pattern` is not empty.
std::string replaced(std::string_view text, std::string_view pattern, std::string_view content);
/// The String of `pattern` in a Replace. Throws UnsupportedError for a regular expression.
std::string replaced_pattern(const Fields& replace);

}  // namespace gpukit::text
