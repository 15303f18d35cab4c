#include <algorithm>
#include <array>

#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/number_words.h"
#include "gpukit/text/english/quantities.h"

namespace gpukit::text::english {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

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

/// 80s, 1990s, 1990's.
std::optional<std::string> decade(std::string_view core) {
  const std::optional<Number> n = scan_number(core);
  if (!n) return std::nullopt;
  const std::string_view rest = core.substr(n->end);
  const bool round = n->plain() && n->whole.size() >= 2 && n->whole.ends_with('0');
  return rest == "'s" || (rest == "s" && round) ? std::optional(plural_words(words_or_year(*n))) : std::nullopt;
}

/// Two quantities, times or decades: $20-$30, 25%-30%, 10:30-11:30, 1980s-1990s. A unit of both is said once.
std::optional<std::string> range(std::string_view core, std::string_view next, bool& used_next) {
  const size_t mark = core.find('-', 1);
  if (mark == core.npos || mark + 1 == core.size() || core[mark + 1] == '-') return std::nullopt;
  const std::string_view left = core.substr(0, mark);
  std::string right(core.substr(mark + 1));
  bool unused = false, used = false;
  if (const auto first = decade(left)) {
    const auto second = decade(right);
    return second ? std::optional(*first + " to " + *second) : std::nullopt;
  }
  std::optional<Quantity> from = money(left, {}, unused);
  if (!from) from = measure(left, {}, unused);
  const std::optional<Number> number = scan_number(left);
  const bool plain = number && number->end == left.size();
  if (from && !from->sign.empty() && digit(right[0])) right.insert(0, from->sign);
  std::optional<Quantity> to = money(right, next, used);
  if (!to && (from || plain)) to = measure(right, next, used);
  if (to && (from || plain)) {
    used_next = used;
    const bool same = from && from->kind != nullptr && from->kind == to->kind;
    return (!from ? words_or_year(*number) : same ? from->amount : from->words()) + " to " + to->words();
  }
  std::optional<std::string> first = clock_time(left, {}, unused);
  if (from) first = from->words();
  if (!first) return std::nullopt;
  const std::optional<std::string> second = number_chunk(right, next, used);
  if (!second) return std::nullopt;
  used_next = used;
  return *first + " to " + *second;
}

/// A month and a day: 12/25, 7/4, 01/05. A smaller number over one of up to 16 is a fraction: 3/4.
bool is_month_and_day(std::string_view a, std::string_view b) {
  if (a.size() > 2 || b.size() > 2 || a == b || to_int(a) < 1 || to_int(a) > 12 || to_int(b) < 1 || to_int(b) > 31)
    return false;
  return a[0] == '0' || b[0] == '0' || to_int(a) > to_int(b) || to_int(b) > 16;
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
  if (!is_said_as_pair(core) && is_month_and_day(a->whole, b->whole))
    return std::string(month_name(to_int(a->whole))) + " " + ordinal_words(b->whole);
  const bool proper = !is_said_as_pair(core) && a->whole.size() <= 2 && b->whole.size() <= 2 && b->whole != "0" &&
                      b->whole != "1" && to_int(a->whole) < to_int(b->whole) && to_int(b->whole) <= 16;
  if (proper) return fraction_words(a->whole, b->whole);
  return words_of(*a) + (is_said_as_pair(core) ? " " : " slash ") + words_of(*b);
}

}  // namespace

std::optional<std::string> number_chunk(std::string_view core, std::string_view next, bool& used_next) {
  used_next = false;
  if (core.empty()) return std::nullopt;
  if (const auto found = money(core, next, used_next)) return found->words();
  if (auto words = clock_time(core, next, used_next)) return words;
  if (auto words = date(core)) return words;
  if (auto words = telephone(core)) return words;
  if (auto words = range(core, next, used_next)) return words;
  if (auto words = pair_of_numbers(core, next, used_next)) return words;
  const std::optional<Number> n = scan_number(core);
  if (!n) return std::nullopt;
  const std::string_view rest = core.substr(n->end);
  if (const auto words = decade(core)) return words;
  if (const auto found = measure(core, next, used_next)) return found->words();
  if (rest.empty()) return words_or_year(*n);
  const std::string suffix = ascii_lower(rest);
  if (n->fraction.empty() && (suffix == "st" || suffix == "nd" || suffix == "rd" || suffix == "th"))
    return ordinal_of(n->grouped || n->negative ? words_of(*n) : cardinal_words(n->whole));
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
