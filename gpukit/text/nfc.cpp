#include "gpukit/text/nfc.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "gpukit/text/utf8.h"

namespace gpukit::text {
namespace {

// Hangul syllables are computed: leading consonant, vowel, trailing consonant or none.
constexpr char32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11a7;
constexpr char32_t kNumLeads = 19, kNumVowels = 21, kNumTrails = 28,
                   kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

uint32_t combining_class(char32_t point) {
  if (point < 0x300) return 0;
  const auto after = std::ranges::upper_bound(kCombining, point, {}, &CombiningRange::first);
  if (after == kCombining.begin() || point > std::prev(after)->last) return 0;
  return std::prev(after)->combining_class;
}

const Decomposition* find_whole(std::span<const Decomposition> table, char32_t point) {
  const auto found = std::ranges::lower_bound(table, point, {}, &Decomposition::whole);
  return found != table.end() && found->whole == point ? &*found : nullptr;
}

void append_decomposed(std::u32string& out, char32_t point) {
  if (point < 0xc0) {
    out += point;
  } else if (point >= kSyllable && point < kSyllable + kNumSyllables) {
    const char32_t index = point - kSyllable;
    out += kLead + index / (kNumVowels * kNumTrails);
    out += kVowel + index / kNumTrails % kNumVowels;
    if (index % kNumTrails != 0) out += kTrail + index % kNumTrails;
  } else {
    const Decomposition* parts = find_whole(kComposed, point);
    if (parts == nullptr) parts = find_whole(kSplitOnly, point);
    if (parts == nullptr) {
      out += point;
    } else {
      append_decomposed(out, parts->first);
      if (parts->second != 0) append_decomposed(out, parts->second);
    }
  }
}

/// 0: the two do not compose.
char32_t composed(char32_t first, char32_t second) {
  if (first >= kLead && first < kLead + kNumLeads && second >= kVowel && second < kVowel + kNumVowels)
    return kSyllable + ((first - kLead) * kNumVowels + (second - kVowel)) * kNumTrails;
  if (first >= kSyllable && first < kSyllable + kNumSyllables && (first - kSyllable) % kNumTrails == 0 &&
      second > kTrail && second < kTrail + kNumTrails)
    return first + (second - kTrail);
  static const auto pairs = [] {
    std::unordered_map<uint64_t, char32_t> map;
    for (const Decomposition& d : kComposed) map.emplace(uint64_t{d.first} << 32 | d.second, d.whole);
    return map;
  }();
  const auto found = pairs.find(uint64_t{first} << 32 | second);
  return found == pairs.end() ? 0 : found->second;
}

/// Marks after a starter in the order of their classes; marks of one class stay as they are.
void order_marks(std::u32string& text) {
  std::vector<std::pair<uint32_t, char32_t>> marks;
  for (size_t at = 0; at < text.size();) {
    marks.clear();
    size_t end = at;
    for (; end < text.size(); ++end) {
      const uint32_t kind = combining_class(text[end]);
      if (kind == 0) break;
      marks.emplace_back(kind, text[end]);
    }
    std::ranges::stable_sort(marks, {}, &std::pair<uint32_t, char32_t>::first);
    for (size_t i = 0; i < marks.size(); ++i) text[at + i] = marks[i].second;
    at = end + 1;
  }
}

void compose(std::u32string& text) {
  size_t length = 0;
  size_t starter = std::u32string::npos;
  uint32_t last_class = 0;  // of what was kept since the starter
  for (const char32_t point : text) {
    const uint32_t kind = combining_class(point);
    const bool beside = starter != std::u32string::npos && length == starter + 1;
    if (starter != std::u32string::npos && (beside || (last_class < kind && last_class != 0))) {
      if (const char32_t whole = composed(text[starter], point); whole != 0) {
        text[starter] = whole;
        continue;
      }
    }
    if (kind == 0) starter = length;
    last_class = kind;
    text[length++] = point;
  }
  text.resize(length);
}

}  // namespace

std::string nfc(std::string_view text) {
  // Below U+0300, whose first byte is 0xcc, every text is composed.
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xcc; }))
    return std::string(text);
  std::u32string points;
  points.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = known_point_at(text, at);
    append_decomposed(points, point.value);
    at += point.length;
  }
  order_marks(points);
  compose(points);
  std::string out;
  out.reserve(text.size());
  for (const char32_t point : points) append_point(out, point);
  return out;
}

}  // namespace gpukit::text
