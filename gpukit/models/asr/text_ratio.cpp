#include "gpukit/models/asr/text_ratio.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpukit::asr {
namespace {

constexpr size_t kLeast = 3, kLongest = 258, kWindow = 32768;  // of matches
constexpr size_t kEnd = 256, kFirstLength = 257;

/// How often each symbol of a deflate block occurs, and the bits that stand beside them.
struct Counts {
  std::array<int64_t, 286> literals{};
  std::array<int64_t, 30> distances{};
  int64_t extra_bits = 0;
};

/// Groups of values of doubling width, `per_octave` of them each, as deflate has them.
struct Coded {
  size_t symbol;
  int extra;
};
Coded code_of(size_t value, int per_octave_bits) {
  const size_t first = size_t{2} << per_octave_bits;
  if (value < first) return {value, 0};
  const int extra = std::bit_width(value) - 1 - per_octave_bits;
  return {(static_cast<size_t>(extra) << per_octave_bits) + (value >> extra), extra};
}

void count_match(Counts& counts, size_t length, size_t distance) {
  const Coded l = length == kLongest ? Coded{28, 0} : code_of(length - kLeast, 2);
  const Coded d = code_of(distance - 1, 1);
  ++counts.literals[kFirstLength + l.symbol];
  ++counts.distances[d.symbol];
  counts.extra_bits += l.extra + d.extra;
}

/// The longest earlier match at `at`, the nearest of equal ones.
std::pair<size_t, size_t> find_match(std::string_view text, size_t at) {
  size_t best = 0, distance = 0;
  const size_t most = std::min(kLongest, text.size() - at);
  for (size_t from = at; most >= kLeast && from-- > 0 && at - from <= kWindow && best < most;) {
    size_t length = 0;
    while (length < most && text[from + length] == text[at + length]) ++length;
    if (length > best) best = length, distance = at - from;
  }
  return {best, distance};
}

Counts parse(std::string_view text) {
  Counts counts;
  for (size_t at = 0; at < text.size();) {
    const auto [length, distance] = find_match(text, at);
    // A longer match that begins one byte later wins, as zlib has it.
    if (length < kLeast || (at + 1 < text.size() && find_match(text, at + 1).first > length)) {
      ++counts.literals[static_cast<unsigned char>(text[at++])];
    } else {
      count_match(counts, length, distance);
      at += length;
    }
  }
  ++counts.literals[kEnd];
  return counts;
}

double fixed_bits(const Counts& counts) {
  double bits = 3 + static_cast<double>(counts.extra_bits);
  for (size_t i = 0; i < counts.literals.size(); ++i)
    bits += static_cast<double>(counts.literals[i]) * (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8);
  for (const int64_t n : counts.distances) bits += 5.0 * static_cast<double>(n);
  return bits;
}

/// Codes made for the text: entropy, with the loss of whole bits and the header that names the code lengths.
double dynamic_bits(const Counts& counts) {
  double bits = 3 + 14 + 40 + static_cast<double>(counts.extra_bits);
  const auto add = [&](const auto& table) {
    int64_t sum = 0;
    for (const int64_t n : table) sum += n;
    for (const int64_t n : table)
      if (n > 0)
        bits += static_cast<double>(n) * (std::log2(static_cast<double>(sum) / static_cast<double>(n)) + 0.03) + 5;
  };
  add(counts.literals);
  add(counts.distances);
  return bits;
}

}  // namespace

double compression_ratio(std::string_view text) {
  if (text.empty()) return 1;
  const Counts counts = parse(text);
  const double bytes = 6 + std::ceil(std::min(fixed_bits(counts), dynamic_bits(counts)) / 8);
  return static_cast<double>(text.size()) / bytes;
}

}  // namespace gpukit::asr
