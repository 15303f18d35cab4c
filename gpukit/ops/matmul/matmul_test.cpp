#include "gpukit/ops/matmul/matmul.h"
#include "gpukit/ops/matmul/linear.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/matmul/matmul_impl.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using testing::make_array;
using testing::random_values;
using testing::to_doubles;

class Matmul : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(Matmul);

std::string bytes(const Array& a) {
  std::string out(static_cast<size_t>(a.nbytes()), '\0');
  to_host(out.data(), contiguous(a));
  return out;
}

/// Row-major [batch, m, k] by [batch, k, n] in double.
std::vector<double> reference(const std::vector<double>& a, const std::vector<double>& b, int64_t batch, int64_t m,
                              int64_t k, int64_t n) {
  std::vector<double> out(static_cast<size_t>(batch * m * n));
  for (int64_t t = 0; t < batch; ++t)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += a[(t * m + i) * k + l] * b[(t * k + l) * n + j];
        out[(t * m + i) * n + j] = sum;
      }
  return out;
}

struct Size {
  int64_t m, k, n;
};
constexpr Size kSizes[] = {{1, 1, 1},  {0, 3, 2},    {2, 0, 3},    {2, 3, 0},     {1, 33, 1},    {31, 1, 33},
                           {3, 65, 5}, {64, 16, 64}, {65, 17, 63}, {1, 300, 130}, {130, 257, 1}, {70, 1025, 66}};

TEST_P(Matmul, MatchesFloat64) {
  for (const Size& s : kSizes)
    for (DType dtype :
         {DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::int8, DType::int32, DType::uint64}) {
      const double span = is_integer(dtype) ? 5 : 1, low = is_unsigned_integer(dtype) ? 0 : -span;
      const Array a = make_array(random_values(s.m * s.k, 1, low, span), {s.m, s.k}, dtype, device());
      const Array b = make_array(random_values(s.k * s.n, 2, low, span), {s.k, s.n}, dtype, device());
      const Array got = matmul(a, b, nullptr, {.out_dtype = dtype == DType::int8 ? DType::int32 : dtype});
      EXPECT_EQ(got.dtype(), dtype == DType::int8 ? DType::int32 : dtype);
      EXPECT_EQ(got.shape(), (Dims{s.m, s.n}));
      // One rounding per product in the type of the sum, and one to store it.
      const double sum_epsilon = dtype == DType::float64 ? 0x1p-53 : is_integer(dtype) ? 0 : 0x1p-24;
      const double tolerance = sum_epsilon * static_cast<double>(s.k + 1);
      EXPECT_TRUE(testing::all_close(got, reference(to_doubles(a), to_doubles(b), 1, s.m, s.k, s.n),
                                     testing::epsilon(dtype), tolerance))
          << name(dtype) << " " << s.m << " " << s.k << " " << s.n;
    }
}

TEST_P(Matmul, EveryLayoutGivesTheSameBits) {
  for (const Size& s : {Size{65, 130, 67}, Size{3, 5, 2}}) {
    const Array a = make_array(random_values(s.m * s.k, 3), {s.m, s.k}, DType::float32, device());
    const Array b = make_array(random_values(s.k * s.n, 4), {s.k, s.n}, DType::float32, device());
    const std::string expected = bytes(matmul(a, b));
    const Array a_columns = contiguous(a.transpose()).transpose(), b_columns = contiguous(b.transpose()).transpose();
    EXPECT_EQ(bytes(matmul(a_columns, b)), expected);
    EXPECT_EQ(bytes(matmul(a, b_columns)), expected);
    EXPECT_EQ(bytes(matmul(a_columns, b_columns)), expected);

    Array wide = Array::empty({2 * s.m, 3 * s.k}, DType::float32, device());
    const Array strided = wide.slice(0, 0, 2 * s.m, 2).slice(1, 1, 3 * s.k, 3);
    copy_into(strided, a);
    EXPECT_EQ(bytes(matmul(strided, b)), expected);

    const Array out = Array::empty({s.n, s.m}, DType::float32, device()).transpose();
    EXPECT_EQ(matmul(a, b, &out).storage(), out.storage());
    EXPECT_EQ(bytes(out), expected);
  }
}

TEST_P(Matmul, SumIsFusedAndAscending) {
  const int64_t k = 777;
  const Array a = make_array(random_values(k, 5), {1, k}, DType::float32, device());
  const Array b = make_array(random_values(k, 6), {k, 1}, DType::float32, device());
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  float sum = 0;
  for (int64_t i = 0; i < k; ++i) sum = std::fma(static_cast<float>(x[i]), static_cast<float>(y[i]), sum);
  EXPECT_EQ(to_doubles(matmul(a, b))[0], static_cast<double>(sum));
  // A sum that underflows to -0 stays -0, whatever the padding of the last slice.
  const Array tiny = make_array(std::vector<double>{1e-30}, {1, 1}, DType::float32, device());
  const Array minus = make_array(std::vector<double>{-1e-30}, {1, 1}, DType::float32, device());
  EXPECT_TRUE(std::signbit(to_doubles(matmul(tiny, minus))[0]));
}

TEST_P(Matmul, RanksOfNumPy) {
  const auto a3 = random_values(2 * 3 * 4, 7), b3 = random_values(2 * 4 * 5, 8);
  const Array a = make_array(a3, {2, 3, 4}, DType::float64, device());
  const Array b = make_array(b3, {2, 4, 5}, DType::float64, device());
  const Array v = make_array(random_values(4, 9), {4}, DType::float64, device());
  EXPECT_TRUE(testing::all_close(matmul(a, b), reference(a3, b3, 2, 3, 4, 5), 1e-14, 1e-14));
  EXPECT_EQ(matmul(v, v).shape(), Dims());
  EXPECT_EQ(matmul(a, v).shape(), (Dims{2, 3}));
  EXPECT_EQ(matmul(v, b).shape(), (Dims{2, 5}));
  EXPECT_EQ(to_doubles(matmul(v, b)), to_doubles(matmul(v.expand_dims(0), b)));
  EXPECT_EQ(to_doubles(matmul(a, v)), to_doubles(matmul(a, v.expand_dims(1))));
  EXPECT_EQ(to_doubles(matmul(v, v)), to_doubles(matmul(v.expand_dims(0), v.expand_dims(1))));

  // Batches broadcast: [7, 1, 3, 4] @ [2, 4, 5] and a matrix against a batch.
  const Array many = make_array(random_values(7 * 12, 10), {7, 1, 3, 4}, DType::float64, device());
  const Array product = matmul(many, b);
  ASSERT_EQ(product.shape(), (Dims{7, 2, 3, 5}));
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 2; ++j)
      EXPECT_EQ(bytes(product.select(0, i).select(0, j)),
                bytes(matmul(many.select(0, i).select(0, 0), b.select(0, j))));
  EXPECT_EQ(bytes(matmul(many.select(0, 0).select(0, 0), b).select(0, 1)),
            bytes(matmul(many.select(0, 0).select(0, 0), b.select(0, 1))));
  EXPECT_EQ(matmul(make_array({}, {0, 3, 4}, DType::float64, device()),
                   make_array(random_values(20, 1), {4, 5}, DType::float64, device()))
                .shape(),
            (Dims{0, 3, 5}));
}

TEST_P(Matmul, BoolComplexAndWrapAround) {
  const Array t = make_array(std::vector<double>{1, 0, 1, 1}, {2, 2}, DType::boolean, device());
  const Array u = make_array(std::vector<double>{0, 1, 0, 0}, {2, 2}, DType::boolean, device());
  EXPECT_EQ(to_doubles(matmul(t, u)), (std::vector<double>{0, 1, 0, 1}));
  EXPECT_EQ(matmul(t, u).dtype(), DType::boolean);

  const Array big = make_array(std::vector<double>{200, 100}, {1, 2}, DType::uint8, device());
  const Array factor = make_array(std::vector<double>{3, 2}, {2, 1}, DType::uint8, device());
  EXPECT_EQ(to_doubles(matmul(big, factor))[0], (200 * 3 + 100 * 2) % 256);

  for (DType dtype : {DType::complex64, DType::complex128}) {
    using C = std::complex<double>;
    const int64_t m = 5, k = 70, n = 3;
    std::vector<C> x, y;
    for (double v : random_values(m * k, 1)) x.push_back({v, v * v});
    for (double v : random_values(k * n, 2)) y.push_back({v - 0.5, -v});
    const auto upload = [&](const std::vector<C>& values, const Dims& shape) {
      if (dtype == DType::complex128) return from_host(values.data(), shape, dtype, device());
      const std::vector<std::complex<float>> narrow(values.begin(), values.end());
      return from_host(narrow.data(), shape, dtype, device());
    };
    const auto got = testing::to_complex(matmul(upload(x, {m, k}), upload(y, {k, n})));
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        C sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += x[i * k + l] * y[l * n + j];
        EXPECT_LT(std::abs(got[i * n + j] - sum), dtype == DType::complex64 ? 2e-5 : 1e-13);
      }
  }
}

TEST_P(Matmul, MixedAndWideDtypes) {
  const Array i8 = make_array(std::vector<double>{127, 127, -128, -128}, {2, 2}, DType::int8, device());
  EXPECT_EQ(to_doubles(matmul(i8, i8)), (std::vector<double>{-127, -127, -128, -128}));
  for (DType wide : {DType::int32, DType::int64})
    EXPECT_EQ(to_doubles(matmul(i8, i8, nullptr, {.out_dtype = wide})), (std::vector<double>{-127, -127, 128, 128}));
  const Array h = make_array(random_values(40, 1), {4, 10}, DType::float16, device());
  const Array f = make_array(random_values(40, 2), {10, 4}, DType::float32, device());
  EXPECT_EQ(matmul(h, f).dtype(), DType::float32);
  const Array exact = matmul(h, h.transpose(), nullptr, {.out_dtype = DType::float32});
  EXPECT_EQ(exact.dtype(), DType::float32);
  EXPECT_TRUE(testing::all_close(matmul(h, h.transpose()), to_doubles(exact), testing::epsilon(DType::float16), 0));
  const Array counts = make_array(random_values(10, 3, -5, 5), {10, 1}, DType::int8, device());
  EXPECT_EQ(matmul(h, counts).dtype(), DType::float16);
}

TEST_P(Matmul, OutMayBeAnInput) {
  const Array a = make_array(random_values(100 * 100, 1), {100, 100}, DType::float32, device());
  const Array b = make_array(random_values(100 * 100, 2), {100, 100}, DType::float32, device());
  const std::string expected = bytes(matmul(a, b));
  Array x = copy(a);
  matmul(x, b, &x);
  EXPECT_EQ(bytes(x), expected);
  Array y = copy(b);
  matmul(a, y, &y);
  EXPECT_EQ(bytes(y), expected);
}

TEST_P(Matmul, BitsDependOnRowAndColumnAlone) {
  const Array a = make_array(random_values(200 * 300, 1), {200, 300}, DType::float32, device());
  const Array b = make_array(random_values(300 * 190, 2), {300, 190}, DType::float32, device());
  set_num_threads(1);
  const Array one = matmul(a, b);
  set_num_threads(5);
  const Array five = matmul(a, b);
  set_num_threads(0);
  EXPECT_EQ(bytes(one), bytes(five));
  EXPECT_EQ(bytes(matmul(a.narrow(0, 77, 5), b.narrow(1, 33, 9))), bytes(one.narrow(0, 77, 5).narrow(1, 33, 9)));
  if (device().kind != DeviceKind::cpu) {
    EXPECT_EQ(bytes(matmul(to_device(a, testing::kCpu), to_device(b, testing::kCpu))), bytes(one));
  }
}

/// Restores what the tests of the CPU's inner loops change.
class MatmulCpu : public ::testing::Test {
 protected:
  void TearDown() override {
    cpu::set_matmul_level(cpu::MatmulLevel::avx512);
    cpu::set_matmul_low_memory(false);
    set_num_threads(0);
  }
  static std::vector<cpu::MatmulLevel> levels() {
    std::vector<cpu::MatmulLevel> found;
    for (cpu::MatmulLevel level : {cpu::MatmulLevel::plain, cpu::MatmulLevel::avx2, cpu::MatmulLevel::avx512})
      if (level <= cpu::best_matmul_level()) found.push_back(level);
    return found;
  }
  /// Elements over the whole range of an integer dtype, so that sums wrap around; complex ones with both parts.
  static Array operand(int64_t rows, int64_t columns, uint64_t seed, DType dtype) {
    if (is_complex(dtype) && columns > 0) {
      const DType part = dtype == DType::complex64 ? DType::float32 : DType::float64;
      return operand(rows, 2 * columns, seed, part).bitcast(dtype);
    }
    double low = -1, high = 1;
    if (is_integer(dtype)) {
      const int bits = static_cast<int>(8 * itemsize(dtype));
      high = std::exp2(std::min(bits, 52) - (is_unsigned_integer(dtype) ? 0 : 1));
      low = is_unsigned_integer(dtype) ? 0 : -high;
    }
    return make_array(random_values(rows * columns, seed, low, high), {rows, columns}, dtype, testing::kCpu);
  }
};

// More than one slice of k, more than one tile of rows and of columns, and edges that fit no register.
constexpr Size kBlockSizes[] = {{1, 530, 77}, {77, 530, 1},  {3, 33, 1100}, {9, 17, 40},  {270, 40, 35}, {5, 0, 40},
                                {50, 601, 7}, {33, 520, 99}, {130, 1, 131}, {1, 4101, 3}, {1, 6, 1100}};

TEST_F(MatmulCpu, EveryLevelThreadCountAndScratchGivesTheSameBits) {
  for (const Size& s : kBlockSizes)
    for (DType dtype :
         {DType::boolean, DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32, DType::int64,
          DType::float16, DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128}) {
      const Array a = operand(s.m, s.k, 1, dtype), b = operand(s.k, s.n, 2, dtype);
      const Array a_columns = contiguous(a.transpose()).transpose(), b_columns = contiguous(b.transpose()).transpose();
      const DType wide = matmul_wide_dtype(dtype);
      std::string expected, expected_wide;
      for (cpu::MatmulLevel level : levels())
        for (bool low : {false, true}) {
          cpu::set_matmul_level(level);
          cpu::set_matmul_low_memory(low);
          set_num_threads(low ? 1 : 3);
          const std::string at = std::string(name(dtype)) + " " + std::to_string(s.m) + " " + std::to_string(s.k) +
                                 " " + std::to_string(s.n) + " level " + std::to_string(static_cast<int>(level)) +
                                 (low ? " low" : "");
          const std::string got = bytes(matmul(a, b, nullptr, {.out_dtype = dtype}));
          if (expected.empty()) expected = got;
          ASSERT_EQ(got, expected) << at;
          ASSERT_EQ(bytes(matmul(a_columns, b_columns, nullptr, {.out_dtype = dtype})), expected) << at;
          const Array out = Array::empty({s.n, s.m}, dtype, testing::kCpu).transpose();
          matmul(a_columns, b, &out, {.out_dtype = dtype});
          ASSERT_EQ(bytes(out), expected) << at;
          const Array sparse = Array::empty({s.m, 2 * s.n}, dtype, testing::kCpu).slice(1, 0, 2 * s.n, 2);
          matmul(a, b_columns, &sparse, {.out_dtype = dtype});
          ASSERT_EQ(bytes(sparse), expected) << at;
          const std::string got_wide = bytes(matmul(a, b, nullptr, {.out_dtype = wide}));
          if (expected_wide.empty()) expected_wide = got_wide;
          ASSERT_EQ(got_wide, expected_wide) << at;
        }
    }
}

TEST_F(MatmulCpu, EveryElementIsOneChainOfFusedSteps) {
  for (const Size& s : {Size{1, 530, 77}, Size{61, 530, 1}, Size{37, 530, 75}, Size{7, 300, 65}}) {
    const Array a = operand(s.m, s.k, 3, DType::float32), b = operand(s.k, s.n, 4, DType::float32);
    const std::vector<double> x = to_doubles(a), y = to_doubles(b);
    std::vector<double> expected;
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < s.k; ++k)
          sum = std::fma(static_cast<float>(x[i * s.k + k]), static_cast<float>(y[k * s.n + j]), sum);
        expected.push_back(sum);
      }
    for (cpu::MatmulLevel level : levels()) {
      cpu::set_matmul_level(level);
      EXPECT_EQ(to_doubles(matmul(a, b)), expected) << s.m << " " << static_cast<int>(level);
    }
  }
}

TEST_F(MatmulCpu, NarrowIntegersAreExactAtTheirLimits) {
  // Two products of the least int16 make 2^31, which the pair of a signed register cannot hold.
  const std::vector<double> least16(35, -32768), least8(35, -128), most8(35, 255);
  for (cpu::MatmulLevel level : levels()) {
    cpu::set_matmul_level(level);
    const auto square = [](const std::vector<double>& v, DType dtype, DType out) {
      const Array row = make_array(v, {1, 35}, dtype, testing::kCpu);
      return to_doubles(matmul(row, row.transpose(), nullptr, {.out_dtype = out}))[0];
    };
    EXPECT_EQ(square(least16, DType::int16, DType::int16), 0);
    EXPECT_EQ(square(least8, DType::int8, DType::int32), 35 * 128 * 128);
    EXPECT_EQ(square(least8, DType::int8, DType::int8), 0);
    EXPECT_EQ(square(most8, DType::uint8, DType::uint8), 35 * 255 * 255 % 256);
  }
}

TEST_F(MatmulCpu, ValuesThatAreNoNumbersStayInTheirRowsAndColumns) {
  const double inf = INFINITY;
  for (cpu::MatmulLevel level : levels()) {
    cpu::set_matmul_level(level);
    for (int64_t n : {1, 5, 40}) {
      std::vector<double> x(3 * 20, 1), y(20 * n, 1);
      x[20] = inf;  // row 1
      x[40] = NAN;  // row 2
      const std::vector<double> got = to_doubles(matmul(make_array(x, {3, 20}, DType::float32, testing::kCpu),
                                                        make_array(y, {20, n}, DType::float32, testing::kCpu)));
      for (int64_t j = 0; j < n; ++j) {
        EXPECT_EQ(got[j], 20);
        EXPECT_EQ(got[n + j], inf);
        EXPECT_TRUE(std::isnan(got[2 * n + j]));
      }
      // No step is added for padding: a sum that underflows to -0 stays -0.
      const Array tiny = make_array(std::vector<double>(2, 1e-30), {2, 1}, DType::float32, testing::kCpu);
      const Array minus = make_array(std::vector<double>(n, -1e-30), {1, n}, DType::float32, testing::kCpu);
      for (double v : to_doubles(matmul(tiny, minus))) EXPECT_TRUE(v == 0 && std::signbit(v));
    }
  }
}

TEST_P(Matmul, LinearBiasGelu) {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Array x = make_array(random_values(5 * 33, 1), {5, 33}, dtype, device());
    const Array w = make_array(random_values(7 * 33, 2), {7, 33}, dtype, device());
    const Array b = make_array(random_values(7, 3), {7}, dtype, device());
    std::vector<double> expected = reference(to_doubles(x), to_doubles(contiguous(w.transpose())), 1, 5, 33, 7);
    const std::vector<double> bias = to_doubles(b);
    for (size_t i = 0; i < expected.size(); ++i) {
      const double v = expected[i] + bias[i % 7];
      expected[i] = 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    }
    EXPECT_TRUE(testing::all_close(linear_bias_gelu(x, w, b), expected, 2 * testing::epsilon(dtype),
                                   dtype == DType::float64 ? 1e-14 : 2e-5));
    const Array out = Array::empty({5, 7}, dtype, device());
    linear_bias_gelu(x, w, b, &out);
    EXPECT_EQ(bytes(out), bytes(linear_bias_gelu(x, w, b)));
    EXPECT_THROW(linear_bias_gelu(x, w, x), ShapeError);
    EXPECT_THROW(linear_bias_gelu(b, w, b), ShapeError);
  }
  const Array i = Array::empty({2, 2}, DType::int32, device());
  EXPECT_THROW(linear_bias_gelu(i, i, i), DTypeError);
}

template <typename E, typename F>
void expect_error(const char* text, F f) {
  try {
    f();
    ADD_FAILURE() << "no error, expected " << text;
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
  }
}

TEST_P(Matmul, Errors) {
  const auto array = [&](const Dims& shape, DType dtype = DType::float32) {
    return Array::empty(shape, dtype, device());
  };
  expect_error<ShapeError>("dimension", [&] { matmul(array({2, 3}), array({4, 5})); });
  expect_error<ShapeError>("2D", [&] { matmul(array({}), array({4, 5})); });
  expect_error<ShapeError>("2D", [&] { matmul(array({4, 5}), array({})); });
  expect_error<ShapeError>("shape", [&] { matmul(array({2, 3, 4}), array({3, 4, 5})); });
  expect_error<DTypeError>("float8", [&] {
    matmul(array({2, 2}, DType::float8_e4m3), array({2, 2}, DType::float8_e4m3));
  });
  expect_error<DTypeError>("common", [&] { matmul(array({2, 2}, DType::uint64), array({2, 2}, DType::int8)); });
  expect_error<Error>("float32", [&] {
    matmul(array({2, 2}, DType::float16), array({2, 2}, DType::float16), nullptr, {.precision = MatmulPrecision::tf32});
  });
  expect_error<DTypeError>("out_dtype", [&] {
    matmul(array({2, 2}, DType::float64), array({2, 2}), nullptr, {.out_dtype = DType::float32});
  });
  const Array small = array({2, 2});
  expect_error<ShapeError>("out", [&] { matmul(array({2, 3}), array({3, 3}), &small); });
  const Array other = array({2, 2}, DType::float64);
  expect_error<DTypeError>("out", [&] { matmul(array({2, 3}), array({3, 2}), &other); });
  expect_error<ShapeError>("dimension", [&] { batched_matmul(array({2, 3}), array({3, 2})); });
  expect_error<ShapeError>("dimension", [&] { batched_matmul(array({2, 3, 4}), array({1, 4, 5})); });
  expect_error<ShapeError>("2D", [&] { transpose(array({2, 3, 4})); });
  EXPECT_EQ(matmul(small, small, nullptr, {.precision = MatmulPrecision::tf32}).dtype(), DType::float32);
  EXPECT_EQ(batched_matmul(array({2, 3, 4}), array({2, 4, 5})).shape(), (Dims{2, 3, 5}));
  EXPECT_EQ(transpose(array({2, 3})).shape(), (Dims{3, 2}));
}

constexpr DType kSubtracted[] = {DType::float32, DType::float64, DType::complex64, DType::complex128};

TEST_P(Matmul, SubtractsFromItsOutput) {
  for (const Size& s : kSizes)
    for (DType dtype : kSubtracted) {
      const int64_t batch = 2;
      const auto a_values = random_values(batch * s.m * s.k, 1), b_values = random_values(batch * s.k * s.n, 2);
      auto wanted = random_values(batch * s.m * s.n, 3);
      const Array out = make_array(wanted, {batch, s.m, s.n}, dtype, device());
      subtract_product("test", out, make_array(a_values, {batch, s.m, s.k}, dtype, device()),
                       make_array(b_values, {batch, s.k, s.n}, dtype, device()));
      const auto product = reference(a_values, b_values, batch, s.m, s.k, s.n);
      for (size_t i = 0; i < wanted.size(); ++i) wanted[i] -= product[i];
      const double tolerance = 4 * testing::epsilon(real_of(dtype)) * static_cast<double>(s.k + 1);
      std::vector<double> got;
      for (const auto& value : testing::to_complex(astype(out, DType::complex128))) got.push_back(value.real());
      EXPECT_TRUE(testing::all_close(got, wanted, tolerance, tolerance)) << s.m << " " << s.k << " " << s.n;
    }
}

/// Blocks of one array, rows backwards, an output of columns: each element takes its steps one by one.
TEST_P(Matmul, SubtractsPartsOfOneArrayStepByStep) {
  constexpr int64_t kSize = 75, kCut = 30;
  for (DType dtype : kSubtracted) {
    const Array all = make_array(random_values(kSize * kSize, 4), {kSize, kSize}, dtype, device());
    const auto block = [](const Array& x, int64_t row, int64_t rows, int64_t column, int64_t columns) {
      return x.narrow(0, row, rows).narrow(1, column, columns);
    };
    const auto views = [&](const Array& x, bool turned) {
      const Array from = turned ? x.transpose().slice(0, kSize - 1, -1, -1) : x;
      return std::array{block(from, kCut, kSize - kCut, kCut, kSize - kCut), block(from, kCut, kSize - kCut, 0, kCut),
                        block(from, 0, kCut, kCut, kSize - kCut)};
    };
    for (bool turned : {false, true}) {
      const Array whole = copy(all), steps = copy(all);
      const auto [out, a, b] = views(whole, turned);
      subtract_product("test", out, a, b);
      const auto [other, left, right] = views(steps, turned);
      for (int64_t k = 0; k < kCut; ++k) subtract_product("test", other, left.narrow(1, k, 1), right.narrow(0, k, 1));
      EXPECT_EQ(bytes(whole), bytes(steps)) << name(dtype) << turned;
      EXPECT_NE(bytes(whole), bytes(all));
    }
  }
}

TEST_P(Matmul, SubtractionRefusesWhatItCannotTake) {
  const auto zeros = [&](const Dims& shape, DType dtype) {
    return make_array(std::vector<double>(static_cast<size_t>(shape.product())), shape, dtype, device());
  };
  const Array a = zeros({2, 3}, DType::float32), b = zeros({3, 4}, DType::float32), out = zeros({2, 4}, DType::float32);
  EXPECT_THROW(subtract_product("test", a, a, b), ShapeError);
  EXPECT_THROW(subtract_product("test", out, a, out), ShapeError);
  EXPECT_THROW(subtract_product("test", out, a, zeros({3, 4}, DType::float64)), DTypeError);
  EXPECT_THROW(subtract_product("test", zeros({2, 4}, DType::float64), a, b), DTypeError);
  EXPECT_THROW(
      subtract_product("test", zeros({2, 4}, DType::int32), zeros({2, 3}, DType::int32), zeros({3, 4}, DType::int32)),
      DTypeError);
}

}  // namespace
}  // namespace gpukit
