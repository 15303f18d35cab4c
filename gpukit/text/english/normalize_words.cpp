// Words of addresses, of mixed words, of months, and classes of ASCII text.
#include <algorithm>
#include <array>

#include "gpukit/text/english/letters.h"
#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/number_words.h"

namespace gpukit::text::english {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                      "May",       "June",     "July",     "August",
                                                      "September", "October",  "November", "December"};

std::string_view address_sign(char c) {
  switch (c) {
    case '.': return "dot";
    case '@': return "at";
    case '/': return "slash";
    case '-': return "dash";
    case '_': return "underscore";
    case ':': return "colon";
    case '?': return "question mark";
    case '=': return "equals";
    case '&': return "and";
    case '%': return "percent";
    case '#': return "hash";
    case '+': return "plus";
    case '~': return "tilde";
    default: return {};
  }
}

std::string_view sign_words(char c) {
  switch (c) {
    case '&': return "and";
    case '%': return "percent";
    case '+': return "plus";
    case '@': return "at";
    case '=': return "equals";
    case '<': return "is less than";
    case '>': return "is greater than";
    case '#': return "number";
    case '/': return "slash";
    case '\\': return "backslash";
    case '^': return "to the power of";
    case '~': return "about";
    case '$': return "dollar";
    default: return {};
  }
}

bool letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}
bool digit(char c) { return c >= '0' && c <= '9'; }

/// The "AT" of AT&T as "A.T."; other words as they are.
std::string spelled_initials(std::string_view word) {
  const bool capitals = std::all_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!capitals || word.size() < 2) return std::string(word);
  std::string out;
  for (const char c : word) (out += c) += '.';
  return out;
}

std::string signs_and_words(std::string_view core) {
  std::string out;
  bool joined = false;  // the next part belongs to the word before it
  const auto put_word = [&](std::string_view word) {
    if (!out.empty() && !joined) out += ' ';
    out += word;
    joined = false;
  };
  for (size_t i = 0; i < core.size();) {
    size_t end = i + 1;
    if (letter(core[i]) || (core[i] == '\'' && end < core.size() && letter(core[end]))) {
      while (end < core.size() && (letter(core[end]) || core[end] == '\'')) ++end;
      const std::string_view word = core.substr(i, end - i);
      const bool beside_and = (i > 0 && core[i - 1] == '&') || (end < core.size() && core[end] == '&');
      put_word(beside_and && word.size() <= 3 ? spelled_initials(word) : std::string(word));
    } else if (digit(core[i])) {
      while (end < core.size() && digit(core[end])) ++end;
      const std::string_view digits = core.substr(i, end - i);
      put_word(digits[0] == '0' && digits.size() > 1 ? digit_words(digits) : cardinal_words(digits));
    } else if (core[i] == '-' && i > 0 && end < core.size() && letter(core[i - 1]) && letter(core[end])) {
      out += '-';
      joined = true;
    } else if (core[i] == '.' && i > 0 && end < core.size()) {
      put_word(letter(core[i - 1]) && letter(core[end]) ? "dot" : "point");
    } else if (core[i] == '#' && i > 0) {
      put_word("sharp");
    } else if (core[i] == '#' && end < core.size() && letter(core[end])) {
      put_word("hashtag");
    } else if (core[i] == '/' && i > 0 && end < core.size() && letter(core[i - 1]) && letter(core[end])) {
      // "and/or": the sign is not spoken
    } else if (core[i] == ',' || core[i] == ';' || core[i] == ':' || core[i] == '!' || core[i] == '?') {
      out += core[i];
    } else if (const std::string_view words = sign_words(core[i]); !words.empty()) {
      put_word(words);
    }
    i = end;
  }
  return out;
}

}  // namespace

std::string mixed_words(std::string_view core) {
  constexpr size_t kLongest = 64;
  const bool hyphens = core.size() <= kLongest && core.find('-', 1) != core.npos && core[0] != '-';
  if (!hyphens) return signs_and_words(core);
  std::string out;
  bool after_letters = false;
  for (size_t at = 0; at <= core.size();) {
    const size_t end = std::min(core.find('-', at), core.size());
    std::string_view part = core.substr(at, end - at);
    at = end + 1;
    if (part.size() > 1 && part[0] == '\'' && digit(part[1])) part.remove_prefix(1);  // the "'90s" of mid-'90s
    if (part.empty()) continue;
    const bool letters = std::all_of(part.begin(), part.end(), [](char c) { return letter(c) || c == '\''; });
    bool used_next = false;
    const std::optional<std::string> number = letters ? std::nullopt : number_chunk(part, {}, used_next);
    const std::string words = letters ? std::string(part) : number ? *number : signs_and_words(part);
    if (words.empty()) continue;
    if (!out.empty()) out += letters && after_letters ? '-' : ' ';
    out += words;
    after_letters = letters;
  }
  return out;
}

bool is_address(std::string_view core) {
  if (core.starts_with("http://") || core.starts_with("https://") || core.starts_with("www.")) return true;
  const size_t at = core.find('@');
  if (at != core.npos) return at > 0 && core.find('.', at) != core.npos && core.find('.', at) > at + 1;
  static constexpr std::array<std::string_view, 13> kEndings = {".com", ".org", ".net", ".edu", ".gov", ".io",  ".ai",
                                                                ".dev", ".uk",  ".de",  ".co",  ".eu",  ".info"};
  const std::string_view host = core.substr(0, core.find('/'));
  return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view e) {
    return host.size() > e.size() && host.ends_with(e) && all_letters(host.substr(0, 1));
  });
}

std::string address_words(std::string_view core) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (core.starts_with(scheme)) core.remove_prefix(scheme.size());
  std::string out;
  if (core.starts_with("www.")) {
    out = "W.W.W.";
    core.remove_prefix(3);
  }
  while (core.ends_with('/')) core.remove_suffix(1);
  for (size_t i = 0; i < core.size();) {
    size_t end = i + 1;
    std::string word;
    if (digit(core[i])) {
      while (end < core.size() && digit(core[end])) ++end;
      word = end - i <= 2 ? cardinal_words(core.substr(i, end - i)) : digit_words(core.substr(i, end - i));
    } else if (letter(core[i])) {
      while (end < core.size() && letter(core[end])) ++end;
      word = core.substr(i, end - i);
    } else {
      word = address_sign(core[i]);
    }
    if (!word.empty()) out += (out.empty() ? "" : " ") + word;
    i = end;
  }
  return out;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool all_letters(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

std::string_view month_name(int month) {
  return month >= 1 && month <= 12 ? kMonths[static_cast<size_t>(month - 1)] : std::string_view();
}

int month_of(std::string_view word) {
  for (size_t m = 0; m < kMonths.size(); ++m) {
    const bool sept = m == 8 && word == "Sept";
    if (word == kMonths[m] || sept || (word.size() == 3 && kMonths[m].starts_with(word)))
      return static_cast<int>(m + 1);
  }
  return 0;
}

Normalized as_words(std::string_view given) {
  Normalized out;
  std::u32string text = decode_utf8(given);
  for (char32_t& c : text) {
    if (c == U'\u2019') c = U'\'';
    const bool blank = c == U' ' || c == U'\n' || c == U'\t' || c == U'\r' || c == 0xa0;
    if (!blank && !is_letter(c) && !is_spoken_mark(c) && c != U'\'' && c != U'-') {
      std::string mark = encode_utf8(std::u32string_view(&c, 1));
      if (std::find(out.skipped.begin(), out.skipped.end(), mark) == out.skipped.end())
        out.skipped.push_back(std::move(mark));
      c = U' ';
    } else if (blank) {
      c = U' ';
    }
  }
  out.text = encode_utf8(text);
  return out;
}

}  // namespace gpukit::text::english
