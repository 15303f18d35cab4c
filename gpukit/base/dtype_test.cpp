#include "gpukit/base/dtype.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "gpukit/base/error.h"

namespace gpukit {
namespace {

DType at(int i) { return static_cast<DType>(i); }

std::optional<DType> common(DType a, DType b) {
  try {
    return promote("test", a, b);
  } catch (const DTypeError&) {
    return std::nullopt;
  }
}

TEST(DType, NamesAreUniqueAndRead) {
  std::set<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_TRUE(names.insert(name(at(i))).second);
    EXPECT_EQ(dtype_from_name(name(at(i))), at(i));
    EXPECT_GT(itemsize(at(i)), 0);
    EXPECT_GT(std::strlen(kernel_type(at(i))), 0u);
  }
  try {
    dtype_from_name("float31");
    FAIL();
  } catch (const DTypeError& e) {
    EXPECT_NE(std::string(e.what()).find("Unsupported dtype string"), std::string::npos);
  }
}

TEST(DType, PromotionIsSymmetricAndIdempotent) {
  for (int i = 0; i < kNumDTypes; ++i) {
    EXPECT_EQ(common(at(i), at(i)), at(i));
    for (int j = 0; j < kNumDTypes; ++j) {
      const auto c = common(at(i), at(j));
      EXPECT_EQ(c, common(at(j), at(i))) << name(at(i)) << " " << name(at(j));
      if (c) {
        EXPECT_EQ(common(*c, at(i)), c) << name(at(i)) << " " << name(at(j));
      }
    }
  }
}

TEST(DType, PromotionTable) {
  using enum DType;
  EXPECT_EQ(common(boolean, int8), int8);
  EXPECT_EQ(common(boolean, float16), float16);
  EXPECT_EQ(common(int8, uint8), int16);
  EXPECT_EQ(common(int8, uint16), int32);
  EXPECT_EQ(common(int16, uint8), int16);
  EXPECT_EQ(common(int32, uint32), int64);
  EXPECT_EQ(common(int64, uint32), int64);
  EXPECT_EQ(common(uint8, uint64), uint64);
  EXPECT_EQ(common(int8, uint64), std::nullopt);
  EXPECT_EQ(common(int64, uint64), std::nullopt);
  EXPECT_EQ(common(float16, bfloat16), float32);
  EXPECT_EQ(common(int64, float16), float16);
  EXPECT_EQ(common(bfloat16, float32), float32);
  EXPECT_EQ(common(float32, float64), float64);
  EXPECT_EQ(common(float32, complex64), complex64);
  EXPECT_EQ(common(float64, complex64), complex128);
  EXPECT_EQ(common(int64, complex64), complex64);
  EXPECT_EQ(common(complex64, complex128), complex128);
  EXPECT_EQ(common(float8_e4m3, float16), std::nullopt);
  EXPECT_EQ(common(float8_e4m3, float8_e5m2), std::nullopt);
  EXPECT_EQ(common(int4, int8), std::nullopt);
}

TEST(DType, WeakScalars) {
  using enum DType;
  EXPECT_EQ(promote_scalar("test", float16, ScalarKind::real), float16);
  EXPECT_EQ(promote_scalar("test", float16, ScalarKind::integer), float16);
  EXPECT_EQ(promote_scalar("test", int8, ScalarKind::integer), int8);
  EXPECT_EQ(promote_scalar("test", int8, ScalarKind::boolean), int8);
  EXPECT_EQ(promote_scalar("test", int32, ScalarKind::real), float32);
  EXPECT_EQ(promote_scalar("test", boolean, ScalarKind::boolean), boolean);
  EXPECT_EQ(promote_scalar("test", boolean, ScalarKind::integer), int64);
  EXPECT_EQ(promote_scalar("test", boolean, ScalarKind::real), float32);
  EXPECT_EQ(promote_scalar("test", float32, ScalarKind::complex), complex64);
  EXPECT_EQ(promote_scalar("test", float64, ScalarKind::complex), complex128);
  EXPECT_EQ(promote_scalar("test", complex64, ScalarKind::real), complex64);
  EXPECT_THROW(promote_scalar("test", float8_e4m3, ScalarKind::integer), DTypeError);
}

}  // namespace
}  // namespace gpukit
