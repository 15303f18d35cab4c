#include "gpukit/text/english/normalize.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gpukit/text/english/clean.h"
#include "gpukit/text/english/letters.h"
#include "gpukit/text/english/number_words.h"
#include "gpukit/text/english/quantities.h"

namespace gpukit::text::english {
namespace {

/// What stands between two blanks.
struct Chunk {
  std::string before, core, after;  // opening marks, the rest, closing marks
  bool ends_line = false;
};

constexpr std::string_view kClosingQuote = "\xe2\x80\x9d";

enum class Follow { any, name, number };  // what must come next for an abbreviation to be meant

struct Abbreviation {
  std::string_view sign, words;
  Follow follow = Follow::any;
  bool needs_dot = true;
};

constexpr std::array kAbbreviations = {
    Abbreviation{"mr", "Mister", Follow::any, false},
    Abbreviation{"mrs", "Missus", Follow::any, false},
    Abbreviation{"ms", "Miz", Follow::name, false},
    Abbreviation{"dr", "Doctor", Follow::name, false},
    Abbreviation{"dr", "Drive"},
    Abbreviation{"st", "Saint", Follow::name},
    Abbreviation{"st", "Street"},
    Abbreviation{"prof", "Professor"},
    Abbreviation{"gen", "General", Follow::name},
    Abbreviation{"col", "Colonel", Follow::name},
    Abbreviation{"capt", "Captain"},
    Abbreviation{"lt", "Lieutenant", Follow::name},
    Abbreviation{"sgt", "Sergeant"},
    Abbreviation{"rev", "Reverend", Follow::name},
    Abbreviation{"hon", "Honorable", Follow::name},
    Abbreviation{"gov", "Governor", Follow::name},
    Abbreviation{"sen", "Senator", Follow::name},
    Abbreviation{"rep", "Representative", Follow::name},
    Abbreviation{"pres", "President", Follow::name},
    Abbreviation{"jr", "Junior", Follow::any, false},
    Abbreviation{"sr", "Senior"},
    Abbreviation{"vs", "versus", Follow::any, false},
    Abbreviation{"etc", "etcetera", Follow::any, false},
    Abbreviation{"e.g", "for example"},
    Abbreviation{"i.e", "that is"},
    Abbreviation{"approx", "approximately"},
    Abbreviation{"dept", "department"},
    Abbreviation{"est", "established"},
    Abbreviation{"no", "number", Follow::number},
    Abbreviation{"nos", "numbers", Follow::number},
    Abbreviation{"fig", "figure", Follow::number},
    Abbreviation{"vol", "volume", Follow::number},
    Abbreviation{"ch", "chapter", Follow::number},
    Abbreviation{"p", "page", Follow::number},
    Abbreviation{"pp", "pages", Follow::number},
    Abbreviation{"inc", "Incorporated"},
    Abbreviation{"ltd", "Limited"},
    Abbreviation{"co", "Company"},
    Abbreviation{"corp", "Corporation"},
    Abbreviation{"ave", "Avenue"},
    Abbreviation{"blvd", "Boulevard"},
    Abbreviation{"rd", "Road"},
    Abbreviation{"mt", "Mount", Follow::name},
    Abbreviation{"ft", "Fort", Follow::name},
    Abbreviation{"ph.d", "P.H.D."},
};

bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool digit(char c) { return c >= '0' && c <= '9'; }

/// U.S or a.m: single letters with dots between them.
bool is_initials(std::string_view core) {
  if (core.size() < 3 || core.size() % 2 == 0) return false;
  for (size_t i = 0; i < core.size(); ++i)
    if (i % 2 == 0 ? !all_letters(core.substr(i, 1)) : core[i] != '.') return false;
  return true;
}

int roman_value(std::string_view core) {
  static constexpr std::array<std::string_view, 21> kRoman = {"",    "",     "II",  "III",  "IV",    "",    "VI",
                                                              "VII", "VIII", "IX",  "",     "XI",    "XII", "XIII",
                                                              "XIV", "XV",   "XVI", "XVII", "XVIII", "XIX", "XX"};
  for (size_t i = 2; i < kRoman.size(); ++i)
    if (!kRoman[i].empty() && core == kRoman[i]) return static_cast<int>(i);
  return 0;
}

class Normalizer {
 public:
  explicit Normalizer(const std::u32string& text) { split(text); }

  std::string run() {
    for (at_ = 0; at_ < chunks_.size(); ++at_) {
      Chunk& chunk = chunks_[at_];
      used_next_ = false;
      if (joins_amount(chunk)) continue;
      const std::string words = words_of(chunk);
      put(chunk.before + words + (used_next_ ? "" : chunk.after));
      bool ends_line = chunk.ends_line;
      if (used_next_) {
        ++at_;
        out_ += chunks_[at_].after;
        ends_line = chunks_[at_].ends_line;
      }
      if (ends_line && !out_.empty() && letter(out_.back())) out_ += '.';
    }
    return std::move(out_);
  }

 private:
  void split(const std::u32string& text) {
    size_t i = 0;
    while (i < text.size()) {
      size_t end = i;
      while (end < text.size() && text[end] != U' ' && text[end] != U'\n') ++end;
      if (end > i) add(std::u32string_view(text).substr(i, end - i));
      int breaks = 0;
      while (end < text.size() && (text[end] == U' ' || text[end] == U'\n')) breaks += text[end++] == U'\n' ? 1 : 0;
      // A line that goes on in lower case was only wrapped.
      const bool wrapped = breaks == 1 && end < text.size() && is_letter(text[end]) && !is_upper(text[end]);
      if (breaks > 0 && !wrapped && !chunks_.empty()) chunks_.back().ends_line = true;
      i = end;
    }
  }

  void add(std::u32string_view text) {
    static constexpr std::u32string_view kOpening = U"([{\"'\u201c\u201d*_`|";
    static constexpr std::u32string_view kClosing = U".,;:!?)]}\"'\u201c\u201d\u2026*_`|";
    size_t start = 0, end = text.size();
    while (start < end && kOpening.find(text[start]) != kOpening.npos) ++start;
    while (end > start && kClosing.find(text[end - 1]) != kClosing.npos) --end;
    const auto marks = [](std::u32string_view part, bool opening) {
      std::string kept;
      for (const char32_t c : part) {
        if (c == U'"')
          kept += opening ? "\xe2\x80\x9c" : "\xe2\x80\x9d";
        else if (c == U'[' || c == U'{' || c == U']' || c == U'}')
          kept += c == U'[' || c == U'{' ? '(' : ')';
        else if (c != U'\'' && c != U'*' && c != U'_' && c != U'`' && c != U'|')
          kept += encode_utf8(std::u32string_view(&c, 1));
      }
      for (size_t dots = kept.find(".."); dots != kept.npos; dots = kept.find("..", dots)) {
        const size_t last = std::min(kept.find_first_not_of('.', dots), kept.size());
        kept.replace(dots, last - dots, "\xe2\x80\xa6");
      }
      return kept;
    };
    Chunk chunk;
    chunk.before = marks(text.substr(0, start), true);
    chunk.core = encode_utf8(text.substr(start, end - start));
    chunk.after = marks(text.substr(end), false);
    // 'em, 'twas, dogs': the apostrophe is a part of the word.
    if (start == 1 && text[0] == U'\'' && end > start && is_letter(text[start]) && end == text.size())
      chunk.core.insert(0, "'");
    if (end < text.size() && text[end] == U'\'' && end > start && (text[end - 1] == U's') &&
        (start == 0 || text[start - 1] != U'\''))
      chunk.core += '\'';
    if (chunk.before.empty() && chunk.core.empty() && chunk.after.empty()) return;
    chunks_.push_back(std::move(chunk));
  }

  void put(const std::string& words) {
    if (words.empty()) return;
    const bool pause = std::string_view(";:,.!?)").find(words[0]) != std::string_view::npos;
    if (!out_.empty() && !(pause && words.size() == 1)) out_ += ' ';
    out_ += words;
  }

  const Chunk* next() const {
    return at_ + 1 < chunks_.size() && chunks_[at_].after.empty() && chunks_[at_ + 1].before.empty() ? &chunks_[at_ + 1]
                                                                                                     : nullptr;
  }
  bool next_is_name() const {
    return at_ + 1 < chunks_.size() && !chunks_[at_ + 1].core.empty() &&
           is_upper(decode_utf8(chunks_[at_ + 1].core.substr(0, 2))[0]);
  }

  /// "$ 5": the sign goes with the amount.
  bool joins_amount(const Chunk& chunk) {
    const bool amount = is_currency(chunk.core) && next() != nullptr && digit((next()->core + " ")[0]);
    if (!amount) return false;
    chunks_[at_ + 1].core.insert(0, chunk.core);
    chunks_[at_ + 1].before = chunk.before;
    return true;
  }

  std::string word_before() const { return at_ > 0 ? ascii_lower(chunks_[at_ - 1].core) : std::string(); }

  /// A year that four digits from 1100 on do not show: "year 1066", "AD 476", "44 BC", "in 1066" before a pause.
  bool is_early_year(const Chunk& chunk) const {
    const std::string& core = chunk.core;
    if (!all_digits(core) || core.size() < 3 || core.size() > 4 || core[0] == '0') return false;
    const std::string before = word_before();
    const bool pause = !chunk.after.empty() || at_ + 1 == chunks_.size();
    if (before == "year" || before == "ad" || before == "circa") return true;
    if (core.size() == 4 && pause && (before == "in" || before == "since" || before == "until")) return core < "1100";
    const std::string after = next() != nullptr ? next()->core : std::string();
    return after == "AD" || after == "BC" || after == "CE" || after == "BCE" || after == "A.D" || after == "B.C";
  }

  /// The number to call for help, unless it counts something.
  bool is_emergency_call(const Chunk& chunk) const {
    if (chunk.core != "911") return false;
    const std::string after = next() != nullptr ? next()->core : std::string();
    bool unused = false;
    const bool counts = (after.ends_with('s') && after != "calls" && after != "is" && after != "was") ||
                        after == "people" || measure(chunk.core, after, unused);
    return !counts;
  }

  std::string words_of(Chunk& chunk) {
    const std::string& core = chunk.core;
    if (core.empty()) return {};
    if (core == "-" || core == "--" || core == "---") return "\xe2\x80\x94";
    if (is_address(core)) return address_words(core);
    if (is_initials(core)) return initials(chunk);
    if (is_initial_of_name(chunk)) {
      chunk.after.clear();
      return core;
    }
    if (const auto words = abbreviation(chunk)) return *words;
    if (const auto words = weekday(chunk)) return *words;
    if (const auto words = day_of_month(chunk)) return *words;
    if (is_area_code(chunk) || is_emergency_call(chunk)) return digit_words(core);
    if (is_early_year(chunk)) return year_words(core);
    constexpr size_t kLongestNumber = 64;
    if (core.size() > kLongestNumber) return mixed_words(core);
    const std::string after_next = next() != nullptr ? next()->core : std::string();
    if (auto words = number_chunk(core, after_next, used_next_)) {
      std::string& tail = (used_next_ ? chunks_[at_ + 1] : chunk).after;
      // The sign of inches is no quote.
      if (core.find('\'') != core.npos && tail.starts_with(kClosingQuote)) tail.erase(0, kClosingQuote.size());
      if (words->ends_with('.') && tail.starts_with('.')) tail.erase(0, 1);
      return *words;
    }
    if (const int value = roman_value(core); value != 0 && at_ > 0) {
      const std::string& previous = chunks_[at_ - 1].core;
      static constexpr std::array<std::string_view, 10> kCounted = {"War",    "Part",    "Chapter", "Act",   "Book",
                                                                    "Volume", "Section", "Type",    "Phase", "Bowl"};
      if (!previous.empty() && previous[0] >= 'A' && previous[0] <= 'Z') {
        const bool counted = std::find(kCounted.begin(), kCounted.end(), previous) != kCounted.end();
        const std::string number = std::to_string(value);
        return counted ? cardinal_words(number) : "the " + ordinal_words(number);
      }
    }
    return mixed_words(core);
  }

  std::string initials(Chunk& chunk) {
    const std::string word = ascii_lower(chunk.core);
    if (word == "e.g" || word == "i.e") {
      if (chunk.after.starts_with('.')) chunk.after.erase(0, 1);
      return word == "e.g" ? "for example" : "that is";
    }
    std::string spelled;
    for (const char c : chunk.core) spelled += c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    if (chunk.after.starts_with('.')) chunk.after.erase(0, 1);
    return spelled + ".";
  }

  /// The "J." of "Mr. J. R. Smith": before a name, at the start or after a capital.
  bool is_initial_of_name(const Chunk& chunk) const {
    if (chunk.core.size() != 1 || chunk.core[0] < 'A' || chunk.core[0] > 'Z' || chunk.after != ".") return false;
    const bool starts = at_ == 0 || (is_upper_ascii(chunks_[at_ - 1].core) && chunks_[at_ - 1].after.empty());
    return starts && !chunk.ends_line && next_is_name();
  }
  static bool is_upper_ascii(const std::string& core) { return !core.empty() && core[0] >= 'A' && core[0] <= 'Z'; }

  /// The "dr." of "dr. who" and the "st." of "st. paul": not behind the name or the number of a street.
  bool is_title_in_lower_case(const std::string& word) const {
    if ((word != "dr" && word != "st") || !chunks_[at_].after.starts_with('.') || chunks_[at_].after.size() > 1)
      return false;
    if (at_ == 0 || !chunks_[at_ - 1].after.empty()) return true;
    const std::string before = word_before();
    const bool article = before == "the" || before == "a" || before == "my" || before == "our" || before == "your";
    const bool street = is_upper_ascii(chunks_[at_ - 1].core) && !(article && word == "dr");
    return !street && !digit(before.empty() ? ' ' : before[0]) &&
           (at_ < 2 || chunks_[at_ - 2].core.empty() || !digit(chunks_[at_ - 2].core[0]));
  }

  /// The "St." of "123 Main St. Apartment 4".
  bool is_behind_house_number() const {
    return at_ >= 2 && is_upper_ascii(chunks_[at_ - 1].core) && chunks_[at_ - 1].after.empty() &&
           digit((chunks_[at_ - 2].core + " ")[0]) && chunks_[at_ - 2].after.empty();
  }

  std::optional<std::string> abbreviation(Chunk& chunk) {
    const std::string word = ascii_lower(chunk.core);
    const bool dot = chunk.after.starts_with('.');
    for (const Abbreviation& a : kAbbreviations) {
      if (word != a.sign || (a.needs_dot && !dot)) continue;
      if (!dot && !(chunk.core[0] >= 'A' && chunk.core[0] <= 'Z') && a.follow == Follow::name) continue;
      const bool more = at_ + 1 < chunks_.size() && !chunk.ends_line;
      const std::string after = more ? chunks_[at_ + 1].core : std::string();
      if (a.follow == Follow::name && !(more && (next_is_name() || (dot && is_title_in_lower_case(word))))) continue;
      if (a.follow == Follow::name && (word == "st" || word == "dr") && is_behind_house_number()) continue;
      if (a.follow == Follow::number && (after.empty() || !digit(after[0]))) continue;
      // A street or a company may end a sentence; what needs a name after it does not.
      const bool ends = !more || (a.follow == Follow::any && next_is_name() && a.needs_dot && a.words != "Professor" &&
                                  a.words != "Captain" && a.words != "Sergeant");
      if (dot && (!ends || a.words.ends_with('.'))) chunk.after.erase(0, 1);
      return std::string(a.words);
    }
    return std::nullopt;
  }

  /// "Mon.," or "Mon." before a date.
  std::optional<std::string> weekday(Chunk& chunk) const {
    static constexpr std::array<std::string_view, 7> kDays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                              "Friday", "Saturday", "Sunday"};
    if (chunk.core.size() < 3 || chunk.core.size() > 5 || !chunk.after.starts_with('.')) return std::nullopt;
    const std::string after = at_ + 1 < chunks_.size() ? chunks_[at_ + 1].core : std::string();
    const bool date = chunk.after.starts_with(".,") || month_of(after) != 0 || (!after.empty() && digit(after[0]));
    for (const std::string_view day : kDays) {
      if (!date || !day.starts_with(chunk.core)) continue;
      chunk.after.erase(0, 1);
      return std::string(day);
    }
    return std::nullopt;
  }

  /// The "(555)" before "123-4567".
  bool is_area_code(const Chunk& chunk) const {
    if (chunk.core.size() != 3 || !all_digits(chunk.core) || !chunk.before.ends_with('(') || chunk.after != ")" ||
        at_ + 1 >= chunks_.size())
      return false;
    const std::string& after = chunks_[at_ + 1].core;
    return after.size() == 8 && after[3] == '-' && all_digits(after.substr(0, 3)) && all_digits(after.substr(4));
  }

  /// "March 3", "Mar. 3rd", "3 March": the day as an ordinal.
  std::optional<std::string> day_of_month(Chunk& chunk) {
    const auto day = [](std::string_view text) -> std::string {
      size_t digits = 0;
      while (digits < text.size() && digit(text[digits])) ++digits;
      const std::string suffix = ascii_lower(text.substr(digits));
      const bool ordinal = suffix == "st" || suffix == "nd" || suffix == "rd" || suffix == "th";
      if (digits == 0 || digits > 2 || (!suffix.empty() && !ordinal)) return {};
      const int n = digits == 2 ? (text[0] - '0') * 10 + text[1] - '0' : text[0] - '0';
      return n >= 1 && n <= 31 ? std::string(text.substr(0, digits)) : std::string();
    };
    if (at_ + 1 >= chunks_.size()) return std::nullopt;
    const std::string& after = chunks_[at_ + 1].core;
    const bool dot = chunk.after == ".";
    const int month =
        chunk.core[0] >= 'A' && chunk.core[0] <= 'Z' && (chunk.after.empty() || dot) ? month_of(chunk.core) : 0;
    if (month != 0 && (dot || chunk.after.empty()) && !after.empty() && digit(after[0])) {
      if (dot && !is_short_month(chunk.core)) return std::nullopt;
      if (const std::string number = day(after); !number.empty()) {
        used_next_ = true;
        chunk.after.clear();
        return std::string(month_name(month)) + " " + ordinal_words(number);
      }
      if (is_short_month(chunk.core)) {
        chunk.after.clear();
        return std::string(month_name(month));
      }
      return std::nullopt;
    }
    if (!chunk.after.empty() || after.empty() || after[0] < 'A' || after[0] > 'Z' || month_of(after) == 0)
      return std::nullopt;
    const std::string number = day(chunk.core);
    if (number.empty()) return std::nullopt;
    used_next_ = true;
    if (is_short_month(after) && chunks_[at_ + 1].after == ".") chunks_[at_ + 1].after.clear();
    const bool article = at_ > 0 && ascii_lower(chunks_[at_ - 1].core) == "the";
    return (article ? "" : "the ") + ordinal_words(number) + " of " + std::string(month_name(month_of(after)));
  }

  static bool is_short_month(std::string_view word) { return month_name(month_of(word)) != word; }

  std::vector<Chunk> chunks_;
  size_t at_ = 0;
  bool used_next_ = false;
  std::string out_;
};

}  // namespace

Normalized normalize(std::string_view text) {
  Normalized result;
  result.text = Normalizer(clean(text, result.skipped)).run();
  return result;
}

}  // namespace gpukit::text::english
