// How normalised text becomes words that are merged alone: `pre_tokenizer` of a tokenizer.json.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "gpukit/text/fields.h"
#include "gpukit/text/splitter.h"

namespace gpukit::text {

class WordRules {
 public:
  WordRules() = default;  // the text is one word
  /// ByteLevel, a Split of a known pattern before it, or Metaspace. Throws FormatError and UnsupportedError.
  explicit WordRules(const Fields& pre_tokenizer);

  /// Words are bytes in the spelling of byte_level.h.
  bool byte_level() const { return byte_level_; }
  /// Calls `take` with each word. `at_start`: no text stands before this one.
  void split(std::string_view text, bool at_start, const std::function<void(std::string_view)>& take) const;

 private:
  enum class Prefix { never, first, always };
  void read_byte_level(const Fields& rule, bool alone);
  void read_split(const Fields& rule);
  void read_metaspace(const Fields& rule);
  void split_at_mark(std::string_view text, const std::function<void(std::string_view)>& take) const;

  Splitter splitter_ = Splitter::none;
  bool byte_level_ = false;
  std::string space_ = " ";  // what stands for one
  Prefix prefix_ = Prefix::never;
  bool split_at_space_ = false;
};

}  // namespace gpukit::text
