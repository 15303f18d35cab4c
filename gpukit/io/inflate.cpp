#include <array>

#include "gpukit/io/zip.h"

namespace gpukit::io {

namespace {

constexpr int kMaxBits = 15;

/// Bits, lowest first. Behind the end come zeros, and `overrun`.
class Bits {
 public:
  explicit Bits(std::span<const std::byte> bytes) : bytes_(bytes) {}
  uint32_t take(int count) {
    while (held_ < count) {
      if (next_ < bytes_.size())
        word_ |= static_cast<uint64_t>(bytes_[next_++]) << held_;
      else
        overrun_ = true;
      held_ += 8;
    }
    const auto value = static_cast<uint32_t>(word_ & ((uint64_t{1} << count) - 1));
    word_ >>= count;
    held_ -= count;
    return value;
  }
  void to_byte() { take(held_ & 7); }
  bool overrun() const { return overrun_; }

 private:
  std::span<const std::byte> bytes_;
  size_t next_ = 0;
  uint64_t word_ = 0;
  int held_ = 0;
  bool overrun_ = false;
};

/// A canonical prefix code: symbols in the order of their codes, and how many there are of each length.
struct Code {
  std::array<uint16_t, kMaxBits + 1> count{};
  std::array<uint16_t, 288> symbols{};

  /// False when the lengths claim more codes than there are.
  bool build(std::span<const uint8_t> lengths) {
    count = {};
    for (uint8_t length : lengths) ++count[length];
    count[0] = 0;
    int left = 1;
    std::array<uint16_t, kMaxBits + 2> first{};
    for (size_t length = 1; length <= kMaxBits; ++length) {
      left = 2 * left - count[length];
      if (left < 0) return false;
      first[length + 1] = static_cast<uint16_t>(first[length] + count[length]);
    }
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol)
      if (lengths[symbol] != 0) symbols[first[lengths[symbol]]++] = static_cast<uint16_t>(symbol);
    return true;
  }

  /// -1: no such code.
  int read(Bits& bits) const {
    int code = 0, first = 0, index = 0;
    for (size_t length = 1; length <= kMaxBits; ++length) {
      code |= static_cast<int>(bits.take(1));
      if (code - first < count[length]) return symbols[static_cast<size_t>(index + code - first)];
      index += count[length];
      first = (first + count[length]) << 1;
      code <<= 1;
    }
    return -1;
  }
};

constexpr uint16_t kLengthBase[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                    31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
constexpr uint8_t kLengthBits[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                   2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
constexpr uint16_t kDistanceBase[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                      33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                      1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
constexpr uint8_t kDistanceBits[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                     6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};
constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};

void fixed_codes(Code& literals, Code& distances) {
  std::array<uint8_t, 288> lengths;
  for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
  literals.build(lengths);
  std::array<uint8_t, 30> fives;
  fives.fill(5);
  distances.build(fives);
}

bool read_codes(Bits& bits, Code& literals, Code& distances) {
  const size_t num_literals = bits.take(5) + 257, num_distances = bits.take(5) + 1, num_lengths = bits.take(4) + 4;
  if (num_literals > 286 || num_distances > 30) return false;
  std::array<uint8_t, 19> of_lengths{};
  for (size_t i = 0; i < num_lengths; ++i) of_lengths[kOrder[i]] = static_cast<uint8_t>(bits.take(3));
  Code code;
  if (!code.build(of_lengths)) return false;
  std::array<uint8_t, 316> lengths{};
  const size_t total = num_literals + num_distances;
  for (size_t i = 0; i < total;) {
    const int symbol = code.read(bits);
    if (symbol < 0 || bits.overrun()) return false;
    if (symbol < 16) {
      lengths[i++] = static_cast<uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const uint8_t value = symbol == 16 ? lengths[i - 1] : uint8_t{0};
    size_t repeats = symbol == 16 ? 3 + bits.take(2) : symbol == 17 ? 3 + bits.take(3) : 11 + bits.take(7);
    if (i + repeats > total) return false;
    while (repeats-- > 0) lengths[i++] = value;
  }
  const std::span<const uint8_t> all(lengths);
  return lengths[256] != 0 && literals.build(all.first(num_literals)) &&
         distances.build(all.subspan(num_literals, num_distances));
}

}  // namespace

bool inflate(std::span<const std::byte> packed, std::span<std::byte> out) {
  Bits bits(packed);
  size_t at = 0;
  for (bool last = false; !last;) {
    last = bits.take(1) != 0;
    const uint32_t kind = bits.take(2);
    if (kind == 3 || bits.overrun()) return false;
    if (kind == 0) {
      bits.to_byte();
      const uint32_t size = bits.take(16), check = bits.take(16);
      if (size != (check ^ 0xFFFFu) || size > out.size() - at) return false;
      for (uint32_t i = 0; i < size; ++i) out[at++] = static_cast<std::byte>(bits.take(8));
      if (bits.overrun()) return false;
      continue;
    }
    Code literals, distances;
    if (kind == 1)
      fixed_codes(literals, distances);
    else if (!read_codes(bits, literals, distances))
      return false;
    while (true) {
      const int symbol = literals.read(bits);
      if (symbol < 0 || symbol > 285 || bits.overrun()) return false;
      if (symbol == 256) break;
      if (symbol < 256) {
        if (at == out.size()) return false;
        out[at++] = static_cast<std::byte>(symbol);
        continue;
      }
      const size_t length = kLengthBase[symbol - 257] + bits.take(kLengthBits[symbol - 257]);
      const int code = distances.read(bits);
      if (code < 0 || code > 29) return false;
      const size_t distance = kDistanceBase[code] + bits.take(kDistanceBits[code]);
      if (distance > at || length > out.size() - at || bits.overrun()) return false;
      for (size_t i = 0; i < length; ++i, ++at) out[at] = out[at - distance];
    }
  }
  return at == out.size();
}

uint32_t crc32(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> made{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xEDB88320u : 0u);
      made[i] = value;
    }
    return made;
  }();
  uint32_t crc = 0xFFFFFFFFu;
  for (std::byte b : bytes) crc = table[(crc ^ static_cast<uint32_t>(b)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

}  // namespace gpukit::io
