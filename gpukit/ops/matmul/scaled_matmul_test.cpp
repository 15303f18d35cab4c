#include "gpukit/ops/matmul/scaled_matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/elementwise/copy.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using testing::make_array;
using testing::random_values;
using testing::to_doubles;

class ScaledMatmul : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(ScaledMatmul);

std::string bytes(const Array& a) {
  std::string out(static_cast<size_t>(a.nbytes()), '\0');
  to_host(out.data(), contiguous(a));
  return out;
}

struct Format {
  DType dtype;
  QuantizeBlock block = kPerRow;
  bool zero_point = false;
};
struct Pair {
  Format a, b;
};
const std::vector<Pair> kPairs = {
    {{DType::float8_e4m3, kPerTensor}, {DType::float8_e4m3, kPerTensor}},
    {{DType::float8_e4m3}, {DType::float8_e4m3}},
    {{DType::float8_e4m3, {1, 128}}, {DType::float8_e4m3, {128, 128}}},
    {{DType::float8_e5m2, {1, 128}}, {DType::float8_e4m3, {1, 128}}},
    {{DType::float8_e5m2}, {DType::float8_e5m2, kPerTensor}},
    {{DType::int8}, {DType::int8}},
    {{DType::int4}, {DType::int4, kPerTensor}},
    {{DType::float4_e2m1, {1, 16}}, {DType::float4_e2m1, {1, 16}}},
    {{DType::float4_e2m1, {1, 32}}, {DType::float4_e2m1, {1, 32}}},
    {{DType::bfloat16}, {DType::float8_e4m3}},
    {{DType::float16}, {DType::float8_e5m2, {128, 128}}},
    {{DType::bfloat16}, {DType::int8}},
    {{DType::float16}, {DType::int8, kPerTensor}},
    {{DType::bfloat16}, {DType::int4, {1, 32}}},
    {{DType::float16}, {DType::int4, {1, 64}}},
    {{DType::float32}, {DType::int4, {1, 128}}},
    {{DType::bfloat16}, {DType::int4, {1, 32}, true}},
    {{DType::float16}, {DType::int4, {1, 128}, true}},
    {{DType::bfloat16}, {DType::float4_e2m1, {1, 16}}},
    {{DType::float32}, {DType::float4_e2m1, {1, 32}}},
};

bool is_plain(DType d) { return is_floating(d); }

std::string text(const Pair& p) {
  const auto one = [](const Format& f) {
    return std::string(name(f.dtype)) + " " + std::to_string(f.block.rows) + "x" + std::to_string(f.block.columns);
  };
  return one(p.a) + " by " + one(p.b) + (p.b.zero_point ? " zero" : "");
}

/// Random numbers in a format: quantised values, or a plain array.
Quantized make(const Format& f, const Dims& shape, uint64_t seed, Device device) {
  const auto values = random_values(static_cast<size_t>(shape.product()), seed);
  if (is_plain(f.dtype)) return make_array(values, shape, f.dtype, device);
  return quantize(make_array(values, shape, DType::float32, device), f.dtype,
                  {.block = f.block, .zero_point = f.zero_point});
}

/// The numbers of an operand, exactly as quantised values and scales say.
std::vector<double> exact(const Quantized& q) {
  if (is_plain(q.data.dtype())) return to_doubles(q.data);
  if (!q.tensor_scale.defined()) return to_doubles(dequantize(q));
  // The last factor of nvfp4 is left out of the rounding of dequantize.
  std::vector<double> values = to_doubles(dequantize({q.data, q.scale}));
  const double whole = to_doubles(q.tensor_scale)[0];
  for (double& v : values) v *= whole;
  return values;
}

std::vector<double> reference(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                              int64_t k) {
  std::vector<double> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[i * k + l] * b[j * k + l];
      out[i * n + j] = sum;
    }
  return out;
}

struct Size {
  int64_t m, n, k;
};

TEST_P(ScaledMatmul, MatchesFloat64) {
  for (const Size& s : {Size{1, 1, 2}, Size{3, 5, 34}, Size{0, 3, 32}, Size{3, 0, 32}, Size{2, 3, 0}, Size{65, 67, 130},
                        Size{1, 130, 2100}, Size{70, 33, 300}, Size{5, 129, 4200}})
    for (const Pair& p : kPairs) {
      const Quantized a = make(p.a, {s.m, s.k}, 1, device()), b = make(p.b, {s.n, s.k}, 2, device());
      const std::vector<double> expected = reference(exact(a), exact(b), s.m, s.n, s.k);
      for (DType out : {DType::float32, DType::float16, DType::bfloat16}) {
        const Array got = scaled_matmul(a, b, {.out_dtype = out});
        EXPECT_EQ(got.shape(), (Dims{s.m, s.n}));
        EXPECT_EQ(got.dtype(), out);
        // Numbers are below 1 and dequantised once, sums rounded once per step.
        EXPECT_TRUE(testing::all_close(got, expected, testing::epsilon(out) + 0x1p-22,
                                       0x1p-24 * static_cast<double>(2 * s.k + 2)))
            << text(p) << " " << s.m << " " << s.n << " " << s.k;
      }
    }
}

/// The sum of scaled_matmul.h, written out for one element.
float ordered_sum(const std::vector<float>& a, const std::vector<float>& b, int64_t group, int64_t chain,
                  const std::vector<float>& group_scales) {
  float total = 0, in_chain = 0, sum = 0;
  const int64_t k = static_cast<int64_t>(a.size());
  for (int64_t i = 0; i < k; ++i) {
    sum = std::fma(a[i], b[i], sum);
    if ((i + 1) % group == 0 || i + 1 == k) {
      in_chain = std::fma(sum, group_scales.empty() ? 1.0f : group_scales[i / group], in_chain);
      sum = 0;
    }
    if ((i + 1) % chain == 0 || i + 1 == k) {
      total += in_chain;
      in_chain = 0;
    }
  }
  return total;
}

std::vector<float> floats(const Array& a) {
  const std::vector<double> values = to_doubles(a);
  return {values.begin(), values.end()};
}
/// The numbers of quantised values without their scales.
std::vector<float> values_of(const Quantized& q) {
  return floats(dequantize({q.data, make_array(std::vector<double>{1}, {}, DType::float32, q.data.device())}));
}

/// On the CPU alone: kernels for tensor cores and for vectors have orders of their own.
TEST(ScaledMatmulOrder, OfTheCpu) {
  const int64_t k = 4700;
  const Array x = make_array(random_values(k, 1), {1, k}, DType::bfloat16, testing::kCpu);
  const auto value = [](const Array& got) { return static_cast<float>(to_doubles(got)[0]); };
  const ScaledMatmulOptions wide{.out_dtype = DType::float32};
  {  // float8 by float8, row scales: partial sums of 128, the scales at the end.
    const Quantized a = quantize(x, DType::float8_e4m3, {}), b = make({DType::float8_e4m3}, {1, k}, 2, testing::kCpu);
    const float total = ordered_sum(values_of(a), values_of(b), 128, 128, {});
    EXPECT_EQ(value(scaled_matmul(a, b, wide)), total * (floats(a.scale)[0] * floats(b.scale)[0]));
  }
  {  // float8 by float8, block scales: each partial sum is scaled.
    const Quantized a = quantize(x, DType::float8_e4m3, {.block = {1, 128}});
    const Quantized b = make({DType::float8_e4m3, {128, 128}}, {1, k}, 2, testing::kCpu);
    std::vector<float> scales = floats(a.scale);
    const std::vector<float> other = floats(b.scale);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] *= other[i];
    EXPECT_EQ(value(scaled_matmul(a, b, wide)), ordered_sum(values_of(a), values_of(b), 128, 128, scales));
  }
  // 8-bit weights alone: chains of 256.
  for (DType values : {DType::int8, DType::float8_e4m3, DType::float8_e5m2}) {
    const Quantized b = make({values}, {1, k}, 3, testing::kCpu);
    const float total = ordered_sum(floats(x), values_of(b), 256, 256, {});
    EXPECT_EQ(value(scaled_matmul(x, b, wide)), total * floats(b.scale)[0]);
  }
  {  // With scales of blocks: groups inside chains.
    const Quantized b = make({DType::float8_e4m3, {128, 128}}, {1, k}, 3, testing::kCpu);
    EXPECT_EQ(value(scaled_matmul(x, b, wide)), ordered_sum(floats(x), values_of(b), 128, 2048, floats(b.scale)));
  }
  {  // int4: groups inside chains.
    const Quantized b = make({DType::int4, {1, 64}}, {1, k}, 4, testing::kCpu);
    EXPECT_EQ(value(scaled_matmul(x, b, wide)), ordered_sum(floats(x), values_of(b), 64, 2048, floats(b.scale)));
  }
  {  // nvfp4: the block's scale is part of the number.
    const Quantized b = make({DType::float4_e2m1, {1, 16}}, {1, k}, 5, testing::kCpu);
    const float total = ordered_sum(floats(x), floats(dequantize({b.data, b.scale})), 2048, 2048, {});
    EXPECT_EQ(value(scaled_matmul(x, b, wide)), total * floats(b.tensor_scale)[0]);
  }
}

/// Every format that few rows have kernels for.
std::vector<Pair> small_row_pairs() {
  std::vector<Format> weights = {
      {DType::float8_e4m3},      {DType::float8_e4m3, kPerTensor}, {DType::float8_e4m3, {128, 128}}, {DType::int8},
      {DType::int8, kPerTensor}, {DType::float4_e2m1, {1, 16}},    {DType::float4_e2m1, {1, 32}}};
  for (int64_t group : {32, 64, 128})
    for (bool zero_point : {false, true}) weights.push_back({DType::int4, {1, group}, zero_point});
  std::vector<Pair> pairs;
  for (DType x : {DType::float16, DType::bfloat16})
    for (const Format& w : weights) pairs.push_back({{x}, w});
  for (const QuantizeBlock& x : {kPerTensor, QuantizeBlock{1, 128}})
    for (const QuantizeBlock& w : {kPerRow, kPerTensor, QuantizeBlock{128, 128}})
      pairs.push_back({{DType::float8_e4m3, x}, {DType::float8_e4m3, w}});
  return pairs;
}
/// One row: of one round of threads or more, with and without an end inside a warp's part. More: both sizes of tiles.
const std::vector<Size> kSmallRowSizes = {{1, 1, 128},    {1, 3, 64},    {1, 33, 96},    {1, 131, 640},  {1, 261, 2176},
                                          {1, 5, 4128},   {1, 7, 8320},  {5, 131, 640},  {16, 71, 2176}, {17, 33, 96},
                                          {40, 33, 2176}, {64, 65, 256}, {130, 70, 2176}};

TEST_P(ScaledMatmul, FewRowsMatchFloat64) {
  for (const Size& s : kSmallRowSizes)
    for (const Pair& p : small_row_pairs()) {
      const Quantized a = make(p.a, {s.m, s.k}, 1, device()), b = make(p.b, {s.n, s.k}, 2, device());
      const std::vector<double> expected = reference(exact(a), exact(b), s.m, s.n, s.k);
      for (DType out : {DType::float32, DType::float16, DType::bfloat16})
        EXPECT_TRUE(testing::all_close(scaled_matmul(a, b, {.out_dtype = out}), expected,
                                       testing::epsilon(out) + 0x1p-22, 0x1p-24 * static_cast<double>(2 * s.k + 2)))
            << text(p) << " " << s.m << " " << s.n << " " << s.k;
    }
}

/// So many columns that a block on the GPU takes several groups of them.
TEST_P(ScaledMatmul, OneRowOfManyColumns) {
  const int64_t n = 67603, k = 128;
  const Array a = make_array(random_values(k, 1), {1, k}, DType::bfloat16, device());
  for (const Format& format :
       {Format{DType::int8}, Format{DType::int4, {1, 128}, true}, Format{DType::float4_e2m1, {1, 16}}}) {
    const Quantized b = make(format, {n, k}, 2, device());
    const std::vector<double> expected = reference(to_doubles(a), exact(b), 1, n, k);
    EXPECT_TRUE(testing::all_close(scaled_matmul(a, b, {.out_dtype = DType::float32}), expected,
                                   testing::epsilon(DType::float32) + 0x1p-22,
                                   0x1p-24 * static_cast<double>(2 * k + 2)))
        << text({{DType::bfloat16}, format});
  }
}

/// A row that is 1 at one place takes out a column, exactly.
TEST_P(ScaledMatmul, FewRowsMeetTheirWeights) {
  for (const Size& s : kSmallRowSizes)
    for (const Pair& p : small_row_pairs()) {
      const Quantized b = make(p.b, {s.n, s.k}, 2, device());
      const std::vector<double> numbers = to_doubles(dequantize(b));
      for (int64_t first : {int64_t{0}, int64_t{37}, s.k / 2 + 5, s.k - 1}) {
        std::vector<double> ones(static_cast<size_t>(s.m * s.k), 0), columns;
        for (int64_t i = 0; i < s.m; ++i) {
          const int64_t at = (first + 41 * i) % s.k;
          ones[static_cast<size_t>(i * s.k + at)] = 1;
          for (int64_t row = 0; row < s.n; ++row) columns.push_back(numbers[static_cast<size_t>(row * s.k + at)]);
        }
        const Array x = make_array(ones, {s.m, s.k}, p.a.dtype, device());
        EXPECT_EQ(to_doubles(scaled_matmul(x, b, {.out_dtype = DType::float32})), columns)
            << text(p) << " " << s.m << " " << s.n << " " << s.k << " from " << first;
      }
    }
}

TEST_P(ScaledMatmul, FewRowsDoNotSeeOthers) {
  const int64_t n = 300, k = 640;
  for (const Pair& p : small_row_pairs()) {
    const Quantized a = make(p.a, {150, k}, 1, device()), b = make(p.b, {n, k}, 2, device());
    Quantized slice = b;
    slice.data = b.data.narrow(0, 128, 5);
    const bool blocks = b.scale.ndim() > 0 && b.scale.shape(0) != n;
    if (b.scale.ndim() > 0) slice.scale = b.scale.narrow(0, blocks ? 1 : 128, blocks ? 1 : 5);
    if (b.zero.defined()) slice.zero = b.zero.narrow(0, 128, 5);
    const auto first = [&](int64_t rows) {
      Quantized part = a;
      part.data = a.data.narrow(0, 0, rows);
      if (a.scale.defined() && a.scale.ndim() > 0) part.scale = a.scale.narrow(0, 0, rows);
      return part;
    };
    for (int64_t m : {1, 5, 40, 150}) {
      if (m > 1 && !is_plain(p.a.dtype))
        continue;  // more rows of quantised values have kernels that read other weights
      EXPECT_EQ(bytes(scaled_matmul(first(m), slice)), bytes(scaled_matmul(first(m), b).narrow(1, 128, 5)))
          << text(p) << " " << m;
    }
    // From 2 rows on, a row does not see the number of them.
    EXPECT_EQ(bytes(scaled_matmul(first(5), b)), bytes(scaled_matmul(a, b).narrow(0, 0, 5))) << text(p);
  }
}

TEST_P(ScaledMatmul, BitsDependOnRowAndColumnAlone) {
  for (const Pair& p : kPairs) {
    const Quantized a = make(p.a, {150, 290}, 1, device()), b = make(p.b, {140, 290}, 2, device());
    set_num_threads(1);
    const std::string one = bytes(scaled_matmul(a, b));
    set_num_threads(5);
    const Array many = scaled_matmul(a, b);
    set_num_threads(0);
    EXPECT_EQ(bytes(many), one) << text(p);
    Quantized slice = a;
    slice.data = a.data.narrow(0, 77, 3);
    if (a.scale.defined() && a.scale.ndim() > 0) slice.scale = a.scale.narrow(0, 77, 3);
    EXPECT_EQ(bytes(scaled_matmul(slice, b)), bytes(many.narrow(0, 77, 3))) << text(p);
  }
}

TEST_P(ScaledMatmul, AnyLayout) {
  for (const Pair& p : kPairs) {
    const Quantized a = make(p.a, {33, 162}, 1, device()), b = make(p.b, {70, 162}, 2, device());
    const Array expected = scaled_matmul(a, b);
    const auto columns = [](const Array& x) {
      return x.defined() && x.ndim() == 2 ? contiguous(x.transpose()).transpose() : x;
    };
    const Quantized a_columns(columns(a.data), columns(a.scale), columns(a.zero), a.tensor_scale);
    const Quantized b_columns(columns(b.data), columns(b.scale), columns(b.zero), b.tensor_scale);
    EXPECT_EQ(bytes(scaled_matmul(a_columns, b)), bytes(expected)) << text(p);
    EXPECT_EQ(bytes(scaled_matmul(a, b_columns)), bytes(expected)) << text(p);
    const Array out = Array::empty({70, 33}, expected.dtype(), device()).transpose();
    EXPECT_EQ(scaled_matmul(a, b, {}, &out).storage(), out.storage());
    EXPECT_EQ(bytes(out), bytes(expected)) << text(p);

    // A vector is one row.
    Quantized row = a;
    row.data = a.data.select(0, 4);
    if (a.scale.defined() && a.scale.ndim() > 0) row.scale = a.scale.narrow(0, 4, 1);
    const Array vector = scaled_matmul(row, b);
    EXPECT_EQ(vector.shape(), (Dims{70}));
    EXPECT_EQ(bytes(vector), bytes(expected.select(0, 4))) << text(p);
  }
}

TEST_P(ScaledMatmul, IntegersAreExact) {
  const int64_t m = 67, n = 70, k = 1000;
  for (DType dtype : {DType::int8, DType::int4}) {
    std::vector<uint8_t> x(static_cast<size_t>(m * k)), y(static_cast<size_t>(n * k));
    const std::vector<double> r = random_values(x.size(), 1, 0, 256), t = random_values(y.size(), 2, 0, 256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(r[i]);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<uint8_t>(t[i]);
    const Array a = from_host(x.data(), {m, k}, dtype, device()), b = from_host(y.data(), {n, k}, dtype, device());
    const Array one = make_array(std::vector<double>{1}, {}, DType::float32, device());
    const int64_t steps = is_packed(dtype) ? 2 * k : k;
    const std::vector<double> expected =
        reference(to_doubles(dequantize({a, one})), to_doubles(dequantize({b, one})), m, n, steps);
    const Array got = scaled_matmul(a, b);
    EXPECT_EQ(got.dtype(), DType::int32);
    EXPECT_EQ(to_doubles(got), expected) << name(dtype);
  }
  // Sums past 2^31 wrap around.
  const int64_t many = (1 << 17) + 5;
  const Array low = make_array(std::vector<double>(many, -128), {1, many}, DType::int8, device());
  EXPECT_EQ(to_doubles(scaled_matmul(low, low))[0], -0x1p31 + 5 * 128 * 128);
}

TEST_P(ScaledMatmul, AlphaBiasAndFloat8Results) {
  for (const int64_t m : {9, 1}) {
    const int64_t n = 70, k = 96;
    const Quantized a = make({DType::float8_e4m3}, {m, k}, 1, device()),
                    b = make({DType::float8_e4m3}, {n, k}, 2, device());
    std::vector<double> expected = reference(exact(a), exact(b), m, n, k);
    for (DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
      const Array bias = make_array(random_values(n, 3), {n}, dtype, device());
      const std::vector<double> shift = to_doubles(bias);
      std::vector<double> shifted = expected;
      for (size_t i = 0; i < shifted.size(); ++i) shifted[i] = shifted[i] * 0.5 + shift[i % static_cast<size_t>(n)];
      EXPECT_TRUE(testing::all_close(scaled_matmul(a, b, {.alpha = 0.5f, .bias = bias}), shifted, 1e-6, 1e-5));
    }
    const Array scale = make_array(std::vector<double>{0.25}, {}, DType::float32, device());
    const Array plain = scaled_matmul(a, b);
    for (DType dtype : {DType::float8_e4m3, DType::float8_e5m2}) {
      const Array got = scaled_matmul(a, b, {.out_dtype = dtype, .out_scale = scale});
      std::vector<double> wanted = to_doubles(plain);
      for (double& v : wanted) v *= 4;
      EXPECT_EQ(bytes(got), bytes(make_array(wanted, {m, n}, dtype, device())));
    }
  }
}

TEST_P(ScaledMatmul, OutMayShareMemory) {
  const Array x = make_array(random_values(64 * 64, 1), {64, 64}, DType::float32, device());
  const Quantized b = make({DType::int8}, {64, 64}, 2, device());
  const std::string expected = bytes(scaled_matmul(x, b));
  scaled_matmul(x, b, {}, &x);
  EXPECT_EQ(bytes(x), expected);
}

TEST_P(ScaledMatmul, GroupedTakesEachRowsExpert) {
  const int64_t m = 150, n = 70, experts = 5;
  const int64_t k = 162;  // for which few rows have no kernel of their own
  const std::vector<double> drawn = random_values(m, 7, 0, static_cast<double>(experts));
  const Array ids = make_array(drawn, {m}, DType::int32, device());
  const std::vector<double> id = to_doubles(ids);
  for (const Pair& p : kPairs) {
    const Quantized a = make(p.a, {m, k}, 1, device()), b = make(p.b, {experts, n, k}, 2, device());
    const Array got = grouped_matmul(a, b, ids);
    for (int64_t i = 0; i < m; i += 29) {
      Quantized row = a, matrix = b;
      row.data = a.data.narrow(0, i, 1);
      if (a.scale.defined() && a.scale.ndim() > 0) row.scale = a.scale.narrow(0, i, 1);
      const int64_t e = static_cast<int64_t>(id[static_cast<size_t>(i)]);
      matrix.data = b.data.select(0, e);
      if (b.scale.ndim() > 0) matrix.scale = b.scale.select(0, e);
      if (b.zero.defined()) matrix.zero = b.zero.select(0, e);
      EXPECT_EQ(bytes(got.narrow(0, i, 1)), bytes(scaled_matmul(row, matrix))) << text(p) << " row " << i;
    }
  }
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    const Array a = make_array(random_values(m * k, 1), {m, k}, dtype, device());
    const Array b = make_array(random_values(experts * n * k, 2), {experts, n, k}, dtype, device());
    const Array got = grouped_matmul(a, b, ids);
    for (int64_t i = 0; i < m; i += 29) {
      const auto expected =
          reference(to_doubles(a.narrow(0, i, 1)),
                    to_doubles(b.select(0, static_cast<int64_t>(id[static_cast<size_t>(i)]))), 1, n, k);
      EXPECT_TRUE(testing::all_close(got.narrow(0, i, 1), expected, testing::epsilon(dtype), 1e-5));
    }
  }
}

TEST_P(ScaledMatmul, BadExpertsAreFaults) {
  const Array ids = make_array(std::vector<double>{0, 7, 1, -1}, {4}, DType::int32, device());
  const Array a = make_array(random_values(4 * 32, 1), {4, 32}, DType::float32, device());
  const Quantized b = make({DType::int8}, {2, 70, 32}, 2, device());
  const Array got = grouped_matmul(a, b, ids);
  EXPECT_THROW(to_doubles(got), OutOfRangeError);
  const std::vector<double> values = to_doubles(got);
  for (size_t i = 0; i < 70; ++i) {
    EXPECT_EQ(values[70 + i], 0);
    EXPECT_EQ(values[210 + i], 0);
  }
  EXPECT_NE(values[0], 0);
  EXPECT_NE(values[140], 0);
}

template <typename E, typename F>
void expect_error(const char* wanted, F f) {
  try {
    f();
    ADD_FAILURE() << "no error, expected " << wanted;
  } catch (const E& e) {
    EXPECT_NE(std::string(e.what()).find(wanted), std::string::npos) << e.what();
  }
}

TEST_P(ScaledMatmul, Errors) {
  const auto array = [&](const Dims& shape, DType dtype = DType::float32) {
    return Array::empty(shape, dtype, device());
  };
  const Array x = array({4, 64}), w8 = array({6, 64}, DType::int8), w4 = array({6, 32}, DType::int4);
  const Array f8 = array({4, 64}, DType::float8_e4m3), nv = array({6, 32}, DType::float4_e2m1);
  expect_error<DTypeError>("matmul takes plain floats", [&] { scaled_matmul(x, array({6, 64})); });
  expect_error<DTypeError>("beside a of float8_e4m3", [&] { scaled_matmul(f8, w8); });
  expect_error<DTypeError>("a must be", [&] { scaled_matmul(array({4, 64}, DType::int16), w8); });
  expect_error<ShapeError>("a must be 2D", [&] { scaled_matmul(array({1, 4, 64}), w8); });
  expect_error<ShapeError>("b must be 2D", [&] { scaled_matmul(x, array({1, 6, 64}, DType::int8)); });
  expect_error<ShapeError>("inner dimension", [&] { scaled_matmul(x, array({6, 32}, DType::int8)); });
  expect_error<ArgumentError>("scale_a must be None", [&] { scaled_matmul({x, array({})}, w8); });
  expect_error<DTypeError>("scale_b must have dtype float32", [&] {
    scaled_matmul(x, {w8, array({}, DType::float16)});
  });
  expect_error<ShapeError>("scale_b must be one number", [&] { scaled_matmul(x, {w8, array({5, 1})}); });
  expect_error<ArgumentError>("zero_b must be None", [&] {
    scaled_matmul(x, {w8, array({}), array({}, DType::int8)});
  });
  expect_error<ShapeError>("zero_b must have the shape", [&] {
    scaled_matmul(x, {w4, array({6, 2}), array({6, 1}, DType::int8)});
  });
  expect_error<ArgumentError>("scale_b must be given", [&] { scaled_matmul(x, nv); });
  expect_error<ArgumentError>("not vary along k", [&] {
    scaled_matmul(array({4, 64}, DType::int8), {w8, array({6, 2})});
  });
  expect_error<DTypeError>("out_dtype", [&] { scaled_matmul(x, w8, {.out_dtype = DType::int32}); });
  expect_error<ArgumentError>("out_scale", [&] { scaled_matmul(x, w8, {.out_scale = array({})}); });
  expect_error<ShapeError>("bias must have shape", [&] { scaled_matmul(x, w8, {.bias = array({4})}); });
  expect_error<DTypeError>("bias", [&] { scaled_matmul(x, w8, {.bias = array({6}, DType::int32)}); });
  const Array small = array({4, 5});
  expect_error<ShapeError>("out must have shape", [&] { scaled_matmul(x, w8, {}, &small); });
  const Array many = array({2, 6, 64}, DType::int8);
  expect_error<DTypeError>("row_expert_ids", [&] { grouped_matmul(x, many, array({4}, DType::int64)); });
  expect_error<ShapeError>("row_expert_ids", [&] { grouped_matmul(x, many, array({5}, DType::int32)); });
  expect_error<ShapeError>("b must be 3D", [&] { grouped_matmul(x, w8, array({4}, DType::int32)); });
  expect_error<DTypeError>("like a", [&] {
    grouped_matmul(x, array({2, 6, 64}, DType::float16), array({4}, DType::int32));
  });
}

}  // namespace
}  // namespace gpukit
