// Pronunciation of words that no lexicon has.
#pragma once

#include <string>
#include <string_view>

namespace gpukit::text::english {

/// The phonemes of a word of the letters a to z by rules of spelling, with a primary stress. Empty for no letters.
std::u32string sounds_of_letters(std::u32string_view word);
/// The names of the letters A to Z: all with secondary stress, the last with primary.
std::u32string spelled(std::u32string_view letters);

/// Puts `mark` before the first vowel; as it is when there is none.
std::u32string stress_first_vowel(std::u32string_view phonemes, char32_t mark);

}  // namespace gpukit::text::english
