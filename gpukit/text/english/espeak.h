// The program eSpeak NG in front of Kokoro: its input without marks, its IPA in Kokoro's alphabet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpukit/text/english/phonemizer.h"

namespace gpukit::text::english {

/// Words to be said, or phonemes that stay as they are: marks, blanks, and those of `[word](/phonemes/)`.
struct Clause {
  std::string text;
  bool said = false;
};

/// A text in clauses, normalised first where `normalise` says so; what is not spoken goes to `skipped`.
std::vector<Clause> clauses_of(std::string_view text, bool normalise, std::vector<std::string>& skipped);

/// The IPA of `espeak-ng --ipa`, of one clause. Diphthongs and affricates are one character in Kokoro's alphabet.
std::string phonemes_of_espeak(std::string_view ipa, Dialect dialect);

}  // namespace gpukit::text::english
