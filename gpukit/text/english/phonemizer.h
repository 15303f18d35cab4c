// English text to the phonemes that Kokoro was trained on.
//
// Text is normalised, cut into words, and the words are resolved from right to left, because "the" and "to" hang on the
// sound that follows: special words, the lexicons, the endings -s, -ed, -ing, the parts of a compound, the names of
// letters, and last the rules of spelling. `[word](/phonemes/)` gives the phonemes of a word.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpukit/text/english/lexicon.h"

namespace gpukit::text::english {

/// british: the American lexicons with the vowels and the silent r of British English, where none of its own is given.
enum class Dialect { american, british };

struct Pronunciation {
  std::string phonemes;              // UTF-8, with the punctuation that is spoken as a pause
  std::string text;                  // normalised
  std::vector<std::string> guessed;  // words of no lexicon, said by the rules of spelling; each once
  std::vector<std::string> skipped;  // characters that are not spoken; each once
};

class Phonemizer {
 public:
  Phonemizer(std::shared_ptr<const Lexicon> lexicon, Dialect dialect)
      : lexicon_(std::move(lexicon)), dialect_(dialect) {}

  /// Never throws for any text; time and memory grow with its length. Without `normalise` the text is taken as words
  /// already: digits and signs are skipped.
  Pronunciation operator()(std::string_view text, bool normalise = true) const;
  Dialect dialect() const { return dialect_; }
  const Lexicon& lexicon() const { return *lexicon_; }

 private:
  std::shared_ptr<const Lexicon> lexicon_;
  Dialect dialect_;
};

/// A span of a text: plain words, or a word whose phonemes are given.
struct Span {
  std::string_view text, phonemes;  // phonemes: empty for plain words
};
/// At every `[word](/phonemes/)`.
std::vector<Span> split_overrides(std::string_view text);

/// normalize() of all but the words with given phonemes, which stay as they are.
std::string normalize_around_overrides(std::string_view text);

/// Sentences with their punctuation, blanks at the ends removed. Abbreviations, initials and numbers do not end one;
/// a newline after which no lower-case word goes on does.
std::vector<std::string> split_sentences(std::string_view text);

/// Cuts phonemes into pieces of at most `limit` code points: after the last . ! ? or dots, else : ;, else a comma or
/// dash, else a blank; a closing bracket or quote stays left. Blanks at the cuts are dropped.
std::vector<std::string> cut_phonemes(std::string_view phonemes, int64_t limit);

/// The same for speech that shall start soon: the first piece ends after the first clause of some length, the others
/// after sentences; short sentences go together.
std::vector<std::string> cut_for_streaming(std::string_view phonemes, int64_t limit);

}  // namespace gpukit::text::english
