#include "gpukit/text/english/quantities.h"

#include <algorithm>
#include <array>

#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/number_words.h"

namespace gpukit::text::english {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

bool is_year(const Number& n) {
  return n.plain() && !n.signed_plus && n.whole.size() == 4 && n.whole >= "1100" && n.whole <= "2099";
}

struct Unit {
  std::string_view sign, one, many;
  bool beside_only = false;  // written without a blank only: "5 in" is mostly no inch
};

constexpr std::array kUnits = {
    Unit{"km", "kilometer", "kilometers"},
    Unit{"m", "meter", "meters"},
    Unit{"cm", "centimeter", "centimeters"},
    Unit{"mm", "millimeter", "millimeters"},
    Unit{"um", "micrometer", "micrometers"},
    Unit{"nm", "nanometer", "nanometers"},
    Unit{"mi", "mile", "miles"},
    Unit{"ft", "foot", "feet"},
    Unit{"in", "inch", "inches", true},
    Unit{"yd", "yard", "yards"},
    Unit{"kg", "kilogram", "kilograms"},
    Unit{"g", "gram", "grams"},
    Unit{"mg", "milligram", "milligrams"},
    Unit{"lb", "pound", "pounds"},
    Unit{"lbs", "pound", "pounds"},
    Unit{"oz", "ounce", "ounces"},
    Unit{"L", "liter", "liters"},
    Unit{"l", "liter", "liters", true},
    Unit{"ml", "milliliter", "milliliters"},
    Unit{"mL", "milliliter", "milliliters"},
    Unit{"s", "second", "seconds", true},
    Unit{"ms", "millisecond", "milliseconds"},
    Unit{"us", "microsecond", "microseconds", true},
    Unit{"ns", "nanosecond", "nanoseconds"},
    Unit{"sec", "second", "seconds"},
    Unit{"min", "minute", "minutes"},
    Unit{"h", "hour", "hours"},
    Unit{"hr", "hour", "hours"},
    Unit{"hrs", "hour", "hours"},
    Unit{"Hz", "hertz", "hertz"},
    Unit{"kHz", "kilohertz", "kilohertz"},
    Unit{"MHz", "megahertz", "megahertz"},
    Unit{"GHz", "gigahertz", "gigahertz"},
    Unit{"KB", "kilobyte", "kilobytes"},
    Unit{"kB", "kilobyte", "kilobytes"},
    Unit{"MB", "megabyte", "megabytes"},
    Unit{"GB", "gigabyte", "gigabytes"},
    Unit{"TB", "terabyte", "terabytes"},
    Unit{"PB", "petabyte", "petabytes"},
    Unit{"Mbps", "megabit per second", "megabits per second"},
    Unit{"Gbps", "gigabit per second", "gigabits per second"},
    Unit{"MB/s", "megabyte per second", "megabytes per second"},
    Unit{"GB/s", "gigabyte per second", "gigabytes per second"},
    Unit{"TB/s", "terabyte per second", "terabytes per second"},
    Unit{"V", "volt", "volts"},
    Unit{"W", "watt", "watts"},
    Unit{"kW", "kilowatt", "kilowatts"},
    Unit{"MW", "megawatt", "megawatts"},
    Unit{"kWh", "kilowatt hour", "kilowatt hours"},
    Unit{"mph", "mile per hour", "miles per hour"},
    Unit{"km/h", "kilometer per hour", "kilometers per hour"},
    Unit{"kph", "kilometer per hour", "kilometers per hour"},
    Unit{"m/s", "meter per second", "meters per second"},
    Unit{"dB", "decibel", "decibels"},
    Unit{"kcal", "kilocalorie", "kilocalories"},
    Unit{"px", "pixel", "pixels"},
    Unit{"fps", "frame per second", "frames per second"},
    Unit{"x", "times", "times", true},
    Unit{"K", "thousand", "thousand", true},
    Unit{"k", "thousand", "thousand", true},
    Unit{"M", "million", "million", true},
    Unit{"B", "billion", "billion", true},
    Unit{"bn", "billion", "billion", true},
    Unit{"%", "percent", "percent"},
    Unit{"\xc2\xa2", "cent", "cents", true},
    Unit{"\xc2\xb0", "degree", "degrees"},
    Unit{"\xc2\xb0"
         "C",
         "degree Celsius", "degrees Celsius"},
    Unit{"\xc2\xb0"
         "F",
         "degree Fahrenheit", "degrees Fahrenheit"},
};

const Unit* find_unit(std::string_view sign, bool beside) {
  const auto* found = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.sign == sign; });
  return found == kUnits.end() || (found->beside_only && !beside) ? nullptr : found;
}

/// What a slash before it counts by: "hr" -> "hour", "month" -> "month"; empty for no such thing.
std::string per_word(std::string_view sign) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTimes = {
      {{"mo", "month"}, {"yr", "year"}, {"y", "year"}, {"wk", "week"}, {"d", "day"}, {"s", "second"}}};
  for (const auto& [name, word] : kTimes)
    if (sign == name) return std::string(word);
  if (const Unit* unit = find_unit(sign, false)) return std::string(unit->one);
  return sign.size() > 2 && all_letters(sign) ? std::string(sign) : std::string();
}

/// "km", "GB/day".
std::optional<Quantity> measured(const Number& n, std::string_view sign, bool beside) {
  std::string per;
  const Unit* unit = find_unit(sign, beside);
  if (const size_t slash = sign.find('/'); unit == nullptr && slash != sign.npos && slash > 0) {
    unit = find_unit(sign.substr(0, slash), beside);
    per = per_word(sign.substr(slash + 1));
    if (per.empty()) return std::nullopt;
    per.insert(0, " per ");
  }
  if (unit == nullptr) return std::nullopt;
  return Quantity{words_of(n), std::string(n.is_one() ? unit->one : unit->many) + per, {}, unit};
}

struct Currency {
  std::string_view sign, one, many, cent, cents;
};

constexpr std::array kCurrencies = {
    Currency{"$", "dollar", "dollars", "cent", "cents"},
    Currency{"\xc2\xa3", "pound", "pounds", "penny", "pence"},
    Currency{"\xe2\x82\xac", "euro", "euros", "cent", "cents"},
    Currency{"\xc2\xa5", "yen", "yen", "sen", "sen"},
};

std::string_view scale_word(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kScales = {{{"k", "thousand"},
                                                                                      {"K", "thousand"},
                                                                                      {"m", "million"},
                                                                                      {"M", "million"},
                                                                                      {"mn", "million"},
                                                                                      {"b", "billion"},
                                                                                      {"B", "billion"},
                                                                                      {"bn", "billion"},
                                                                                      {"T", "trillion"},
                                                                                      {"thousand", "thousand"},
                                                                                      {"million", "million"},
                                                                                      {"billion", "billion"},
                                                                                      {"trillion", "trillion"}}};
  for (const auto& [sign, word] : kScales)
    if (text == sign) return word;
  return {};
}

/// The words before "dollars" of the letters before the sign.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kDollars = {{{"US", "U.S. "},
                                                                                    {"AU", "Australian "},
                                                                                    {"A", "Australian "},
                                                                                    {"CA", "Canadian "},
                                                                                    {"C", "Canadian "},
                                                                                    {"NZ", "New Zealand "},
                                                                                    {"HK", "Hong Kong "},
                                                                                    {"S", "Singapore "}}};

/// The amount in whole units, with a scale, or in units and hundredths of them.
std::optional<Quantity> money_of(const Number& n, const Currency& c, std::string_view scale, std::string_view country) {
  const std::string one = std::string(country) + std::string(c.one), many = std::string(country) + std::string(c.many);
  if (!scale.empty()) return Quantity{words_of(n) + " " + std::string(scale), many, {}, &c};
  if (n.fraction.size() != 2) return Quantity{words_of(n), n.is_one() ? one : many, {}, &c};
  const bool whole = n.whole.find_first_not_of('0') != std::string::npos;
  const bool cents = n.fraction != "00";
  if (!cents) return Quantity{cardinal_words(n.whole), n.whole == "1" ? one : many, {}, &c};
  std::string words;
  if (whole) words = cardinal_words(n.whole) + " " + (n.whole == "1" ? one : many) + " and ";
  words += cardinal_words(n.fraction) + " " + std::string(n.fraction == "01" ? c.cent : c.cents);
  return Quantity{std::move(words), {}, {}, nullptr};
}

}  // namespace

size_t digits_end(std::string_view text, size_t at) {
  while (at < text.size() && digit(text[at])) ++at;
  return at;
}

std::optional<Number> scan_number(std::string_view text, size_t at) {
  Number n;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
    n.negative = text[at] == '-';
    n.signed_plus = !n.negative;
    ++at;
  }
  size_t end = digits_end(text, at);
  n.whole = text.substr(at, end - at);
  while (!n.whole.empty() && end < text.size() && text[end] == ',' && digits_end(text, end + 1) == end + 4 &&
         (n.grouped || end - at <= 3)) {
    n.whole += text.substr(end + 1, 3);
    n.grouped = true;
    end += 4;
  }
  if (end + 1 < text.size() && text[end] == '.' && digit(text[end + 1])) {
    const size_t last = digits_end(text, end + 1);
    n.fraction = text.substr(end + 1, last - end - 1);
    end = last;
  }
  if (n.whole.empty() && n.fraction.empty()) return std::nullopt;
  n.end = end;
  return n;
}

std::string words_of(const Number& n) {
  std::string words =
      n.whole.size() > 1 && n.whole[0] == '0' && n.plain() ? digit_words(n.whole) : decimal_words(n.whole, n.fraction);
  if (n.negative) words.insert(0, "minus ");
  if (n.signed_plus) words.insert(0, "plus ");
  return words;
}

std::string words_or_year(const Number& n) { return is_year(n) ? year_words(n.whole) : words_of(n); }

bool is_currency(std::string_view core) {
  return std::any_of(kCurrencies.begin(), kCurrencies.end(), [&](const Currency& c) { return c.sign == core; });
}

std::optional<Quantity> money(std::string_view core, std::string_view next, bool& used_next) {
  const bool negative = core.starts_with('-');
  std::string_view text = core.substr(negative ? 1 : 0), country;
  for (const auto& [letters, words] : kDollars) {
    if (!text.starts_with(letters) || !text.substr(letters.size()).starts_with('$')) continue;
    text.remove_prefix(letters.size());
    country = words;
    break;
  }
  for (const Currency& c : kCurrencies) {
    const bool before = text.starts_with(c.sign);
    std::optional<Number> n = scan_number(text, before ? c.sign.size() : 0);
    if (!n) continue;
    std::string_view rest = text.substr(n->end);
    bool sign_follows = false;
    if (!before && rest.starts_with(c.sign))
      rest.remove_prefix(c.sign.size());
    else if (!before && rest.empty() && next == c.sign)
      sign_follows = true;
    else if (!before)
      continue;
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string per = slash < rest.size() ? per_word(rest.substr(slash + 1)) : std::string();
    std::string_view scale = scale_word(rest.substr(0, slash));
    if ((slash > 0 && scale.empty()) || (slash < rest.size() && per.empty())) return std::nullopt;
    used_next = sign_follows;
    if (rest.empty() && !sign_follows && scale_word(next).size() > 3 && next.size() > 3) {
      scale = scale_word(next);
      used_next = true;
    }
    const bool minus = negative || n->negative;
    n->negative = false;
    std::optional<Quantity> found = money_of(*n, c, scale, country);
    if (minus) found->amount.insert(0, "minus ");
    if (!per.empty()) found->unit += (found->unit.empty() ? "per " : " per ") + per;
    if (before) found->sign = c.sign;
    return found;
  }
  return std::nullopt;
}

std::optional<Quantity> measure(std::string_view core, std::string_view next, bool& used_next) {
  const std::optional<Number> n = scan_number(core);
  if (!n) return std::nullopt;
  const std::string_view rest = core.substr(n->end);
  if (!rest.empty()) return measured(*n, rest, true);
  std::optional<Quantity> found = measured(*n, next, false);
  used_next = found.has_value();
  return found;
}

}  // namespace gpukit::text::english
