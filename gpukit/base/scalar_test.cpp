#include "gpukit/base/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/base/half.h"

namespace gpukit {
namespace {

template <typename T>
T element(const Scalar& s, DType dtype) {
  const ElementBytes bytes = to_element("full", s, dtype);
  T value;
  std::memcpy(&value, bytes.bytes, sizeof(T));
  return value;
}

TEST(Scalar, Integers) {
  EXPECT_EQ(element<int8_t>(Scalar(-128), DType::int8), -128);
  EXPECT_EQ(element<uint8_t>(Scalar(255), DType::uint8), 255);
  EXPECT_EQ(element<int64_t>(Scalar(INT64_MIN), DType::int64), INT64_MIN);
  EXPECT_EQ(element<uint64_t>(Scalar::from_unsigned(UINT64_MAX), DType::uint64), UINT64_MAX);
  EXPECT_EQ(element<int32_t>(Scalar(-2.9), DType::int32), -2);
  EXPECT_EQ(element<bool>(Scalar(0.5), DType::boolean), true);
  EXPECT_EQ(element<bool>(Scalar(0), DType::boolean), false);
  EXPECT_EQ(element<int16_t>(Scalar(true), DType::int16), 1);
}

TEST(Scalar, OutOfRange) {
  EXPECT_THROW(to_element("full", Scalar(128), DType::int8), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(-129), DType::int8), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(-1), DType::uint8), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(-1), DType::uint64), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar::from_unsigned(uint64_t{1} << 63), DType::int64), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(0x1p63), DType::int64), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(std::nan("")), DType::int32), ArgumentError);
  EXPECT_THROW(to_element("full", Scalar(std::complex<double>(1, 2)), DType::float32), DTypeError);
  try {
    to_element("full", Scalar(300), DType::uint8);
    FAIL();
  } catch (const ArgumentError& e) {
    EXPECT_STREQ(e.what(), "full: value must be in [0, 255] for uint8, got 300");
  }
}

TEST(Scalar, FloatsRoundOnce) {
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(element<uint16_t>(Scalar(above), DType::float16), 0x3c01u);
  // 2^24 + 1 is a tie for float.
  EXPECT_EQ(element<float>(Scalar(int64_t{(1 << 24) + 1}), DType::float32), 0x1p24f);
  // One above a tie at a width double cannot hold.
  const int64_t wide = (int64_t{1} << 62) + (int64_t{1} << 38) + 1;
  EXPECT_EQ(element<float>(Scalar(wide), DType::float32), std::nextafter(0x1p62f, INFINITY));
  EXPECT_EQ(element<float>(Scalar(wide - 1), DType::float32), 0x1p62f);
  EXPECT_EQ(element<float>(Scalar(-wide), DType::float32), -std::nextafter(0x1p62f, INFINITY));
  EXPECT_EQ(element<double>(Scalar(0.1), DType::float64), 0.1);
  EXPECT_EQ(element<std::complex<float>>(Scalar(std::complex<double>(1.5, -2)), DType::complex64),
            std::complex<float>(1.5f, -2));
  EXPECT_EQ(element<uint8_t>(Scalar(1.0), DType::float8_e4m3), 0x38u);
  EXPECT_EQ(element<uint8_t>(Scalar(1.0), DType::float8_e5m2), 0x3cu);
}

}  // namespace
}  // namespace gpukit
