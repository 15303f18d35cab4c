// English text as words: numbers, money, times, dates, units, abbreviations, addresses and signs are written out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpukit::text::english {

struct Normalized {
  std::string text;                  // words, and the punctuation ; : , . ! ? ( ) quotes, dash, dots
  std::vector<std::string> skipped;  // characters that are not spoken: emoji, other scripts; each once
};

/// UTF-8 in and out; bytes that are not UTF-8 are skipped. Linear in the length. Initials that are to be spelled keep
/// their dots ("U.S."). Never throws for any text.
Normalized normalize(std::string_view text);

/// A text as it is; what is neither letters nor marks nor blanks is skipped.
Normalized as_words(std::string_view text);

/// The words of one chunk that starts like a number: 1,234.5 -7 3rd $5.20 5:30pm 12/25/2024 10-20 1/2 5km 80s 555-1234.
/// `next` is the core of the chunk after it, and `used_next` says that its words are in the result ($5 million, 5 km,
/// 5 p.m.). nullopt: not of that kind.
std::optional<std::string> number_chunk(std::string_view core, std::string_view next, bool& used_next);
/// Letters, digits and signs together: AT&T, and/or, COVID-19, C++, #1, snake_case, mid-1990s, 19th-century.
std::string mixed_words(std::string_view core);
/// A URL, an e-mail address or a host name, and its words: "john dot smith at example dot org".
bool is_address(std::string_view core);
std::string address_words(std::string_view core);
/// The English name of month 1 to 12, and the month that a word names in full or in short ("Sept"); 0 for others.
std::string_view month_name(int month);
int month_of(std::string_view word);

bool all_digits(std::string_view text);
bool all_letters(std::string_view text);  // ASCII
std::string ascii_lower(std::string_view text);

}  // namespace gpukit::text::english
