#include "gpukit/ops/create/create.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/half.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using testing::to_doubles;
using Values = std::vector<double>;

class Create : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(Create);

constexpr int64_t kSizes[] = {0, 1, 31, 33, 1025, 100003};

TEST_P(Create, Constants) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    for (int64_t size : kSizes) {
      const Array z = zeros({size, 3}, dtype, device());
      EXPECT_EQ(z.dtype(), dtype);
      EXPECT_EQ(z.device(), device());
      std::vector<uint8_t> bytes(static_cast<size_t>(z.nbytes()), 0xff);
      to_host(bytes.data(), z);
      for (uint8_t byte : bytes) ASSERT_EQ(byte, 0) << name(dtype);
      if (is_complex(dtype)) continue;
      EXPECT_EQ(to_doubles(ones({size}, dtype, device())), Values(static_cast<size_t>(size), 1.0)) << name(dtype);
      EXPECT_EQ(to_doubles(full({size}, 7, dtype, device())),
                Values(static_cast<size_t>(size), dtype == DType::boolean ? 1.0 : 7.0));
    }
  }
  EXPECT_EQ(testing::to_complex(full({2}, Scalar(std::complex<double>(1, -2)), DType::complex64, device()))[1],
            std::complex<double>(1, -2));
  EXPECT_EQ(to_doubles(full({}, 2.5, DType::float64, device())), (Values{2.5}));
}

TEST_P(Create, FullTakesTheKindOfItsValue) {
  EXPECT_EQ(full({1}, true, {}, device()).dtype(), DType::boolean);
  EXPECT_EQ(full({1}, 3, {}, device()).dtype(), DType::int64);
  EXPECT_EQ(full({1}, 3.0, {}, device()).dtype(), DType::float32);
  EXPECT_EQ(full({1}, Scalar(std::complex<double>(0, 1)), {}, device()).dtype(), DType::complex64);
}

TEST_P(Create, LikeKeepsShapeDtypeAndDevice) {
  const Array x = zeros({3, 5}, DType::int16, device()).transpose();
  const Array y = ones_like(x);
  EXPECT_EQ(y.shape(), (Dims{5, 3}));
  EXPECT_EQ(y.dtype(), DType::int16);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(to_doubles(full_like(x, 2.5, DType::float16)), Values(15, 2.5));
  EXPECT_EQ(to_doubles(zeros_like(x)), Values(15, 0.0));
  EXPECT_EQ(empty_like(x, DType::float64).device(), device());
}

TEST_P(Create, Eye) {
  for (int64_t rows : {0, 1, 3, 5})
    for (int64_t columns : {0, 1, 4})
      for (int64_t k = -6; k <= 6; ++k) {
        Values expected;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < columns; ++c) expected.push_back(c - r == k ? 1.0 : 0.0);
        EXPECT_EQ(to_doubles(eye(rows, columns, k, DType::int32, device())), expected)
            << rows << " " << columns << " " << k;
      }
  EXPECT_EQ(eye(3, {}, 0, DType::float32, device()).shape(), (Dims{3, 3}));
}

TEST_P(Create, ArangeOfIntegers) {
  EXPECT_EQ(arange(0, 5, 1, {}, device()).dtype(), DType::int64);
  EXPECT_EQ(to_doubles(arange(3, 12, 4, DType::int8, device())), (Values{3, 7, 11}));
  EXPECT_EQ(to_doubles(arange(5, -4, -3, DType::int32, device())), (Values{5, 2, -1}));
  EXPECT_EQ(arange(5, 5, 1, {}, device()).size(), 0);
  EXPECT_EQ(arange(5, 0, 1, {}, device()).size(), 0);
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX, {}, device()).size(), 3);
  std::vector<int64_t> wide(3);
  to_host(wide.data(), arange((int64_t{1} << 60) + 1, (int64_t{1} << 60) + 4, 1, {}, device()));
  EXPECT_EQ(wide, (std::vector<int64_t>{(int64_t{1} << 60) + 1, (int64_t{1} << 60) + 2, (int64_t{1} << 60) + 3}));
  for (int64_t size : kSizes) {
    const Values got = to_doubles(arange(0, size, 1, DType::int32, device()));
    ASSERT_EQ(got.size(), static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(got[i], static_cast<double>(i));
  }
}

TEST_P(Create, ArangeOfReals) {
  EXPECT_EQ(arange(0.0, 1.0, 0.25, {}, device()).dtype(), DType::float32);
  EXPECT_EQ(to_doubles(arange(0.0, 1.0, 0.25, {}, device())), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(to_doubles(arange(0.0, 3.0, 0.5, DType::int32, device())), (Values{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(to_doubles(arange(0, 4, 1, DType::float16, device())), (Values{0, 1, 2, 3}));
  const Values got = to_doubles(arange(0.1, 100.0, 0.1, DType::float64, device()));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 0.1 + static_cast<double>(i) * 0.1);
  // One rounding: above a tie of half by less than float can tell.
  std::vector<uint16_t> bits(1);
  to_host(bits.data(), arange(1.0 + 0x1p-11 + 0x1p-40, 2.0, 5.0, DType::float16, device()));
  EXPECT_EQ(bits[0], 0x3c01u);
}

TEST_P(Create, Linspace) {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Values got = to_doubles(linspace(-0.1, 0.7, 49, dtype, true, device()));
    ASSERT_EQ(got.size(), 49u);
    EXPECT_EQ(got.front(), to_doubles(full({1}, -0.1, dtype, device()))[0]);
    EXPECT_EQ(got.back(), to_doubles(full({1}, 0.7, dtype, device()))[0]);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], -0.1 + static_cast<double>(i) * (0.8 / 48), testing::epsilon(dtype)) << i;
  }
  EXPECT_EQ(to_doubles(linspace(0, 1, 4, {}, false, device())), (Values{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(to_doubles(linspace(5, 9, 1, {}, true, device())), (Values{5}));
  EXPECT_EQ(linspace(5, 9, 0, {}, true, device()).size(), 0);
}

TEST_P(Create, Errors) {
  EXPECT_THROW(zeros({-1}, DType::float32, device()), ShapeError);
  EXPECT_THROW(zeros({int64_t{1} << 40, int64_t{1} << 40}, DType::float32, device()), ShapeError);
  EXPECT_THROW(full({2}, 300, DType::uint8, device()), ArgumentError);
  EXPECT_THROW(full({0}, 300, DType::uint8, device()), ArgumentError);
  EXPECT_THROW(arange(0, 5, 0, {}, device()), ArgumentError);
  EXPECT_THROW(arange(0.0, 5.0, 0.0, {}, device()), ArgumentError);
  EXPECT_THROW(arange(0, 300, 1, DType::uint8, device()), ArgumentError);
  EXPECT_THROW(arange(-1, 3, 1, DType::uint8, device()), ArgumentError);
  EXPECT_THROW(arange(0.0, NAN, 1.0, {}, device()), ArgumentError);
  EXPECT_THROW(arange(0.0, 1e300, 1e-300, {}, device()), ShapeError);
  EXPECT_THROW(arange(0, 3, 1, DType::boolean, device()), DTypeError);
  EXPECT_THROW(linspace(0, 1, -1, {}, true, device()), ArgumentError);
  EXPECT_THROW(linspace(0, 1, 5, DType::int32, true, device()), DTypeError);
}

}  // namespace
}  // namespace gpukit
