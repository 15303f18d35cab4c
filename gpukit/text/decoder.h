// From tokens to text, one token at a time: `decoder` of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpukit/text/fields.h"

namespace gpukit::text {

class Decoder {
 public:
  /// What was taken and not yet given.
  struct State {
    bool whole = false;   // bytes wait for the end of their run, which is text or not as one
    bool begun = false;   // a token was taken
    size_t stripped = 0;  // characters left out at the beginning
    bool past_strip = false;
    std::string bytes = {};
  };

  /// ByteLevel, or a sequence of Replace, ByteFallback, Fuse and Strip at the beginning, or Metaspace. Throws
  /// FormatError, and UnsupportedError for other kinds.
  explicit Decoder(const Fields& decoder);

  /// Appends the text that `token` completes.
  void take(State& state, std::string_view token, std::string& out) const;
  /// Appends what is left, with U+FFFD for bytes that are not text.
  void finish(State& state, std::string& out) const;

 private:
  enum class Kind { byte_level, steps };
  void read_step(const Fields& step);
  void read_metaspace(const Fields& step);
  void take_bytes(State& state, std::string_view bytes, std::string& out) const;
  void take_fallback(State& state, char byte, std::string& out) const;
  void emit(State& state, std::string_view text, std::string& out) const;

  Kind kind_ = Kind::steps;
  std::vector<std::pair<std::string, std::string>> replacements_;
  std::string mark_;  // left out of the first token
  bool byte_fallback_ = false, fuse_ = false;
  std::string strip_;  // the character left out at the beginning of the text
  size_t strip_count_ = 0;
};

}  // namespace gpukit::text
