// An adaptive binary range coder, and the small models that are built from its bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpukit::jit {

inline constexpr int kProbBits = 11;
inline constexpr int kAdapt = 5;
inline constexpr uint32_t kTop = 1u << 24;

struct Prob {
  uint16_t value = 1u << (kProbBits - 1);
};

/// A number in [0, 2^Bits), most significant bit first, each bit in the context of those before it.
template <int Bits>
struct Tree {
  Prob probs[1u << Bits];
};

/// A number of any size: how many bits it has, then the bits; the lowest four are modelled, the middle ones are not.
struct Number {
  Tree<6> length;
  Tree<4> low;
};

class Encoder {
 public:
  void bit(Prob& prob, int value) {
    const uint32_t bound = (range_ >> kProbBits) * prob.value;
    if (value == 0) {
      range_ = bound;
      prob.value = static_cast<uint16_t>(prob.value + (((1u << kProbBits) - prob.value) >> kAdapt));
    } else {
      low_ += bound;
      range_ -= bound;
      prob.value = static_cast<uint16_t>(prob.value - (prob.value >> kAdapt));
    }
    while (range_ < kTop) {
      range_ <<= 8;
      shift();
    }
  }
  void direct(uint32_t value, int bits) {
    for (int i = bits - 1; i >= 0; --i) {
      range_ >>= 1;
      if ((value >> i & 1u) != 0) low_ += range_;
      while (range_ < kTop) {
        range_ <<= 8;
        shift();
      }
    }
  }
  std::string finish() {
    for (int i = 0; i < 5; ++i) shift();
    return std::move(out_);
  }

 private:
  /// Gives out the top byte; a carry may still reach the bytes held back.
  void shift() {
    if (low_ < 0xff000000u || low_ >= (uint64_t{1} << 32)) {
      const auto carry = static_cast<uint8_t>(low_ >> 32);
      if (started_) out_ += static_cast<char>(cache_ + carry);
      for (; held_ != 0; --held_) out_ += static_cast<char>(0xff + carry);
      started_ = true;
      cache_ = static_cast<uint8_t>(low_ >> 24);
    } else {
      ++held_;
    }
    low_ = (low_ & 0x00ffffffu) << 8;
  }
  uint64_t low_ = 0;
  uint32_t range_ = 0xffffffffu;
  uint8_t cache_ = 0;
  bool started_ = false;
  std::string out_;
  uint64_t held_ = 0;
};

class Decoder {
 public:
  explicit Decoder(std::string_view in) : in_(in) {
    for (int i = 0; i < 4; ++i) code_ = code_ << 8 | next();
  }
  int bit(Prob& prob) {
    const uint32_t bound = (range_ >> kProbBits) * prob.value;
    int value = 0;
    if (code_ < bound) {
      range_ = bound;
      prob.value = static_cast<uint16_t>(prob.value + (((1u << kProbBits) - prob.value) >> kAdapt));
    } else {
      code_ -= bound;
      range_ -= bound;
      prob.value = static_cast<uint16_t>(prob.value - (prob.value >> kAdapt));
      value = 1;
    }
    while (range_ < kTop) {
      range_ <<= 8;
      code_ = code_ << 8 | next();
    }
    return value;
  }
  uint32_t direct(int bits) {
    uint32_t value = 0;
    for (int i = 0; i < bits; ++i) {
      range_ >>= 1;
      const uint32_t one = code_ >= range_ ? 1u : 0u;
      if (one != 0) code_ -= range_;
      value = value << 1 | one;
      while (range_ < kTop) {
        range_ <<= 8;
        code_ = code_ << 8 | next();
      }
    }
    return value;
  }

 private:
  uint8_t next() { return at_ < in_.size() ? static_cast<uint8_t>(in_[at_++]) : uint8_t{0}; }
  std::string_view in_;
  size_t at_ = 0;
  uint32_t code_ = 0;
  uint32_t range_ = 0xffffffffu;
};

template <int Bits>
inline void put(Encoder& out, Tree<Bits>& tree, uint32_t value) {
  uint32_t node = 1;
  for (int i = Bits - 1; i >= 0; --i) {
    const int b = static_cast<int>(value >> i & 1u);
    out.bit(tree.probs[node], b);
    node = node << 1 | static_cast<uint32_t>(b);
  }
}

template <int Bits>
inline uint32_t get(Decoder& in, Tree<Bits>& tree) {
  uint32_t node = 1;
  for (int i = 0; i < Bits; ++i) node = node << 1 | static_cast<uint32_t>(in.bit(tree.probs[node]));
  return node - (1u << Bits);
}

/// `value` >= 1.
inline void put(Encoder& out, Number& number, uint32_t value) {
  const int bits = std::bit_width(value);
  // The two bits below the leading one go with the length: short numbers are exact there.
  const uint32_t below = bits >= 2 ? value >> (bits - 2) & 1u : 0u;
  put(out, number.length, static_cast<uint32_t>(bits) * 2 - 2 + below);
  const int rest = std::max(0, bits - 2);
  if (rest > 4) out.direct(value >> 4 & ((1u << (rest - 4)) - 1), rest - 4);
  if (rest > 0) put(out, number.low, value & ((1u << std::min(rest, 4)) - 1));
}

inline uint32_t get(Decoder& in, Number& number) {
  const uint32_t slot = get(in, number.length);
  const int bits = static_cast<int>(slot / 2) + 1;
  if (bits == 1) return 1;
  uint32_t value = 2u | (slot & 1u);
  const int rest = bits - 2;
  if (rest > 4) value = value << (rest - 4) | in.direct(rest - 4);
  if (rest > 0) {
    const int low = std::min(rest, 4);
    value = value << low | (get(in, number.low) & ((1u << low) - 1));
  }
  return value;
}

namespace detail {
struct PriceTable {
  static constexpr uint32_t kSteps = 1u << (kProbBits - 4);
  uint16_t cost[kSteps];
  PriceTable() {
    for (uint32_t i = 0; i < kSteps; ++i)
      cost[i] = static_cast<uint16_t>(std::lround(-16 * std::log2((i + 0.5) / kSteps)));
  }
};
inline const PriceTable price_table;
}  // namespace detail

/// What a bit would cost now, in sixteenths of a bit.
inline uint32_t price(const Prob& prob, int bit) {
  return detail::price_table.cost[(bit == 0 ? prob.value : (1u << kProbBits) - prob.value) >> 4];
}

template <int Bits>
inline uint32_t price(const Tree<Bits>& tree, uint32_t value) {
  uint32_t node = 1, total = 0;
  for (int i = Bits - 1; i >= 0; --i) {
    const int b = static_cast<int>(value >> i & 1u);
    total += price(tree.probs[node], b);
    node = node << 1 | static_cast<uint32_t>(b);
  }
  return total;
}

/// Prices of every length of a Number; the bits below are taken as they come.
struct NumberPrices {
  uint32_t slot[64];
  void read(const Number& number) {
    for (uint32_t i = 0; i < 64; ++i) slot[i] = price(number.length, i) + 16 * std::max(0, static_cast<int>(i / 2) - 1);
  }
  uint32_t of(uint32_t value) const {
    const int bits = std::bit_width(value);
    return slot[static_cast<uint32_t>(bits) * 2 - 2 + (bits >= 2 ? value >> (bits - 2) & 1u : 0u)];
  }
};

}  // namespace gpukit::jit
