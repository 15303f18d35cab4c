// Numbers as English words, without "and": "one hundred twenty three".
#pragma once

#include <string>
#include <string_view>

namespace gpukit::text::english {

/// `digits` are ASCII digits. Past 66 of them they are read one by one.
std::string cardinal_words(std::string_view digits);
std::string ordinal_words(std::string_view digits);
/// Of four digits: "nineteen oh five", "two thousand one", "twenty ten", "nineteen hundred".
std::string year_words(std::string_view digits);
/// One by one: "three zero seven".
std::string digit_words(std::string_view digits);
/// `whole` and the digits after the point, which may be empty.
std::string decimal_words(std::string_view whole, std::string_view fraction);

/// "twenty" -> "twenties", "one" -> "ones", "six" -> "sixes": the last word.
std::string plural_words(std::string words);
/// The ordinal of the last word: "twenty one" -> "twenty first".
std::string ordinal_of(std::string words);

}  // namespace gpukit::text::english
