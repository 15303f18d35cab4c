// UTF-8: code points, checks, and what stands for bytes that are none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpukit::text {

inline constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

enum class Utf8 { good, bad, cut };  // cut: the text ends inside of a character

struct CodePoint {
  char32_t value = 0;
  size_t length = 0;  // bad and cut: how many bytes one U+FFFD stands for, the most that could begin a character
  Utf8 state = Utf8::good;
};

/// The code point at `at`, which is inside of `text`.
CodePoint code_point_at(std::string_view text, size_t at);
/// The same where `text` is known to be UTF-8 and `at` to begin a character.
CodePoint known_point_at(std::string_view text, size_t at);
/// Offset of the first byte that is not UTF-8, or the length.
size_t valid_prefix(std::string_view text);
void append_point(std::string& out, char32_t point);
/// Appends `bytes` with U+FFFD for what is not UTF-8. With `keep_cut` a character cut at the end is left out.
/// Gives the number of bytes taken.
size_t append_lossy(std::string& out, std::string_view bytes, bool keep_cut);

}  // namespace gpukit::text
