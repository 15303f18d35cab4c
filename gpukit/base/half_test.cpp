#include "gpukit/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace gpukit {
namespace {

/// A small float format written out in double arithmetic, independent of the code under test.
struct Format {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;

  double decode(unsigned bits) const {
    const int exponent_mask = (1 << exponent_bits) - 1, mantissa_mask = (1 << mantissa_bits) - 1;
    const int exponent = static_cast<int>(bits >> mantissa_bits) & exponent_mask;
    const int mantissa = static_cast<int>(bits) & mantissa_mask;
    const double sign = (bits >> (exponent_bits + mantissa_bits)) & 1u ? -1.0 : 1.0;
    if (exponent == exponent_mask && has_infinity)
      return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    if (exponent == exponent_mask && mantissa == mantissa_mask) return std::nan("");
    if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  }
};

constexpr Format kHalf{5, 10, 15, true}, kBfloat{8, 7, 127, true}, kE4m3{4, 3, 7, false}, kE5m2{5, 2, 15, true};

template <typename From, typename To>
void check_exact(const Format& format, unsigned count, From to_wide, To to_narrow) {
  for (unsigned bits = 0; bits < count; ++bits) {
    const double expected = format.decode(bits);
    const float got = to_wide(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_TRUE(std::isnan(format.decode(to_narrow(got)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), expected) << bits;
    ASSERT_EQ(std::signbit(got), std::signbit(expected)) << bits;
    ASSERT_EQ(to_narrow(got), bits);
  }
}

/// Between each pair of neighbours: the tie goes to the even code, anything off the tie to the nearer one.
template <typename To>
void check_rounding(const Format& format, unsigned largest_code, unsigned sign_bit, To to_narrow) {
  for (unsigned low = 0; low < largest_code; ++low) {
    const double a = format.decode(low), b = format.decode(low + 1);
    const float tie = static_cast<float>((a + b) / 2);
    ASSERT_EQ(static_cast<double>(tie), (a + b) / 2) << "a tie is exact in float";
    const unsigned even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(to_narrow(tie), even) << low;
    ASSERT_EQ(to_narrow(-tie), even | sign_bit) << low;
    ASSERT_EQ(to_narrow(std::nextafter(tie, 0.0f)), low) << low;
    ASSERT_EQ(to_narrow(std::nextafter(tie, INFINITY)), low + 1) << low;
  }
}

unsigned half_bits(float f) { return to_half(f).bits; }
unsigned bfloat_bits(float f) { return to_bfloat16(f).bits; }
unsigned e4m3_bits(float f) { return to_float8_e4m3(f).bits; }
unsigned e5m2_bits(float f) { return to_float8_e5m2(f).bits; }

TEST(Half, EveryPattern) {
  check_exact(
      kHalf, 65536, [](unsigned b) { return to_float(half{static_cast<uint16_t>(b)}); }, half_bits);
  check_exact(
      kBfloat, 65536, [](unsigned b) { return to_float(bfloat16{static_cast<uint16_t>(b)}); }, bfloat_bits);
}

TEST(Half, EveryTie) {
  check_rounding(kHalf, 0x7bff, 0x8000, half_bits);
  // The subnormals of bfloat16 are those of float: ties below need more bits than float has.
  for (unsigned low = 0x80; low < 0x7f7f; ++low) {
    const float tie = std::bit_cast<float>((low << 16) | 0x8000u);
    ASSERT_EQ(bfloat_bits(tie), low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(bfloat_bits(std::nextafter(tie, 0.0f)), low);
    ASSERT_EQ(bfloat_bits(std::nextafter(tie, INFINITY)), low + 1);
  }
}

TEST(Half, Edges) {
  EXPECT_EQ(half_bits(65519.996f), 0x7bffu);
  EXPECT_EQ(half_bits(65520.0f), 0x7c00u);
  EXPECT_EQ(half_bits(-1e30f), 0xfc00u);
  EXPECT_EQ(half_bits(0x1p-25f), 0u);
  EXPECT_EQ(half_bits(std::nextafter(0x1p-25f, 1.0f)), 1u);
  EXPECT_EQ(half_bits(-0.0f), 0x8000u);
  EXPECT_EQ(bfloat_bits(std::numeric_limits<float>::max()), 0x7f80u);
  EXPECT_EQ(bfloat_bits(std::bit_cast<float>(0x7f800001u)) & 0x7fc0u, 0x7fc0u);
  EXPECT_EQ(half_bits(std::bit_cast<float>(0x7f800001u)) & 0x7e00u, 0x7e00u);
}

TEST(Float8, EveryPattern) {
  check_exact(
      kE4m3, 256, [](unsigned b) { return to_float(float8_e4m3{static_cast<uint8_t>(b)}); }, e4m3_bits);
  check_exact(
      kE5m2, 256, [](unsigned b) { return to_float(float8_e5m2{static_cast<uint8_t>(b)}); }, e5m2_bits);
}

TEST(Float8, EveryTie) {
  check_rounding(kE4m3, 0x7e, 0x80, e4m3_bits);
  check_rounding(kE5m2, 0x7b, 0x80, e5m2_bits);
}

TEST(Float8, Saturates) {
  for (float big : {449.0f, 464.0f, 480.0f, 1e30f}) {
    EXPECT_EQ(e4m3_bits(big), 0x7eu) << big;
    EXPECT_EQ(e4m3_bits(-big), 0xfeu) << big;
  }
  EXPECT_EQ(e4m3_bits(INFINITY), 0x7eu);
  EXPECT_EQ(e5m2_bits(65536.0f), 0x7bu);
  EXPECT_EQ(e5m2_bits(-1e30f), 0xfbu);
  EXPECT_EQ(e5m2_bits(INFINITY), 0x7cu);
  EXPECT_EQ(e5m2_bits(-INFINITY), 0xfcu);
  EXPECT_TRUE(std::isnan(to_float(to_float8_e4m3(NAN))));
  EXPECT_TRUE(std::isnan(to_float(to_float8_e5m2(NAN))));
}

TEST(RoundToOdd, MakesDoubleToHalfRoundOnce) {
  // Just above a tie of half: through a plain float it would become the tie and round to the even neighbour.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(half_bits(static_cast<float>(above)), 0x3c00u);
  EXPECT_EQ(half_bits(round_to_odd(above)), 0x3c01u);
  EXPECT_EQ(half_bits(round_to_odd(-above)), 0xbc01u);
  EXPECT_EQ(half_bits(round_to_odd(1.0 + 0x1p-11 - 0x1p-40)), 0x3c00u);
  EXPECT_EQ(half_bits(round_to_odd(1e300)), 0x7c00u);
  EXPECT_EQ(half_bits(round_to_odd(1e-300)), 0u);
  EXPECT_EQ(round_to_odd(0.5), 0.5f);
  EXPECT_TRUE(std::isnan(round_to_odd(NAN)));
  EXPECT_TRUE(std::isinf(round_to_odd(-INFINITY)));
}

TEST(RoundToOdd, NearestHalfOfRandomDoubles) {
  std::vector<double> values;
  for (unsigned b = 0; b <= 0x7bff; ++b) values.push_back(kHalf.decode(b));
  std::mt19937_64 random(7);
  for (int i = 0; i < 100000; ++i) {
    const double d =
        std::ldexp(1.0 + std::ldexp(static_cast<double>(random() >> 12), -52), static_cast<int>(random() % 42) - 26);
    if (d >= 65504) continue;
    const auto above = std::lower_bound(values.begin(), values.end(), d);
    unsigned code = static_cast<unsigned>(above - values.begin());
    if (*above != d) {
      const double down = d - values[code - 1], up = *above - d;
      if (down < up || (down == up && code % 2 == 1)) --code;
    }
    ASSERT_EQ(half_bits(round_to_odd(d)), code) << d;
  }
}

}  // namespace
}  // namespace gpukit
