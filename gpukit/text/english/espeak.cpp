#include "gpukit/text/english/espeak.h"

#include <algorithm>

#include "gpukit/text/english/letters.h"
#include "gpukit/text/english/normalize.h"

namespace gpukit::text::english {
namespace {

enum class For { both, american, british };

struct Sound {
  std::u32string_view espeak, kokoro;
  For dialect = For::both;
};

/// The first that fits is taken, so the longer ones come first.
constexpr Sound kSounds[] = {
    {U"e\u026a", U"A"},
    {U"a\u026a", U"I"},
    {U"a\u028a", U"W"},
    {U"\u0254\u026a", U"Y"},
    {U"o\u028a", U"O", For::american},
    {U"o\u028a", U"Q", For::british},
    {U"\u0259\u028a", U"O", For::american},
    {U"\u0259\u028a", U"Q", For::british},
    {U"t\u0283", U"\u02a7"},
    {U"d\u0292", U"\u02a4"},
    {U"e\u0259", U"\u025b\u02d0", For::british},
    {U"\u0259l\u0329", U"\u1d4al"},
    {U"l\u0329", U"\u1d4al"},
    {U"n\u0329", U"\u1d4an"},
    {U"m\u0329", U"\u1d4am"},
    {U"i\u0259", U"\u026a\u0259", For::british},
    {U"\u025c\u02d0\u0279", U"\u025c\u0279", For::american},
    {U"\u025c\u02d0", U"\u025c\u0279", For::american},
    {U"\u025d", U"\u025c\u0279"},
    {U"\u025a", U"\u0259\u0279"},
    {U"\u0250", U"\u0259"},
    {U"r", U"\u0279"},
    {U"g", U"\u0261"},
    {U"x", U"k"},
    {U"\u00e7", U"k"},
    {U"\u026c", U"l"},
    {U"\u026b", U"l"},
    {U"\u027e", U"T", For::american},
    {U"\u027e", U"t", For::british},
    {U"\u0294", U"t"},
    {U"o\u02d0", U"\u0254", For::american},
    {U"o\u02d0", U"\u0254\u02d0", For::british},
    {U"o", U"\u0254"},
    {U"e", U"\u025b"},
    {U"a\u02d0", U"\u0251\u02d0", For::british},
    {U"a", U"\u00e6", For::american},
    {U"\u02d0", U"", For::american},
};

/// Characters that are as they are; what is left (ties, accents, marks of the program) is dropped.
bool is_kept(char32_t c) {
  static constexpr std::u32string_view kOthers = U" \u02c8\u02cc\u02d0\u1d4a";
  return is_vowel_sound(c) || is_consonant_sound(c) || kOthers.find(c) != kOthers.npos || c == U'a';
}

bool fits(const Sound& sound, std::u32string_view ipa, size_t at, Dialect dialect) {
  const bool spoken = sound.dialect == For::both || (sound.dialect == For::british) == (dialect == Dialect::british);
  return spoken && ipa.substr(at, sound.espeak.size()) == sound.espeak;
}

/// "(en)" and other switches of language, the marks that tie two letters, and lines.
std::u32string without_marks(std::u32string_view ipa) {
  std::u32string out;
  for (size_t i = 0; i < ipa.size(); ++i) {
    const char32_t c = ipa[i];
    if (c == U'(') {
      const size_t end = ipa.find(U')', i);
      if (end != ipa.npos) i = end;
      continue;
    }
    const bool blank = c == U' ' || c == U'\n' || c == U'\r' || c == U'\t';
    if (blank && (out.empty() || out.back() == U' ')) continue;
    if (c == U'\u0361' || c == U'\u200d' || c == U'_' || c == U'^') continue;
    out += blank ? U' ' : c;
  }
  while (!out.empty() && out.back() == U' ') out.pop_back();
  return out;
}

/// "U.S." as "U S": dots between single capitals make no pause.
bool is_dot_of_initial(const std::u32string& text, size_t at) {
  const bool initial = at > 0 && is_upper(text[at - 1]) && (at == 1 || !is_letter(text[at - 2]));
  return text[at] == U'.' && initial && at + 1 < text.size() && text.find_first_not_of(U' ', at + 1) != text.npos;
}

}  // namespace

std::vector<Clause> clauses_of(std::string_view given, bool normalise, std::vector<std::string>& skipped) {
  std::vector<Clause> out;
  for (const Span& span : split_overrides(given)) {
    if (!span.phonemes.empty()) {
      out.push_back({std::string(span.phonemes), false});
      continue;
    }
    Normalized part = normalise ? normalize(span.text) : as_words(span.text);
    for (std::string& mark : part.skipped)
      if (std::find(skipped.begin(), skipped.end(), mark) == skipped.end()) skipped.push_back(std::move(mark));
    const std::u32string text = decode_utf8(part.text);
    const auto blank = [](char c) { return c == ' ' || c == '\n'; };
    if (!out.empty() && !span.text.empty() && blank(span.text.front())) out.push_back({" ", false});
    for (size_t i = 0; i < text.size();) {
      const auto mark = [&](size_t k) { return is_spoken_mark(text[k]) && !is_dot_of_initial(text, k); };
      size_t end = i;
      const bool marks = mark(i);
      const auto same = [&](size_t k) { return marks ? mark(k) || text[k] == U' ' : !mark(k); };
      while (end < text.size() && same(end)) ++end;
      std::u32string piece = text.substr(i, end - i);
      i = end;
      if (marks) {
        out.push_back({encode_utf8(piece), false});
        continue;
      }
      std::replace(piece.begin(), piece.end(), U'.', U' ');
      const bool words = std::any_of(piece.begin(), piece.end(), is_letter);
      if (words) out.push_back({encode_utf8(piece), true});
      if (words && piece.back() == U' ' && end < text.size()) out.push_back({" ", false});
      if (!words && end < text.size() && !out.empty()) out.push_back({" ", false});
    }
    if (!span.text.empty() && blank(span.text.back())) out.push_back({" ", false});
  }
  return out;
}

std::string phonemes_of_espeak(std::string_view ipa, Dialect dialect) {
  const std::u32string codes = without_marks(decode_utf8(ipa));
  std::u32string out;
  for (size_t at = 0; at < codes.size();) {
    const auto* sound = std::find_if(std::begin(kSounds), std::end(kSounds),
                                     [&](const Sound& s) { return fits(s, codes, at, dialect); });
    if (sound != std::end(kSounds)) {
      out += sound->kokoro;
      at += sound->espeak.size();
      continue;
    }
    if (is_kept(codes[at])) out += codes[at];
    ++at;
  }
  return encode_utf8(out);
}

}  // namespace gpukit::text::english
