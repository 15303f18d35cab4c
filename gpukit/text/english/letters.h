// Code points: UTF-8, letters of the Latin script, and the phoneme alphabet written in ASCII.
#pragma once

#include <string>
#include <string_view>

namespace gpukit::text::english {

/// Bytes that are not UTF-8 become U+FFFD, one each.
std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view text);

/// The letters A to Z without their accents; empty for what is no Latin letter. U+00DF gives "ss".
std::u32string_view fold_accent(char32_t c);
bool is_letter(char32_t c);  // Latin, accents included
bool is_upper(char32_t c);
inline bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);
std::u32string lower(std::u32string_view text);
/// Without accents.
std::u32string fold(std::u32string_view text);

/// Phonemes from one ASCII character each: vowels & a c @ E 3 1 i u U V % ^ and the diphthongs A I O W Y; consonants as
/// written but r g N S Z C J D H R; stress ' and ,. For example "h@l'O" is hello.
std::u32string ipa(std::string_view ascii);

inline constexpr char32_t kPrimary = U'\u02c8', kSecondary = U'\u02cc';
bool is_vowel_sound(char32_t c);
bool is_consonant_sound(char32_t c);
/// Punctuation that makes a pause: ; : , . ! ? dash and dots.
bool is_pause(char32_t c);
/// Those, brackets and quotes.
bool is_spoken_mark(char32_t c);

}  // namespace gpukit::text::english
