// One word to its phonemes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "gpukit/text/english/lexicon.h"

namespace gpukit::text::english {

/// What comes after a word.
struct Context {
  enum class Next { pause, vowel, consonant };
  Next next = Next::pause;
  Tag tag = Tag::other;
  bool first = false;        // of its sentence
  bool before_word = false;  // a word follows with no pause between
  bool at_pause() const { return next == Next::pause; }
};

struct WordSound {
  std::u32string phonemes;
  bool guessed = false;  // by the rules of spelling
};

/// `word`: Latin letters, apostrophes, hyphens, or initials with dots.
WordSound resolve_word(const Lexicon& lexicon, std::u32string_view word, const Context& context);

}  // namespace gpukit::text::english
