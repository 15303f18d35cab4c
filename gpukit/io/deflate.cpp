// Packs bytes as raw deflate: matches found by hash chains, one Huffman code for each block. The same bytes in, the
// same bytes out.
#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "gpukit/io/zip.h"

namespace gpukit::io {

namespace {

constexpr size_t kWindow = 32768, kLeastMatch = 3, kLongestMatch = 258, kTokensPerBlock = 1 << 15, kHashBits = 15;
constexpr int kMostTries = 32, kEndOfBlock = 256, kLiterals = 286, kDistances = 30;

/// A literal, or a match: length << 16 | distance.
using Token = uint32_t;
constexpr uint32_t kMatch = 1u << 31;

struct Range {
  uint16_t base;
  uint8_t bits;
};
constexpr Range kLengthCodes[] = {{3, 0},   {4, 0},   {5, 0},   {6, 0},   {7, 0},  {8, 0},  {9, 0},  {10, 0},
                                  {11, 1},  {13, 1},  {15, 1},  {17, 1},  {19, 2}, {23, 2}, {27, 2}, {31, 2},
                                  {35, 3},  {43, 3},  {51, 3},  {59, 3},  {67, 4}, {83, 4}, {99, 4}, {115, 4},
                                  {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}};
constexpr Range kDistanceCodes[] = {{1, 0},     {2, 0},     {3, 0},     {4, 0},      {5, 1},      {7, 1},
                                    {9, 2},     {13, 2},    {17, 3},    {25, 3},     {33, 4},     {49, 4},
                                    {65, 5},    {97, 5},    {129, 6},   {193, 6},    {257, 7},    {385, 7},
                                    {513, 8},   {769, 8},   {1025, 9},  {1537, 9},   {2049, 10},  {3073, 10},
                                    {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13}, {24577, 13}};

template <size_t N>
int code_of(const Range (&codes)[N], uint32_t value) {
  const auto* above = std::upper_bound(codes, codes + N, value, [](uint32_t v, const Range& r) { return v < r.base; });
  return static_cast<int>(above - codes) - 1;
}

class BitWriter {
 public:
  void put(uint32_t value, int count) {
    held_ |= static_cast<uint64_t>(value) << filled_;
    filled_ += count;
    while (filled_ >= 8) {
      bytes_.push_back(static_cast<char>(held_ & 0xff));
      held_ >>= 8;
      filled_ -= 8;
    }
  }
  std::string finish() {
    if (filled_ > 0) bytes_.push_back(static_cast<char>(held_ & 0xff));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  uint64_t held_ = 0;
  int filled_ = 0;
};

/// Lengths of a Huffman code of at most `limit` bits: counts are halved until it is that flat.
std::vector<int> code_lengths(std::vector<uint32_t> counts, int limit) {
  const size_t n = counts.size();
  for (;;) {
    using Node = std::pair<uint64_t, size_t>;
    std::priority_queue<Node, std::vector<Node>, std::greater<>> open;
    std::vector<size_t> parent(2 * n + 1, 0);
    std::vector<int> lengths(n, 0);
    for (size_t i = 0; i < n; ++i)
      if (counts[i] > 0) open.emplace(counts[i], i);
    if (open.size() < 2) {
      lengths[open.empty() ? 0 : open.top().second] = 1;
      return lengths;
    }
    size_t next = n;
    while (open.size() > 1) {
      const Node a = open.top();
      open.pop();
      const Node b = open.top();
      open.pop();
      parent[a.second] = parent[b.second] = next;
      open.emplace(a.first + b.first, next++);
    }
    const size_t root = next - 1;
    int longest = 0;
    for (size_t i = 0; i < n; ++i) {
      if (counts[i] == 0) continue;
      for (size_t at = i; at != root; at = parent[at]) ++lengths[i];
      longest = std::max(longest, lengths[i]);
    }
    if (longest <= limit) return lengths;
    for (uint32_t& count : counts) count = (count + 1) / 2;
  }
}

/// The canonical code of those lengths, bits turned as deflate sends them.
std::vector<uint32_t> codes_of(const std::vector<int>& lengths) {
  std::array<uint32_t, 17> first{}, count{};
  uint32_t code = 0;
  for (int length : lengths)
    if (length > 0) ++count[static_cast<size_t>(length)];
  for (size_t bits = 1; bits < 17; ++bits) {
    code = (code + count[bits - 1]) << 1;
    first[bits] = code;
  }
  std::vector<uint32_t> codes(lengths.size(), 0);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto length = static_cast<size_t>(lengths[i]);
    if (length == 0) continue;
    uint32_t value = first[length]++;
    for (size_t bit = 0; bit < length; ++bit, value >>= 1) codes[i] = codes[i] << 1 | (value & 1);
  }
  return codes;
}

std::vector<Token> find_matches(std::span<const std::byte> bytes) {
  std::vector<Token> tokens;
  constexpr size_t kNone = ~size_t{0};
  std::vector<size_t> head(size_t{1} << kHashBits, kNone), before(kWindow, kNone);
  const auto at = [&](size_t i) { return static_cast<uint32_t>(bytes[i]); };
  const auto enter = [&](size_t i) {
    if (i + kLeastMatch > bytes.size()) return kNone;
    const uint32_t three = at(i) | at(i + 1) << 8 | at(i + 2) << 16, key = three * 2654435761u >> (32 - kHashBits);
    const size_t last = std::exchange(head[key], i);
    before[i % kWindow] = last;
    return last;
  };
  for (size_t i = 0; i < bytes.size();) {
    size_t candidate = enter(i), length = kLeastMatch - 1, distance = 0;
    const size_t most = std::min(kLongestMatch, bytes.size() - i);
    for (int tries = 0; tries < kMostTries && candidate != kNone && i - candidate <= kWindow - 1; ++tries) {
      size_t same = 0;
      while (same < most && bytes[candidate + same] == bytes[i + same]) ++same;
      if (same > length) {
        length = same;
        distance = i - candidate;
      }
      const size_t earlier = before[candidate % kWindow];
      if (earlier == kNone || earlier >= candidate) break;
      candidate = earlier;
    }
    if (distance == 0) {
      tokens.push_back(at(i++));
      continue;
    }
    tokens.push_back(kMatch | static_cast<uint32_t>(length) << 16 | static_cast<uint32_t>(distance));
    for (size_t end = i + length; ++i < end;) enter(i);
  }
  return tokens;
}

void write_block(BitWriter& to, std::span<const Token> tokens, bool last) {
  std::vector<uint32_t> literals(kLiterals, 0), distances(kDistances, 0);
  literals[kEndOfBlock] = 1;
  const auto length_of = [](Token t) { return (t & ~kMatch) >> 16; };
  const auto distance_of = [](Token t) { return t & 0xffff; };
  for (Token t : tokens) {
    if ((t & kMatch) == 0) {
      ++literals[t];
      continue;
    }
    ++literals[static_cast<size_t>(257 + code_of(kLengthCodes, length_of(t)))];
    ++distances[static_cast<size_t>(code_of(kDistanceCodes, distance_of(t)))];
  }
  const std::vector<int> literal_lengths = code_lengths(literals, 15), distance_lengths = code_lengths(distances, 15);
  std::vector<uint32_t> length_counts(19, 0);
  for (const auto* lengths : {&literal_lengths, &distance_lengths})
    for (int length : *lengths) ++length_counts[static_cast<size_t>(length)];
  const std::vector<int> meta_lengths = code_lengths(length_counts, 7);
  const std::vector<uint32_t> meta = codes_of(meta_lengths), literal = codes_of(literal_lengths),
                              far = codes_of(distance_lengths);
  to.put(last ? 1 : 0, 1);
  to.put(2, 2);  // a code of its own
  to.put(kLiterals - 257, 5);
  to.put(kDistances - 1, 5);
  to.put(19 - 4, 4);
  for (size_t i : {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15})
    to.put(static_cast<uint32_t>(meta_lengths[i]), 3);
  for (const auto* lengths : {&literal_lengths, &distance_lengths})
    for (int length : *lengths) to.put(meta[static_cast<size_t>(length)], meta_lengths[static_cast<size_t>(length)]);
  const auto put = [&](const std::vector<uint32_t>& codes, const std::vector<int>& lengths, int symbol) {
    to.put(codes[static_cast<size_t>(symbol)], lengths[static_cast<size_t>(symbol)]);
  };
  for (Token t : tokens) {
    if ((t & kMatch) == 0) {
      put(literal, literal_lengths, static_cast<int>(t));
      continue;
    }
    const int length = code_of(kLengthCodes, length_of(t)), distance = code_of(kDistanceCodes, distance_of(t));
    put(literal, literal_lengths, 257 + length);
    to.put(length_of(t) - kLengthCodes[length].base, kLengthCodes[length].bits);
    put(far, distance_lengths, distance);
    to.put(distance_of(t) - kDistanceCodes[distance].base, kDistanceCodes[distance].bits);
  }
  put(literal, literal_lengths, kEndOfBlock);
}

}  // namespace

std::string deflate(std::span<const std::byte> bytes) {
  const std::vector<Token> tokens = find_matches(bytes);
  BitWriter to;
  size_t begin = 0;
  do {
    const size_t count = std::min(kTokensPerBlock, tokens.size() - begin);
    write_block(to, std::span(tokens).subspan(begin, count), begin + count == tokens.size());
    begin += count;
  } while (begin < tokens.size());
  return to.finish();
}

}  // namespace gpukit::io
