#include "gpukit/text/english/clean.h"

#include <algorithm>

#include "gpukit/text/english/letters.h"

namespace gpukit::text::english {
namespace {

constexpr std::u32string_view kNotThis = U"\x01";  // no replacement is known

std::u32string_view replacement(char32_t c) {
  switch (c) {
    case U'\u2018':
    case U'\u2019':
    case U'\u201b':
    case U'\u02bc':
    case U'\u2032': return U"'";
    case U'\u201e':
    case U'\u201f':
    case U'\u00ab': return U"\u201c";
    case U'\u00bb':
    case U'\u2033': return U"\u201d";
    case U'\u2010':
    case U'\u2011':
    case U'\u2212': return U"-";
    case U'\u2014':
    case U'\u2015': return U" \u2014 ";
    case U'\u00bc': return U" 1/4";
    case U'\u00bd': return U" 1/2";
    case U'\u00be': return U" 3/4";
    case U'\u2153': return U" 1/3";
    case U'\u2154': return U" 2/3";
    case U'\u00d7': return U"x";
    case U'\u00f7': return U" divided by ";
    case U'\u00b1': return U" plus or minus ";
    case U'\u00b2': return U" squared ";
    case U'\u00b3': return U" cubed ";
    case U'\u00b5':
    case U'\u03bc': return U"u";
    case U'\u00a7': return U" section ";
    case U'\u00a9': return U" copyright ";
    case U'\u2192': return U" to ";
    case U'\u2248': return U" about ";
    case U'\u2260': return U" is not equal to ";
    case U'\u2264': return U" is at most ";
    case U'\u2265': return U" is at least ";
    case U'\u221e': return U" infinity ";
    case U'\u03c0': return U" pi ";
    case U'\u00a1':
    case U'\u00bf':
    case U'\u00ae':
    case U'\u2122':
    case U'\ufe0f':
    case U'\u00ad':
    case U'\ufeff': return U"";
    case U'\u2022':
    case U'\u00b7': return U", ";
    default: break;
  }
  if (c >= 0x200b && c <= 0x200f) return U"";  // no width
  if (c >= 0x300 && c <= 0x36f) return U"";    // accents of their own
  if (c < 0x20 || (c >= 0x7f && c <= 0xa0) || (c >= 0x2000 && c <= 0x200a) || c == 0x202f || c == 0x3000) return U" ";
  return kNotThis;
}

bool is_kept(char32_t c) {
  static constexpr std::u32string_view kSigns = U"\u00b0\u00a2\u00a3\u00a5\u20ac\u201c\u201d\u2026";
  return c == U'\n' || (c >= 0x20 && c < 0x7f) || is_letter(c) || kSigns.find(c) != kSigns.npos;
}

}  // namespace

std::u32string clean(std::string_view text, std::vector<std::string>& skipped) {
  std::u32string out;
  const std::u32string codes = decode_utf8(text);
  for (size_t i = 0; i < codes.size(); ++i) {
    char32_t c = codes[i];
    if (c >= 0xff01 && c <= 0xff5e) c -= 0xfee0;  // of full width
    if (c == U'\u2013') {
      static constexpr std::u32string_view kMoney = U"$\u00a3\u00a5\u20ac", kUnits = U"%\u00b0\u00a3\u00a5\u20ac$";
      const bool left = i > 0 && (is_digit(codes[i - 1]) || kUnits.find(codes[i - 1]) != kUnits.npos);
      const bool between =
          left && i + 1 < codes.size() && (is_digit(codes[i + 1]) || kMoney.find(codes[i + 1]) != kMoney.npos);
      out += between ? std::u32string_view(U"-") : std::u32string_view(U" \u2014 ");
    } else if (is_kept(c)) {
      out += c;
    } else if (const std::u32string_view other = replacement(c); other != kNotThis) {
      out += other;
    } else {
      out += U' ';
      const std::string shown = encode_utf8(std::u32string_view(&c, 1));
      if (std::find(skipped.begin(), skipped.end(), shown) == skipped.end() && skipped.size() < 64)
        skipped.push_back(shown);
    }
  }
  return out;
}

}  // namespace gpukit::text::english
