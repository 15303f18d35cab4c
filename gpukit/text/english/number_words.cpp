#include "gpukit/text/english/number_words.h"

#include <array>
#include <utility>

namespace gpukit::text::english {
namespace {

constexpr std::array<std::string_view, 20> kSmall = {
    "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kTens = {"",      "",      "twenty",  "thirty", "forty",
                                                    "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 22> kGroups = {"",
                                                      "thousand",
                                                      "million",
                                                      "billion",
                                                      "trillion",
                                                      "quadrillion",
                                                      "quintillion",
                                                      "sextillion",
                                                      "septillion",
                                                      "octillion",
                                                      "nonillion",
                                                      "decillion",
                                                      "undecillion",
                                                      "duodecillion",
                                                      "tredecillion",
                                                      "quattuordecillion",
                                                      "quindecillion",
                                                      "sexdecillion",
                                                      "septendecillion",
                                                      "octodecillion",
                                                      "novemdecillion",
                                                      "vigintillion"};

void append(std::string& out, std::string_view word) {
  if (!out.empty()) out += ' ';
  out += word;
}

void append_below_100(std::string& out, int n) {
  if (n < 20) return append(out, kSmall[static_cast<size_t>(n)]);
  append(out, kTens[static_cast<size_t>(n / 10)]);
  if (n % 10 != 0) append(out, kSmall[static_cast<size_t>(n % 10)]);
}

void append_below_1000(std::string& out, int n) {
  if (n >= 100) {
    append(out, kSmall[static_cast<size_t>(n / 100)]);
    append(out, "hundred");
    if (n % 100 == 0) return;
  }
  append_below_100(out, n % 100);
}

int to_int(std::string_view digits) {
  int n = 0;
  for (const char c : digits) n = n * 10 + (c - '0');
  return n;
}

size_t last_word(const std::string& words) {
  const size_t blank = words.rfind(' ');
  return blank == words.npos ? 0 : blank + 1;
}

}  // namespace

std::string cardinal_words(std::string_view digits) {
  const size_t first = digits.find_first_not_of('0');
  if (first == digits.npos) return "zero";
  const std::string_view left = digits.substr(first);
  if (left.size() > 3 * kGroups.size()) return digit_words(digits);
  std::string out;
  for (size_t at = 0; at < left.size();) {
    const size_t length = (left.size() - at - 1) % 3 + 1;
    const int group = to_int(left.substr(at, length));
    at += length;
    if (group == 0) continue;
    append_below_1000(out, group);
    if (at < left.size()) append(out, kGroups[(left.size() - at) / 3]);
  }
  return out;
}

std::string ordinal_words(std::string_view digits) { return ordinal_of(cardinal_words(digits)); }

std::string ordinal_of(std::string words) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kOdd = {{{"one", "first"},
                                                                                         {"two", "second"},
                                                                                         {"three", "third"},
                                                                                         {"five", "fifth"},
                                                                                         {"eight", "eighth"},
                                                                                         {"nine", "ninth"},
                                                                                         {"twelve", "twelfth"}}};
  const size_t at = last_word(words);
  const std::string last = words.substr(at);
  for (const auto& [from, to] : kOdd)
    if (last == from) return words.replace(at, words.npos, to);
  if (last.ends_with('y')) {
    words.pop_back();
    return words + "ieth";
  }
  return words + "th";
}

std::string plural_words(std::string words) {
  if (words.ends_with('y')) {
    words.pop_back();
    return words + "ies";
  }
  return words + (words.ends_with('x') ? "es" : "s");
}

std::string year_words(std::string_view digits) {
  const int year = to_int(digits);
  if (year % 1000 < 10) return cardinal_words(digits);
  std::string out;
  append_below_100(out, year / 100);
  if (year % 100 == 0) {
    append(out, "hundred");
  } else {
    if (year % 100 < 10) append(out, "oh");
    append_below_100(out, year % 100);
  }
  return out;
}

std::string digit_words(std::string_view digits) {
  std::string out;
  for (const char c : digits) append(out, kSmall[static_cast<size_t>(c - '0')]);
  return out;
}

std::string decimal_words(std::string_view whole, std::string_view fraction) {
  std::string out = cardinal_words(whole.empty() ? "0" : whole);
  if (fraction.empty()) return out;
  append(out, "point");
  append(out, digit_words(fraction));
  return out;
}

}  // namespace gpukit::text::english
