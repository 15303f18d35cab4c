#include "gpukit/ops/norm/norm.h"

#include <cmath>

#include "gpukit/base/error.h"
#include "gpukit/ops/common/rows.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/softmax/softmax.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using testing::make_array;
using testing::random_values;
using testing::to_doubles;

class Norm : public testing::DeviceTest {
 protected:
  Array random(const Dims& shape, DType dtype, uint64_t seed, double low = -2, double high = 2) const {
    return make_array(random_values(static_cast<size_t>(shape.product()), seed, low, high), shape, dtype, device());
  }
};
GPUKIT_ON_DEVICES(Norm);

constexpr int64_t kWidths[] = {1, 2, 5, 31, 33, 64, 1025, 8192, 16416, 33000};
constexpr DType kDTypes[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST_P(Norm, LayernormMatchesFloat64) {
  for (DType dtype : kDTypes) {
    for (int64_t width : kWidths) {
      const Array x = random({3, width}, dtype, 1), gamma = random({width}, dtype, 2), beta = random({width}, dtype, 3);
      const std::vector<double> v = to_doubles(x), g = to_doubles(gamma), b = to_doubles(beta);
      std::vector<double> expected;
      for (int64_t row = 0; row < 3; ++row) {
        long double mean = 0, squares = 0;
        const double* r = v.data() + row * width;
        for (int64_t i = 0; i < width; ++i) mean += r[i] / static_cast<long double>(width);
        for (int64_t i = 0; i < width; ++i) squares += (r[i] - mean) * (r[i] - mean) / static_cast<long double>(width);
        for (int64_t i = 0; i < width; ++i)
          expected.push_back(static_cast<double>(
              (r[i] - mean) / std::sqrt(squares + 1e-5L) * g[static_cast<size_t>(i)] + b[static_cast<size_t>(i)]));
      }
      const double eps = testing::epsilon(dtype) + testing::epsilon(DType::float32) * (dtype != DType::float64);
      EXPECT_TRUE(testing::all_close(layernorm(x, gamma, beta), expected, 4 * eps, 16 * eps))
          << name(dtype) << " " << width;
    }
  }
}

TEST_P(Norm, RmsnormMatchesFloat64) {
  for (DType dtype : kDTypes) {
    for (int64_t width : kWidths) {
      const Array x = random({2, 2, width}, dtype, 4), gamma = random({width}, dtype, 5);
      const std::vector<double> v = to_doubles(x), g = to_doubles(gamma);
      std::vector<double> expected;
      for (int64_t row = 0; row < 4; ++row) {
        long double squares = 0;
        const double* r = v.data() + row * width;
        for (int64_t i = 0; i < width; ++i)
          squares += r[i] * static_cast<long double>(r[i]) / static_cast<long double>(width);
        for (int64_t i = 0; i < width; ++i)
          expected.push_back(static_cast<double>(r[i] / std::sqrt(squares + 1e-5L) * g[static_cast<size_t>(i)]));
      }
      const double eps = testing::epsilon(dtype) + testing::epsilon(DType::float32) * (dtype != DType::float64);
      EXPECT_TRUE(testing::all_close(rmsnorm(x, gamma), expected, 4 * eps, 4 * eps)) << name(dtype) << " " << width;
    }
  }
}

TEST_P(Norm, SoftmaxMatchesFloat64AlongEveryAxis) {
  for (DType dtype : kDTypes) {
    for (const Dims& shape :
         {Dims{7}, Dims{3, 1025}, Dims{1025, 24}, Dims{2, 33, 9}, Dims{4, 3, 64}, Dims{2, 40000}, Dims{3000, 3}}) {
      const Array x = random(shape, dtype, 6, -8, 8);
      const std::vector<double> v = to_doubles(x);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        int64_t inner = 1;
        for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
        std::vector<double> expected(v.size());
        for (int64_t start = 0; start < static_cast<int64_t>(v.size()); ++start) {
          if (start / inner % shape[axis] != 0) continue;
          long double total = 0;
          for (int64_t i = 0; i < shape[axis]; ++i)
            total += std::exp(static_cast<long double>(v[static_cast<size_t>(start + i * inner)]));
          for (int64_t i = 0; i < shape[axis]; ++i)
            expected[static_cast<size_t>(start + i * inner)] = static_cast<double>(
                std::exp(static_cast<long double>(v[static_cast<size_t>(start + i * inner)])) / total);
        }
        // exp turns the rounding of x - max, up to 16 here, into a relative error.
        const double eps =
            testing::epsilon(dtype) + 8 * testing::epsilon(dtype == DType::float64 ? dtype : DType::float32);
        const double tiny = dtype == DType::float16 ? 6e-8 : 0;
        EXPECT_TRUE(testing::all_close(softmax(x, axis), expected, 4 * eps, tiny))
            << name(dtype) << " " << shape.str() << " " << axis;
      }
    }
  }
}

TEST_P(Norm, AlignmentAndLayoutChangeNoBit) {
  for (int64_t width : {40, 1000, 8192, 33000}) {
    const Array x = random({3, width}, DType::float32, 8), gamma = random({width}, DType::float32, 9);
    Array wide = Array::empty({3, width + 1}, DType::float32, device());
    const Array shifted = wide.narrow(1, 1, width);
    copy_into(shifted, x);
    EXPECT_EQ(to_doubles(rmsnorm(shifted, gamma)), to_doubles(rmsnorm(x, gamma)));
    EXPECT_EQ(to_doubles(layernorm(shifted, gamma, gamma)), to_doubles(layernorm(x, gamma, gamma)));
    EXPECT_EQ(to_doubles(softmax(shifted)), to_doubles(softmax(x)));
    Array turned = Array::empty({width, 16}, DType::float32, device());
    const Array view = turned.transpose().narrow(0, 0, 3);
    copy_into(view, x);
    EXPECT_EQ(to_doubles(softmax(turned, 0).transpose().narrow(0, 0, 3)), to_doubles(softmax(x)));
    EXPECT_EQ(to_doubles(softmax(x.narrow(0, 2, 1))), to_doubles(softmax(x).narrow(0, 2, 1)));
  }
}

TEST_P(Norm, InPlaceAndOut) {
  const Array x = random({5, 33}, DType::float32, 10), gamma = random({33}, DType::float32, 11);
  const std::vector<double> expected = to_doubles(rmsnorm(x, gamma)), soft = to_doubles(softmax(x));
  const Array y = copy(x), out = Array::empty_like(x);
  rmsnorm(y, gamma, 1e-5, &y);
  EXPECT_EQ(to_doubles(y), expected);
  const Array z = copy(x);
  softmax(z, -1, &z);
  EXPECT_EQ(to_doubles(z), soft);
  softmax(x, -1, &out);
  EXPECT_EQ(to_doubles(out), soft);
  const Array bias = copy(x);
  bias_add_inplace(bias, gamma);
  const std::vector<double> v = to_doubles(x), g = to_doubles(gamma), sums = to_doubles(bias);
  for (size_t i = 0; i < v.size(); ++i)
    EXPECT_EQ(sums[i], static_cast<double>(static_cast<float>(v[i]) + static_cast<float>(g[i % 33])));
}

TEST_P(Norm, Errors) {
  const Array x = random({2, 8}, DType::float32, 12), gamma = random({8}, DType::float32, 13);
  EXPECT_THROW(rmsnorm(x, random({7}, DType::float32, 1)), ShapeError);
  EXPECT_THROW(rmsnorm(x, random({8}, DType::float16, 1)), DTypeError);
  EXPECT_THROW(layernorm(x, gamma, random({2, 8}, DType::float32, 1)), ShapeError);
  EXPECT_THROW(layernorm(random({2, 8}, DType::int32, 1), gamma, gamma), DTypeError);
  EXPECT_THROW(rmsnorm(Array::empty({}, DType::float32, device()), gamma), ShapeError);
  EXPECT_THROW(bias_add_inplace(x, random({9}, DType::float32, 1)), ShapeError);
  EXPECT_THROW(softmax(x, 2), OutOfRangeError);
  EXPECT_THROW(softmax(random({2}, DType::int64, 1)), DTypeError);
}

TEST(RowPlan, Table) {
  struct Case {
    Dims shape;
    int axis, bytes;
    RowForm form;
    bool vector;
    int lanes, warps;
  };
  const Case table[] = {
      {{16384, 8192}, 1, 2, RowForm::registers, true, 32, 8}, {{16384, 8192}, 1, 4, RowForm::registers, true, 32, 16},
      {{64, 128}, 1, 2, RowForm::registers, true, 16, 1},     {{64, 3}, 1, 4, RowForm::registers, false, 4, 1},
      {{4, 1025}, 1, 4, RowForm::registers, false, 32, 8},    {{2, 32768}, 1, 2, RowForm::registers, true, 32, 32},
      {{2, 65536}, 1, 2, RowForm::wide, true, 32, 32},        {{2, 40001}, 1, 4, RowForm::wide, false, 32, 32},
      {{512, 64}, 0, 2, RowForm::columns, true, 0, 0},        {{512, 33}, 0, 2, RowForm::columns, false, 0, 0},
  };
  for (const Case& c : table) {
    const Dims strides = contiguous_strides(c.shape);
    const RowPlan plan = plan_rows(c.shape, strides, strides, c.axis, c.bytes, true, true);
    EXPECT_EQ(plan.form, c.form) << c.shape.str();
    EXPECT_EQ(plan.vector, c.vector) << c.shape.str();
    EXPECT_EQ(plan.params.lanes, c.lanes) << c.shape.str();
    EXPECT_EQ(plan.params.warps, c.warps) << c.shape.str();
    EXPECT_LE(plan.block, static_cast<unsigned>(kRowMaxThreads));
    EXPECT_LE(plan.shared_bytes, 48u << 10);
  }
}

/// A few long rows are shared by many blocks, each with a whole node of the tree; many rows and short ones are not.
TEST(RowPlan, FewLongRowsAreSplit) {
  for (int64_t rows : {1, 3, 40, 300})
    for (int64_t width : {40001, 70001, 262144, 1000003, 1 << 24})
      for (int bytes : {2, 4, 8}) {
        const Dims shape = {rows, width}, strides = contiguous_strides(shape);
        const RowPlan plan = plan_rows(shape, strides, strides, 1, bytes, true, true);
        const RowSplit split = split_rows(plan, bytes);
        EXPECT_LE(split.segments, kMaxRowSegments);
        EXPECT_TRUE(split.segments == 1 || split.segments >= 8) << shape.str();
        EXPECT_TRUE(rows < 256 || split.segments == 1) << shape.str();
        if (split.segments == 1) continue;
        const int64_t segment =
            split.chunks_per_warp * kRowMaxThreads * (plan.vector ? 16 / bytes : 1) * wide_units(bytes);
        EXPECT_EQ(segment & (segment - 1), 0) << "a whole node of the tree";
        EXPECT_GE(segment * split.segments, width);
        EXPECT_LT(segment * (split.segments - 1), width);
      }
  const Dims shape = {3, 1000003}, strides = contiguous_strides(shape);
  EXPECT_EQ(split_rows(plan_rows(shape, strides, strides, 1, 4, true, true), 4).segments, 123);
}

}  // namespace
}  // namespace gpukit
