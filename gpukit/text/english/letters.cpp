#include "gpukit/text/english/letters.h"

#include <array>

namespace gpukit::text::english {

std::u32string decode_utf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
    const unsigned char lead = byte(i);
    const int extra = lead < 0x80 ? 0 : lead >= 0xf0 && lead < 0xf8 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : -1;
    char32_t code = extra <= 0 ? lead : lead & (0x3f >> extra);
    bool valid = extra >= 0 && lead < 0xf8 && i + static_cast<size_t>(extra) < text.size();
    for (int k = 1; valid && k <= extra; ++k) {
      valid = (byte(i + static_cast<size_t>(k)) & 0xc0) == 0x80;
      code = (code << 6) | (byte(i + static_cast<size_t>(k)) & 0x3f);
    }
    constexpr char32_t kLowest[] = {0, 0x80, 0x800, 0x10000};
    valid = valid && code >= kLowest[extra] && code <= 0x10ffff && (code < 0xd800 || code >= 0xe000);
    out.push_back(valid ? code : U'\ufffd');
    i += valid ? static_cast<size_t>(extra) + 1 : 1;
  }
  return out;
}

std::string encode_utf8(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c < 0x80) {
      out += static_cast<char>(c);
      continue;
    }
    const int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLead[extra] | (c >> (6 * extra)));
    for (int k = extra - 1; k >= 0; --k) out += static_cast<char>(0x80 | ((c >> (6 * k)) & 0x3f));
  }
  return out;
}

std::u32string_view fold_accent(char32_t c) {
  if ((c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z')) {
    static constexpr std::u32string_view kPlain = U"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    return kPlain.substr(c >= U'a' ? 26 + (c - U'a') : c - U'A', 1);
  }
  // U+00C0 to U+017F; a blank where there is no letter.
  static constexpr std::u32string_view kLatin =
      U"AAAAAA CEEEEIIIIDNOOOOO OUUUUY  aaaaaa ceeeeiiiidnooooo ouuuuy y"
      U"AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIi  JjKkkLlLlLlLlLlNnNnNnnNnOoOoOo  RrRrRrSsSsSsSsTtTtTt"
      U"UuUuUuUuUuUuWwYyYZzZzZzs";
  switch (c) {
    case U'\u00c6': return U"Ae";
    case U'\u00e6': return U"ae";
    case U'\u00de': return U"Th";
    case U'\u00fe': return U"th";
    case U'\u00df': return U"ss";
    case U'\u0132': return U"Ij";
    case U'\u0133': return U"ij";
    case U'\u0152': return U"Oe";
    case U'\u0153': return U"oe";
    default: break;
  }
  if (c < 0xc0 || c > 0x17f) return {};
  const std::u32string_view plain = kLatin.substr(c - 0xc0, 1);
  return plain == U" " ? std::u32string_view() : plain;
}

bool is_letter(char32_t c) { return !fold_accent(c).empty(); }

bool is_upper(char32_t c) {
  const std::u32string_view plain = fold_accent(c);
  return !plain.empty() && plain[0] >= U'A' && plain[0] <= U'Z';
}

char32_t to_lower(char32_t c) {
  if (!is_upper(c)) return c;
  if (c < 0x100) return c + 32;
  return c == U'\u0178' ? U'\u00ff' : c + 1;
}

char32_t to_upper(char32_t c) {
  if (c >= U'a' && c <= U'z') return c - 32;
  if (c >= 0xe0 && c <= 0xfe && c != 0xf7) return c - 32;
  return c;
}

std::u32string lower(std::u32string_view text) {
  std::u32string out(text);
  for (char32_t& c : out) c = to_lower(c);
  return out;
}

std::u32string fold(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) {
    const std::u32string_view plain = fold_accent(c);
    if (plain.empty())
      out += c;
    else
      out += plain;
  }
  return out;
}

std::u32string ipa(std::string_view ascii) {
  static constexpr std::array<char32_t, 128> kSounds = [] {
    std::array<char32_t, 128> table{};
    for (char32_t c = 0; c < 128; ++c) table[c] = c;
    table['&'] = U'\u00e6', table['a'] = U'\u0251', table['c'] = U'\u0254', table['@'] = U'\u0259';
    table['E'] = U'\u025b', table['3'] = U'\u025c', table['1'] = U'\u026a', table['U'] = U'\u028a';
    table['V'] = U'\u028c', table['%'] = U'\u1d7b', table['^'] = U'\u1d4a', table['r'] = U'\u0279';
    table['g'] = U'\u0261', table['N'] = U'\u014b', table['S'] = U'\u0283', table['Z'] = U'\u0292';
    table['C'] = U'\u02a7', table['J'] = U'\u02a4', table['D'] = U'\u00f0', table['H'] = U'\u03b8';
    table['R'] = U'\u027e', table['\''] = kPrimary, table[','] = kSecondary;
    return table;
  }();
  std::u32string out;
  for (const char c : ascii) out += kSounds[static_cast<unsigned char>(c) & 127];
  return out;
}

bool is_vowel_sound(char32_t c) {
  static constexpr std::u32string_view kVowels =
      U"AIOQWYaiu\u00e6\u0251\u0252\u0254\u0259\u025b\u025c\u026a\u028a\u028c\u1d7b";
  return kVowels.find(c) != kVowels.npos;
}

bool is_consonant_sound(char32_t c) {
  static constexpr std::u32string_view kConsonants =
      U"bdfhjklmnpstvwz\u00f0\u014b\u0261\u0279\u027e\u0283\u0292\u02a4\u02a7\u03b8";
  return kConsonants.find(c) != kConsonants.npos;
}

bool is_pause(char32_t c) {
  static constexpr std::u32string_view kPauses = U";:,.!?\u2014\u2026";
  return kPauses.find(c) != kPauses.npos;
}

bool is_spoken_mark(char32_t c) {
  static constexpr std::u32string_view kMarks = U"()\u201c\u201d";
  return is_pause(c) || kMarks.find(c) != kMarks.npos;
}

}  // namespace gpukit::text::english
