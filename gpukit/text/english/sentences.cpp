#include <algorithm>
#include <array>

#include "gpukit/text/english/letters.h"
#include "gpukit/text/english/normalize.h"
#include "gpukit/text/english/phonemizer.h"

namespace gpukit::text::english {
namespace {

bool is_blank(char32_t c) { return c == U' ' || c == U'\n' || c == U'\t' || c == U'\r' || c == 0xa0; }
bool is_end_mark(char32_t c) { return c == U'.' || c == U'!' || c == U'?' || c == U'\u2026'; }

bool is_closing(char32_t c) {
  static constexpr std::u32string_view kClosing = U")]}\"'\u201d\u2019\u00bb";
  return kClosing.find(c) != kClosing.npos;
}

/// The dot after `text[end]` belongs to an abbreviation that does not end a sentence, or to an initial.
bool is_abbreviation(std::u32string_view text, size_t end, char32_t follows) {
  size_t start = end;
  while (start > 0 && (is_letter(text[start - 1]) || text[start - 1] == U'.')) --start;
  const std::string word = ascii_lower(encode_utf8(text.substr(start, end - start)));
  static constexpr std::array<std::string_view, 31> kBeforeNames = {
      "mr",  "mrs", "ms",  "dr",     "prof", "st",   "gen",  "col", "capt", "lt", "sgt",
      "rev", "hon", "gov", "sen",    "rep",  "mt",   "ft",   "fig", "vol",  "no", "vs",
      "e.g", "i.e", "eg",  "approx", "pp",   "pres", "dept", "est", "ie"};
  if (std::find(kBeforeNames.begin(), kBeforeNames.end(), word) != kBeforeNames.end()) return true;
  if (word.size() == 1) return word != "i" && is_upper(text[start]);
  const bool initials = word.find('.') != word.npos;
  if (is_digit(follows) && start < end && is_upper(text[start]) &&
      month_of(encode_utf8(text.substr(start, end - start))))
    return true;
  return initials && !is_upper(follows);
}

std::string trimmed(std::u32string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return encode_utf8(text);
}

}  // namespace

std::vector<std::string> split_sentences(std::string_view given) {
  const std::u32string text = decode_utf8(given);
  std::vector<std::string> out;
  size_t start = 0;
  const auto end_at = [&](size_t end) {
    std::string sentence = trimmed(std::u32string_view(text).substr(start, end - start));
    if (!sentence.empty()) out.push_back(std::move(sentence));
    start = end;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == U'\n') {
      size_t next = i;
      int breaks = 0;
      while (next < text.size() && is_blank(text[next])) breaks += text[next++] == U'\n' ? 1 : 0;
      const bool wrapped = breaks == 1 && next < text.size() && is_letter(text[next]) && !is_upper(text[next]);
      if (!wrapped) end_at(next);
      i = next - 1;
      continue;
    }
    if (!is_end_mark(text[i])) continue;
    size_t end = i + 1;
    while (end < text.size() && is_end_mark(text[end])) ++end;
    while (end < text.size() && is_closing(text[end])) ++end;
    size_t next = end;
    while (next < text.size() && is_blank(text[next])) ++next;
    if (next == end && next < text.size()) {
      i = end - 1;
      continue;
    }
    const bool lower_follows = next < text.size() && is_letter(text[next]) && !is_upper(text[next]);
    const bool lone_dot = text[i] == U'.' && end == i + 1;
    if (!lower_follows && !(lone_dot && next < text.size() && is_abbreviation(text, i, text[next]))) end_at(end);
    i = end - 1;
  }
  end_at(text.size());
  return out;
}

std::vector<std::string> cut_phonemes(std::string_view phonemes, int64_t limit) {
  static constexpr std::u32string_view kPlaces[] = {U".!?\u2026", U":;", U",\u2014", U" "};
  const std::u32string text = decode_utf8(phonemes);
  const size_t most = static_cast<size_t>(std::max<int64_t>(limit, 1));
  std::vector<std::string> out;
  size_t start = 0;
  const auto take = [&](size_t end) {
    std::string piece = trimmed(std::u32string_view(text).substr(start, end - start));
    if (!piece.empty()) out.push_back(std::move(piece));
    start = end;
  };
  while (text.size() - start > most) {
    size_t cut = start + most;
    for (const std::u32string_view marks : kPlaces) {
      const size_t found = std::u32string_view(text).substr(start, most).find_last_of(marks);
      if (found == text.npos) continue;
      size_t end = start + found + 1;
      while (end < start + most && is_closing(text[end])) ++end;
      cut = end;
      break;
    }
    take(cut);
    while (start < text.size() && is_blank(text[start])) ++start;
  }
  take(text.size());
  return out;
}

std::vector<std::string> cut_for_streaming(std::string_view phonemes, int64_t limit) {
  constexpr size_t kFirst = 12, kOthers = 60;  // code points of a piece at least
  const std::u32string text = decode_utf8(phonemes);
  std::vector<std::string> out;
  size_t start = 0;
  const auto take = [&](size_t end) {
    for (std::string& piece : cut_phonemes(encode_utf8(std::u32string_view(text).substr(start, end - start)), limit))
      out.push_back(std::move(piece));
    start = end;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    size_t end = i + 1;
    while (end < text.size() && is_closing(text[end])) ++end;
    if (end < text.size() && !is_blank(text[end])) continue;
    const size_t length = end - start;
    if (out.empty() ? is_pause(text[i]) && length >= kFirst : is_end_mark(text[i]) && length >= kOthers) take(end);
  }
  if (start < text.size()) take(text.size());
  return out;
}

}  // namespace gpukit::text::english
