#include <algorithm>
#include <array>

#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/number_words.h"

namespace gpukit::text::english {
namespace {

struct Number {
  std::string whole, fraction;
  bool negative = false, grouped = false, signed_plus = false;
  size_t end = 0;  // in the text it was read from
  bool plain() const { return fraction.empty() && !negative && !grouped; }
  bool is_one() const { return whole == "1" && fraction.empty(); }
};

bool digit(char c) { return c >= '0' && c <= '9'; }

size_t digits_end(std::string_view text, size_t at) {
  while (at < text.size() && digit(text[at])) ++at;
  return at;
}

std::optional<Number> scan_number(std::string_view text, size_t at = 0) {
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

bool is_year(const Number& n) {
  return n.plain() && !n.signed_plus && n.whole.size() == 4 && n.whole >= "1100" && n.whole <= "2099";
}

std::string words_or_year(const Number& n) { return is_year(n) ? year_words(n.whole) : words_of(n); }

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

std::optional<std::string> money(std::string_view core, std::string_view next, bool& used_next) {
  const bool negative = core.starts_with('-');
  const std::string_view text = core.substr(negative ? 1 : 0);
  for (const Currency& c : kCurrencies) {
    if (!text.starts_with(c.sign)) continue;
    const std::optional<Number> n = scan_number(text, c.sign.size());
    if (!n) return std::nullopt;
    const std::string_view rest = text.substr(n->end);
    std::string words = negative || n->negative ? "minus " : "";
    Number amount = *n;
    amount.negative = false;
    std::string_view scale = scale_word(rest);
    if (rest.empty() && scale_word(next).size() > 3 && next.size() > 3) {
      scale = scale_word(next);
      used_next = true;
    }
    if (!scale.empty()) return words + words_of(amount) + " " + std::string(scale) + " " + std::string(c.many);
    if (!rest.empty()) return std::nullopt;
    if (amount.fraction.size() != 2)
      return words + words_of(amount) + " " + std::string(amount.is_one() ? c.one : c.many);
    const bool whole = amount.whole.find_first_not_of('0') != std::string::npos;
    const bool cents = amount.fraction != "00";
    if (whole || !cents)
      words += cardinal_words(amount.whole) + " " + std::string(amount.whole == "1" ? c.one : c.many);
    if (whole && cents) words += " and ";
    if (cents) words += cardinal_words(amount.fraction) + " " + std::string(amount.fraction == "01" ? c.cent : c.cents);
    return words;
  }
  return std::nullopt;
}

/// "A.M." or "P.M.", which are spelled; empty for another word.
std::string_view half_of_day(std::string_view text) {
  const std::string word = ascii_lower(text);
  if (word == "am" || word == "a.m" || word == "a.m.") return "A.M.";
  if (word == "pm" || word == "p.m" || word == "p.m.") return "P.M.";
  return {};
}

int to_int(std::string_view digits) {
  int n = 0;
  for (const char c : digits) n = n * 10 + (c - '0');
  return n;
}

std::optional<std::string> clock_time(std::string_view core, std::string_view next, bool& used_next) {
  const size_t hours_end = digits_end(core, 0);
  if (hours_end == 0 || hours_end > 2 || to_int(core.substr(0, hours_end)) > 24) return std::nullopt;
  std::string words = cardinal_words(core.substr(0, hours_end));
  size_t at = hours_end;
  bool minutes = false, exact = true;
  while (at + 2 < core.size() && core[at] == ':' && digits_end(core, at + 1) == at + 3) {
    const std::string_view part = core.substr(at + 1, 2);
    if (to_int(part) > 59) return std::nullopt;
    if (part != "00" || at != hours_end) {
      exact = false;
      words += part[0] == '0' ? " oh " : " ";
      words += cardinal_words(part);
    }
    minutes = true;
    at += 3;
  }
  std::string_view half = half_of_day(core.substr(at));
  if (at < core.size() && half.empty()) return std::nullopt;
  if (at == core.size() && !half_of_day(next).empty()) {
    half = half_of_day(next);
    used_next = true;
  }
  if (!minutes && half.empty()) return std::nullopt;
  if (!half.empty()) return words + " " + std::string(half);
  return exact ? words + (to_int(core.substr(0, hours_end)) <= 12 ? " o'clock" : " hundred") : words;
}

std::string date_words(int month, std::string_view day, std::string_view year) {
  std::string words = std::string(month_name(month)) + " " + ordinal_words(day);
  const bool two = year.size() == 2;
  return words + ", " + (two ? cardinal_words(year) : year_words(year));
}

std::optional<std::string> date(std::string_view core) {
  const size_t a = digits_end(core, 0);
  if (a == 0 || a >= core.size() || (core[a] != '/' && core[a] != '-')) return std::nullopt;
  const char mark = core[a];
  const size_t b = digits_end(core, a + 1);
  if (b == a + 1 || b >= core.size() || core[b] != mark) return std::nullopt;
  const std::string_view first = core.substr(0, a), second = core.substr(a + 1, b - a - 1), third = core.substr(b + 1);
  if (!all_digits(third) || first.size() > 4 || second.size() > 2 || third.size() > 4) return std::nullopt;
  const auto fits = [](std::string_view month, std::string_view day) {
    return month.size() <= 2 && day.size() <= 2 && to_int(month) >= 1 && to_int(month) <= 12 && to_int(day) >= 1 &&
           to_int(day) <= 31;
  };
  if (first.size() == 4) {
    if (!fits(second, third)) return std::nullopt;
    return date_words(to_int(second), third, first);
  }
  if (third.size() != 4 && !(third.size() == 2 && mark == '/')) return std::nullopt;
  if (fits(first, second)) return date_words(to_int(first), second, third);
  if (fits(second, first)) return date_words(to_int(second), first, third);
  return std::nullopt;
}

/// 555-1234, 212-555-1234, 1-800-555-1234: digit by digit.
std::optional<std::string> telephone(std::string_view core) {
  const bool plus = core.starts_with('+');
  std::string words = plus ? "plus " : "";
  size_t at = plus ? 1 : 0, groups = 0, last = 0;
  const size_t first = at;
  while (at < core.size()) {
    const size_t end = digits_end(core, at);
    last = end - at;
    if (last == 0 || (end < core.size() && (core[end] != '-' || end + 1 == core.size()))) return std::nullopt;
    if (end < core.size() && last != 3 && !(last == 1 && at == first)) return std::nullopt;
    words += (groups == 0 ? "" : ", ") + digit_words(core.substr(at, last));
    ++groups;
    at = end + 1;
  }
  return groups >= 2 && last == 4 ? std::optional(words) : std::nullopt;
}

std::string fraction_words(std::string_view above, std::string_view below) {
  const bool one = above == "1";
  std::string name = below == "2" ? (one ? "half" : "halves") : below == "4" ? "quarter" : ordinal_words(below);
  if (below != "2" && !one) name += "s";
  return cardinal_words(above) + " " + name;
}

bool is_said_as_pair(std::string_view core) { return core == "24/7" || core == "9/11"; }

/// Two numbers joined by a sign: 10-20, 3/4, 24/7, 16:9, 6'2, 1920x1080.
std::optional<std::string> pair_of_numbers(std::string_view core, std::string_view next, bool& used_next) {
  const std::optional<Number> a = scan_number(core);
  if (!a || a->end + 1 >= core.size()) return std::nullopt;
  const char mark = core[a->end];
  const std::optional<Number> b = digit(core[a->end + 1]) ? scan_number(core, a->end + 1) : std::nullopt;
  if (!b) return std::nullopt;
  const std::string_view rest = core.substr(b->end);
  if (mark == '-') {
    const std::optional<std::string> right =
        rest.empty() ? std::optional(words_or_year(*b)) : number_chunk(core.substr(a->end + 1), next, used_next);
    return right ? std::optional(words_or_year(*a) + " to " + *right) : std::nullopt;
  }
  if (!rest.empty()) return std::nullopt;
  if (mark == '\'') return words_of(*a) + (a->is_one() ? " foot " : " feet ") + words_of(*b);
  if (mark == ':') return words_of(*a) + " to " + words_of(*b);
  if (mark == 'x') return words_of(*a) + " by " + words_of(*b);
  if (mark != '/' || !a->plain() || !b->plain()) return std::nullopt;
  const bool proper = !is_said_as_pair(core) && a->whole.size() <= 2 && b->whole.size() <= 2 && b->whole != "0" &&
                      b->whole != "1" && to_int(a->whole) < to_int(b->whole) && to_int(b->whole) <= 16;
  if (proper) return fraction_words(a->whole, b->whole);
  return words_of(*a) + (is_said_as_pair(core) ? " " : " slash ") + words_of(*b);
}

}  // namespace

std::optional<std::string> number_chunk(std::string_view core, std::string_view next, bool& used_next) {
  used_next = false;
  if (core.empty()) return std::nullopt;
  if (auto words = money(core, next, used_next)) return words;
  if (auto words = clock_time(core, next, used_next)) return words;
  if (auto words = date(core)) return words;
  if (auto words = telephone(core)) return words;
  if (auto words = pair_of_numbers(core, next, used_next)) return words;
  const std::optional<Number> n = scan_number(core);
  if (!n) return std::nullopt;
  const std::string_view rest = core.substr(n->end);
  if (rest.empty()) {
    const Unit* unit = find_unit(next, false);
    if (unit == nullptr) return words_or_year(*n);
    used_next = true;
    return words_of(*n) + " " + std::string(n->is_one() ? unit->one : unit->many);
  }
  const std::string suffix = ascii_lower(rest);
  if (n->fraction.empty() && (suffix == "st" || suffix == "nd" || suffix == "rd" || suffix == "th"))
    return ordinal_of(n->grouped || n->negative ? words_of(*n) : cardinal_words(n->whole));
  const bool decade = n->plain() && n->whole.size() >= 2 && n->whole.ends_with('0');
  if (rest == "'s" || (rest == "s" && decade)) return plural_words(words_or_year(*n));
  if (const Unit* unit = find_unit(rest, true))
    return words_of(*n) + " " + std::string(n->is_one() ? unit->one : unit->many);
  if (rest == "\xc2\xa2") return words_of(*n) + (n->is_one() ? " cent" : " cents");
  if (rest == "+") return words_of(*n) + " plus";
  // 3.11.4 and 192.168.0.1: number by number.
  if (rest[0] == '.' && !n->grouped && rest.find_first_not_of(".0123456789") == rest.npos) {
    std::string words;
    for (size_t at = 0; at < core.size();) {
      const size_t end = digits_end(core, at);
      if (end == at) return std::nullopt;
      words += (words.empty() ? "" : " point ") + cardinal_words(core.substr(at, end - at));
      at = end + 1;
    }
    return words;
  }
  return std::nullopt;
}

}  // namespace gpukit::text::english
