// Numbers and what they count: digits, units of measure, money.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpukit::text::english {

/// Digits as they are written: 1,234.5, -7, +3.
struct Number {
  std::string whole, fraction;
  bool negative = false, grouped = false, signed_plus = false;
  size_t end = 0;  // in the text it was read from
  bool plain() const { return fraction.empty() && !negative && !grouped; }
  bool is_one() const { return whole == "1" && fraction.empty(); }
};

/// The number that starts at `at`; nullopt where none does.
std::optional<Number> scan_number(std::string_view text, size_t at = 0);
std::string words_of(const Number& n);
/// Four digits from 1100 to 2099 as a year.
std::string words_or_year(const Number& n);
size_t digits_end(std::string_view text, size_t at);

/// An amount and what is counted: "five", "dollars per hour".
struct Quantity {
  std::string amount, unit;
  std::string sign;            // of a currency, as it is written before the amount
  const void* kind = nullptr;  // the same for the same unit
  std::string words() const { return unit.empty() ? amount : amount + " " + unit; }
};

/// $5.20, US$5, 5 and the sign of the euro, $5/hr. `next` as of number_chunk().
std::optional<Quantity> money(std::string_view core, std::string_view next, bool& used_next);
/// 5km, 5 km, 3 GB/day.
std::optional<Quantity> measure(std::string_view core, std::string_view next, bool& used_next);
/// The sign of a currency alone.
bool is_currency(std::string_view core);

}  // namespace gpukit::text::english
