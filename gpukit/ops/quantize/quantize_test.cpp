#include "gpukit/ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

class Quantize : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(Quantize);

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kTiny = 0x1p-126f;

std::vector<uint8_t> bytes(const Array& a) {
  if (!a.defined()) return {};
  std::vector<uint8_t> out(static_cast<size_t>(a.nbytes()));
  to_host(out.data(), contiguous(a));
  return out;
}

/// Every code of a format as a double, written out from its definition. Index: the code.
std::vector<double> table_of(DType format) {
  std::vector<double> table;
  const auto small_float = [&](int exponent_bits, int mantissa_bits, int bias) {
    const int magnitudes = 1 << (exponent_bits + mantissa_bits);
    for (int code = 0; code < 2 * magnitudes; ++code) {
      const int exponent = (code % magnitudes) >> mantissa_bits, mantissa = code % (1 << mantissa_bits);
      const double magnitude = exponent == 0
                                   ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                   : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
      table.push_back(code < magnitudes ? magnitude : -magnitude);
    }
  };
  switch (format) {
    case DType::float8_e4m3:
      small_float(4, 3, 7);
      table[0x7f] = table[0xff] = std::nan("");
      break;
    case DType::float8_e5m2:
      small_float(5, 2, 15);
      for (int code = 0x7d; code < 0x80; ++code) table[code] = table[code + 128] = std::nan("");
      table[0x7c] = kInfinity;
      table[0xfc] = -kInfinity;
      break;
    case DType::float4_e2m1: small_float(2, 1, 1); break;
    case DType::int8:
      for (int code = 0; code < 256; ++code) table.push_back(code < 128 ? code : code - 256);
      break;
    default:
      for (int code = 0; code < 16; ++code) table.push_back(code < 8 ? code : code - 16);
  }
  return table;
}

/// The code nearest to v among those from `low` to `high`, the even one of two: integers are compared, floats searched.
int nearest_code(DType format, double v, int low, int high) {
  const std::vector<double> table = table_of(format);
  const int half = static_cast<int>(table.size()) / 2;
  if (format == DType::int8 || format == DType::int4) {
    const double even = std::nearbyint(std::isnan(v) ? 0 : std::clamp(v, -1e6, 1e6));
    return static_cast<int>(std::clamp<double>(even, low, high)) & (2 * half - 1);
  }
  if (std::isnan(v)) return format == DType::float4_e2m1 ? 0 : half - 1;
  const int sign = std::signbit(v) ? half : 0;
  if (std::isinf(v) && format == DType::float8_e5m2) return sign | 0x7c;
  const double magnitude = std::min(std::abs(v), 1e9);
  int best = 0;
  for (int code = 0; code < half && std::isfinite(table[code]); ++code) {
    const double distance = std::abs(table[code] - magnitude), least = std::abs(table[best] - magnitude);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return best | sign;
}

struct Case {
  DType format;
  QuantizeBlock block;
  bool zero_point = false, tensor_scale = true;
};
const std::vector<Case> kCases = {
    {DType::float8_e4m3, kPerTensor}, {DType::float8_e4m3, kPerRow}, {DType::float8_e4m3, {1, 128}},
    {DType::float8_e4m3, {128, 128}}, {DType::float8_e5m2, kPerRow}, {DType::float8_e5m2, {128, 128}},
    {DType::int8, kPerTensor},        {DType::int8, kPerRow},        {DType::int4, kPerTensor},
    {DType::int4, kPerRow},           {DType::int4, {1, 32}},        {DType::int4, {1, 64}},
    {DType::int4, {1, 128}},          {DType::int4, {1, 32}, true},  {DType::int4, {1, 128}, true},
    {DType::float4_e2m1, {1, 16}},    {DType::float4_e2m1, {1, 32}}, {DType::float4_e2m1, {1, 16}, false, false},
};
std::string text(const Case& c) {
  return std::string(name(c.format)) + " " + std::to_string(c.block.rows) + "x" + std::to_string(c.block.columns) +
         (c.zero_point ? " zero" : "");
}
QuantizeOptions options_of(const Case& c) { return {c.block, c.zero_point, c.tensor_scale}; }

TEST_P(Quantize, EveryCodeDequantizes) {
  for (DType format : {DType::float8_e4m3, DType::float8_e5m2, DType::int8, DType::int4, DType::float4_e2m1}) {
    std::vector<uint8_t> codes(256);
    for (int i = 0; i < 256; ++i) codes[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
    const Array data = from_host(codes.data(), {1, 256}, format, device());
    const bool nvfp4 = format == DType::float4_e2m1;
    const Array scale = make_array(std::vector<double>{0.5}, {}, nvfp4 ? DType::float8_e4m3 : DType::float32, device());
    const std::vector<double> got = to_doubles(dequantize({data, scale})), table = table_of(format);
    ASSERT_EQ(got.size(), is_packed(format) ? 512u : 256u);
    for (size_t i = 0; i < got.size(); ++i) {
      const double expected = 0.5 * (is_packed(format) ? table[i % 2 == 0 ? i / 2 % 16 : i / 32] : table[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got[i])) << name(format) << " " << i;
      } else {
        EXPECT_EQ(got[i], expected) << name(format) << " " << i;
        EXPECT_EQ(std::signbit(got[i]), std::signbit(expected)) << name(format) << " " << i;
      }
    }
  }
}

TEST_P(Quantize, EveryBlockScaleOfNvfp4) {
  std::vector<uint8_t> scales(256), codes(256, 0x2a);  // -1, 1
  for (int i = 0; i < 256; ++i) scales[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  const std::vector<double> table = table_of(DType::float8_e4m3);
  std::vector<uint8_t> data(256 * 8, 0x2a);
  const Array q = from_host(data.data(), {256, 8}, DType::float4_e2m1, device());
  const Array s = from_host(scales.data(), {256, 1}, DType::float8_e4m3, device());
  const std::vector<double> got = to_doubles(dequantize({q, s}));
  for (size_t i = 0; i < 256; ++i) {
    if (std::isnan(table[i])) continue;
    EXPECT_EQ(got[16 * i], -table[i]) << i;
    EXPECT_EQ(got[16 * i + 1], table[i]) << i;
  }
}

/// Values between all neighbours of a format, on the ties and beside them, with a scale of 1.
TEST_P(Quantize, RoundsToNearestEven) {
  for (DType format : {DType::float8_e4m3, DType::float8_e5m2, DType::int8, DType::int4, DType::float4_e2m1}) {
    const std::vector<double> table = table_of(format);
    const size_t half = table.size() / 2;
    const double top = format == DType::float8_e4m3   ? 448
                       : format == DType::float8_e5m2 ? 57344
                       : format == DType::int8        ? 127
                       : format == DType::int4        ? 7
                                                      : 6;
    std::vector<double> values{top, -top};
    for (size_t code = 0; code + 1 < half && table[code + 1] <= top; ++code) {
      const float tie = static_cast<float>((table[code] + table[code + 1]) / 2);
      for (float v : {static_cast<float>(table[code]), tie, std::nextafter(tie, 0.0f), std::nextafter(tie, 1e9f)})
        values.insert(values.end(), {v, -v});
    }
    // nvfp4: one row of 16 at a time, each with the largest number, so that its scale is 1.
    const bool nvfp4 = format == DType::float4_e2m1;
    std::vector<double> rows;
    for (size_t i = 0; i < values.size(); i += 14) {
      rows.insert(rows.end(), {top, -top});
      for (size_t j = i; j < i + 14; ++j) rows.push_back(j < values.size() ? values[j] : 0);
    }
    const int64_t count = static_cast<int64_t>(rows.size()) / 16;
    const Array x = make_array(rows, {count, 16}, DType::float32, device());
    const Quantized q =
        quantize(x, format, {.block = nvfp4 ? QuantizeBlock{1, 16} : kPerTensor, .tensor_scale = false});
    const std::vector<uint8_t> codes = bytes(q.data);
    for (size_t i = 0; i < rows.size(); ++i) {
      const int got = is_packed(format) ? (i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4) : codes[i];
      EXPECT_EQ(got, nearest_code(format, rows[i], -static_cast<int>(top), static_cast<int>(top)))
          << name(format) << " " << rows[i];
    }
  }
}

/// The formulas of docs/quantisation.md once more, element by element.
void check_formulas(const Case& c, const std::vector<float>& x, int64_t rows, int64_t columns, const Quantized& q) {
  const std::vector<uint8_t> codes = bytes(q.data);
  const std::vector<double> scales = to_doubles(q.scale);
  const std::vector<double> zeros = c.zero_point ? to_doubles(q.zero) : std::vector<double>();
  const auto largest = [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    float found = 0;
    for (int64_t r = r0; r < std::min(r1, rows); ++r)
      for (int64_t k = c0; k < std::min(c1, columns); ++k)
        if (std::isfinite(x[r * columns + k])) found = std::max(found, std::abs(x[r * columns + k]));
    return found;
  };
  const bool nvfp4 = c.format == DType::float4_e2m1;
  const float limit = nvfp4                            ? 6.0f
                      : c.format == DType::float8_e4m3 ? 448.0f
                      : c.format == DType::float8_e5m2 ? 57344.0f
                      : c.format == DType::int8        ? 127.0f
                                                       : 7.0f;
  const int64_t block_rows = c.block.rows == 0 ? rows : c.block.rows;
  const int64_t block_columns = c.block.columns == 0 ? columns : c.block.columns;
  const int64_t across = (columns + block_columns - 1) / block_columns;
  float whole = 1;
  if (nvfp4 && c.tensor_scale) {
    whole = std::max(largest(0, rows, 0, columns) / 2688.0f, kTiny);
    EXPECT_EQ(to_doubles(q.tensor_scale)[0], whole);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < columns; ++k) {
      const int64_t r0 = r / block_rows * block_rows, k0 = k / block_columns * block_columns;
      const size_t block = static_cast<size_t>(r / block_rows * across + k / block_columns);
      const float in_block = largest(r0, r0 + block_rows, k0, k0 + block_columns);
      float divisor = std::max(in_block / limit, kTiny);
      int zero = 0;
      if (c.zero_point) {
        float low = 0, high = 0;
        for (int64_t i = k0; i < std::min(k0 + block_columns, columns); ++i)
          if (std::isfinite(x[r * columns + i])) {
            low = std::min(low, x[r * columns + i]);
            high = std::max(high, x[r * columns + i]);
          }
        divisor = std::max(high / 15.0f - low / 15.0f, kTiny);
        zero = static_cast<int>(std::clamp(std::nearbyint(-low / divisor), 0.0f, 15.0f)) - 8;
        ASSERT_EQ(zeros[block], zero) << text(c);
      }
      if (nvfp4) {
        const int scale_code = nearest_code(DType::float8_e4m3, in_block / 6.0f / whole, 0, 0);
        divisor = static_cast<float>(table_of(DType::float8_e4m3)[static_cast<size_t>(scale_code)]);
        ASSERT_EQ(scales[block], divisor) << text(c);
        divisor *= whole;
      } else {
        ASSERT_EQ(scales[block], divisor) << text(c) << " " << r << " " << k;
      }
      const float v = divisor == 0 ? 0.0f : x[r * columns + k] / divisor;
      const int low = c.zero_point ? -8 - zero : -static_cast<int>(limit), high = c.zero_point ? 7 - zero : -low;
      const int code = (nearest_code(c.format, v, low, high) + zero) & (is_packed(c.format) ? 15 : 255);
      const size_t at = static_cast<size_t>(r * columns + k);
      const int got = is_packed(c.format) ? (at % 2 == 0 ? codes[at / 2] & 15 : codes[at / 2] >> 4) : codes[at];
      ASSERT_EQ(got, code) << text(c) << " " << r << " " << k << " " << x[at];
    }
}

TEST_P(Quantize, FollowsTheFormulas) {
  for (const Case& c : kCases)
    for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
      const int64_t rows = 7, columns = 150;
      std::vector<double> values = random_values(rows * columns, 1, -3, 5);
      for (int64_t k = 0; k < columns; ++k) values[static_cast<size_t>(2 * columns + k)] = 0;  // a row of zeros
      if (dtype == DType::float32) values[5] = 1e-41;
      const Array x = make_array(values, {rows, columns}, dtype, device());
      const std::vector<double> rounded = to_doubles(x);
      check_formulas(c, std::vector<float>(rounded.begin(), rounded.end()), rows, columns,
                     quantize(x, c.format, options_of(c)));
    }
}

TEST_P(Quantize, WhatIsNotFinite) {
  for (const Case& c : kCases) {
    std::vector<double> values = random_values(2 * 128, 2);
    values[3] = std::nan("");
    values[17] = kInfinity;
    values[40] = -kInfinity;
    const Array x = make_array(values, {2, 128}, DType::float32, device());
    check_formulas(c, std::vector<float>(values.begin(), values.end()), 2, 128, quantize(x, c.format, options_of(c)));
  }
}

TEST_P(Quantize, ZerosComeBackAsZeros) {
  for (const Case& c : kCases) {
    const Array x = make_array(std::vector<double>(3 * 64, 0.0), {3, 64}, DType::float32, device());
    EXPECT_EQ(to_doubles(dequantize(quantize(x, c.format, options_of(c)))), std::vector<double>(3 * 64, 0.0))
        << text(c);
  }
}

TEST_P(Quantize, EveryDeviceAndThreadCountGivesTheSameBits) {
  for (const Case& c : kCases) {
    const Array x = make_array(random_values(300 * 390, 3, -9, 4), {300, 390}, DType::bfloat16, device());
    set_num_threads(1);
    const Quantized one = quantize(x, c.format, options_of(c));
    set_num_threads(3);
    const Quantized three = quantize(x, c.format, options_of(c));
    set_num_threads(0);
    const Quantized host = quantize(to_device(x, testing::kCpu), c.format, options_of(c));
    for (const Quantized* q : {&three, &host}) {
      EXPECT_EQ(bytes(one.data), bytes(q->data)) << text(c);
      EXPECT_EQ(bytes(one.scale), bytes(q->scale)) << text(c);
      EXPECT_EQ(bytes(one.zero), bytes(q->zero)) << text(c);
      EXPECT_EQ(bytes(one.tensor_scale), bytes(q->tensor_scale)) << text(c);
    }
    for (DType dtype : {DType::float32, DType::float16, DType::bfloat16})
      EXPECT_EQ(bytes(dequantize(one, dtype)), bytes(dequantize(host, dtype))) << text(c);
  }
}

TEST_P(Quantize, AnyLayoutAndRank) {
  for (const Case& c : kCases) {
    const Array x = make_array(random_values(6 * 34 * 66, 4), {2, 3, 34, 66}, DType::float32, device());
    const Quantized whole = quantize(x, c.format, options_of(c));
    const Array columns = contiguous(x.permute({0, 1, 3, 2})).permute({0, 1, 3, 2});
    EXPECT_EQ(bytes(quantize(columns, c.format, options_of(c)).data), bytes(whole.data)) << text(c);
    EXPECT_EQ(dequantize(whole).shape(), x.shape());
    if (c.block.rows == 0 || (c.format == DType::float4_e2m1 && c.tensor_scale)) continue;
    const Array matrix = x.select(0, 1).select(0, 2);
    const Quantized one = quantize(matrix, c.format, options_of(c));
    EXPECT_EQ(bytes(one.data), bytes(whole.data.select(0, 1).select(0, 2))) << text(c);
    EXPECT_EQ(bytes(one.scale), bytes(whole.scale.select(0, 1).select(0, 2))) << text(c);
    EXPECT_EQ(bytes(dequantize(one)), bytes(dequantize(whole).select(0, 1).select(0, 2))) << text(c);
    // A 1-D array is one row; codes and scales may be views too.
    if (c.block.rows == 1) {
      const Quantized row = quantize(matrix.select(0, 5), c.format, options_of(c));
      EXPECT_EQ(bytes(row.data), bytes(one.data.select(0, 5)));
      EXPECT_EQ(bytes(dequantize(row)), bytes(dequantize(one).select(0, 5)));
    }
    const Array rows_apart =
        Array::empty({34, 2 * one.data.shape(1)}, c.format, device()).narrow(1, 0, one.data.shape(1));
    copy_into(rows_apart, one.data);
    const Array out = Array::empty({66, 34}, DType::float32, device()).transpose();
    dequantize({rows_apart, one.scale, one.zero, one.tensor_scale}, DType::float32, &out);
    EXPECT_EQ(bytes(out), bytes(dequantize(one))) << text(c);
  }
}

TEST_P(Quantize, IntoTheCallersArrays) {
  for (const Case& c : kCases) {
    const Array x = make_array(random_values(40 * 64, 5), {40, 64}, DType::float32, device());
    const Quantized expected = quantize(x, c.format, options_of(c));
    const Quantized out(Array::empty_like(expected.data), Array::empty_like(expected.scale),
                        expected.zero.defined() ? Array::empty_like(expected.zero) : Array(),
                        expected.tensor_scale.defined() ? Array::empty_like(expected.tensor_scale) : Array());
    EXPECT_EQ(quantize(x, c.format, options_of(c), &out).data.storage(), out.data.storage());
    EXPECT_EQ(bytes(out.data), bytes(expected.data)) << text(c);
    EXPECT_EQ(bytes(out.scale), bytes(expected.scale)) << text(c);
  }
  const Array x = Array::empty({4, 64}, DType::float32, device());
  const Quantized wrong(Array::empty({4, 64}, DType::int8, device()), Array::empty({4}, DType::float32, device()));
  EXPECT_THROW(quantize(x, DType::int8, {}, &wrong), ShapeError);
  const Quantized short_of(Array::empty({4, 64}, DType::int8, device()));
  EXPECT_THROW(quantize(x, DType::int8, {}, &short_of), ArgumentError);
}

TEST_P(Quantize, EmptyArrays) {
  for (const Case& c : kCases) {
    const Quantized q = quantize(Array::empty({0, 64}, DType::float32, device()), c.format, options_of(c));
    EXPECT_EQ(dequantize(q).shape(), (Dims{0, 64})) << text(c);
    const Quantized narrow = quantize(Array::empty({3, 0}, DType::float32, device()), c.format, options_of(c));
    for (double scale : to_doubles(narrow.scale)) EXPECT_EQ(scale, kTiny) << text(c);
  }
}

TEST_P(Quantize, Errors) {
  const auto array = [&](const Dims& shape, DType dtype = DType::float32) {
    return Array::empty(shape, dtype, device());
  };
  EXPECT_THROW(quantize(array({2, 64}, DType::float64), DType::int8, {}), DTypeError);
  EXPECT_THROW(quantize(array({2, 64}), DType::int16, {}), DTypeError);
  EXPECT_THROW(quantize(array({}), DType::int8, {}), ShapeError);
  EXPECT_THROW(quantize(array({2, 63}), DType::int4, {}), ShapeError);
  EXPECT_THROW(quantize(array({2, 64}), DType::int8, {.block = {1, 64}}), ArgumentError);
  EXPECT_THROW(quantize(array({2, 64}), DType::int8, {.zero_point = true}), ArgumentError);
  EXPECT_THROW(quantize(array({2, 64}), DType::int4, {.block = kPerRow, .zero_point = true}), ArgumentError);
  EXPECT_THROW(quantize(array({2, 64}), DType::float4_e2m1, {.block = {1, 64}}), ArgumentError);
  EXPECT_THROW(quantize(array({2, 64}), DType::float8_e4m3, {.block = {2, 128}}), ArgumentError);

  const Array data = array({4, 64}, DType::int8), scale = array({4, 1});
  EXPECT_THROW(dequantize({array({4, 64}), scale}), DTypeError);
  EXPECT_THROW(dequantize({data, scale}, DType::float64), DTypeError);
  EXPECT_THROW(dequantize({data}), ArgumentError);
  EXPECT_THROW(dequantize({data, array({4, 1}, DType::float16)}), DTypeError);
  EXPECT_THROW(dequantize({data, array({3, 1})}), ShapeError);
  EXPECT_THROW(dequantize({data, array({4, 5})}), ShapeError);
  EXPECT_THROW(dequantize({data, scale, array({4, 1}, DType::int8)}), ArgumentError);
  EXPECT_THROW(dequantize({data, scale, {}, array({})}), ArgumentError);
  const Array packed = array({4, 32}, DType::int4);
  EXPECT_THROW(dequantize({packed, array({4, 2}), array({4, 1}, DType::int8)}), ShapeError);
}

}  // namespace
}  // namespace gpukit
