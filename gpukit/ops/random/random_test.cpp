#include "gpukit/ops/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/sha256.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/random/draw.cuh"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "tests/support/testing.h"

namespace gpukit::random {
namespace {

using gpukit::testing::to_doubles;

constexpr DType kFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

std::string bytes(const Array& a) {
  std::string out(static_cast<size_t>(a.nbytes()), '\0');
  to_host(out.data(), a);
  return out;
}

class Random : public gpukit::testing::DeviceTest {
 protected:
  Request request(const Dims& shape, DType dtype, uint64_t seed, uint64_t offset = 0) const {
    return {.shape = shape, .dtype = dtype, .device = device(), .state = State{seed, offset}};
  }
};
GPUKIT_ON_DEVICES(Random);

TEST(Philox, KnownAnswers) {
  const auto check = [](const Words& got, std::vector<uint32_t> expected) {
    EXPECT_EQ(std::vector<uint32_t>(std::begin(got.v), std::end(got.v)), expected);
  };
  check(philox(0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check(philox(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, MultiplyHigh) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t a = random() >> (random() % 64), b = random() >> (random() % 64);
    // Schoolbook with 16-bit digits, independent of the code under test.
    uint32_t digits[8] = {};
    for (int x = 0; x < 4; ++x) {
      uint64_t carry = 0;
      for (int y = 0; y < 4; ++y) {
        carry += digits[x + y] + ((a >> (16 * x)) & 0xffff) * ((b >> (16 * y)) & 0xffff);
        digits[x + y] = static_cast<uint32_t>(carry & 0xffff);
        carry >>= 16;
      }
      digits[x + 4] += static_cast<uint32_t>(carry);
    }
    uint64_t high = 0;
    for (int d = 7; d >= 4; --d) high = high << 16 | digits[d];
    ASSERT_EQ(multiply_high(a, b), high) << a << " " << b;
  }
}

/// The quantile by Newton's method in long double, from an approximation of it.
long double true_quantile(long double p, long double q, long double z) {
  const long double root_two = std::sqrt(2.0L), scale = 1.0L / std::sqrt(2.0L * std::acos(-1.0L));
  for (int i = 0; i < 4; ++i) {
    const long double error = p < 0.2L ? 0.5L * std::erfc(z / root_two) - p : q - 0.5L * std::erf(z / root_two);
    z += error / (scale * std::exp(-z * z / 2));
  }
  return z;
}

TEST(Normal, QuantileErrorIsAsStated) {
  std::mt19937_64 random(11);
  double worst32 = 0, worst64 = 0;
  for (int i = 0; i < 60000; ++i) {
    uint64_t word = random() >> 1;
    if (i % 3 == 1) word >>= random() % 63;
    if (i % 3 == 2) word = (~uint64_t{0} >> 1) - (word >> (random() % 63));
    const uint64_t odd64 = word << 1 | 1;
    const double z64 = standard_normal(word);
    const long double t64 = true_quantile(std::ldexp(static_cast<long double>(odd64), -65),
                                          std::ldexp(static_cast<long double>(0 - odd64), -65), z64);
    worst64 = std::max(worst64, static_cast<double>(std::abs(z64 / t64 - 1)));

    const uint32_t small = static_cast<uint32_t>(i % 2 == 0 ? word >> 32 : word & 0x7fffffff), odd32 = small << 1 | 1;
    const float z32 = standard_normal(small);
    const long double t32 =
        true_quantile(std::ldexp(static_cast<long double>(odd32), -33), std::ldexp(4294967296.0L - odd32, -33), z32);
    worst32 = std::max(worst32, static_cast<double>(std::abs(z32 / t32 - 1)));
  }
  EXPECT_LT(worst32, 3e-7);
  EXPECT_LT(worst64, 6e-16);
}

TEST(Normal, SignAndEnds) {
  EXPECT_EQ(standard_normal(uint32_t{0}), -standard_normal(uint32_t{0x80000000}));
  EXPECT_NEAR(standard_normal(uint32_t{0}), 6.3379, 1e-3);
  EXPECT_NEAR(standard_normal(uint64_t{0}), 9.1553, 1e-3);
  EXPECT_GT(standard_normal(uint32_t{0x7fffffff}), 0);
  EXPECT_LT(standard_normal(uint32_t{0xffffffff}), 0);
  for (uint32_t w = 0x10001; w < 0x7f000000; w += 0x10001) ASSERT_LT(standard_normal(w), standard_normal(w - 0x10001));
}

TEST_P(Random, SameBitsAsTheCpu) {
  const auto cpu = [](Request r) {
    r.device = gpukit::testing::kCpu;
    return r;
  };
  for (int64_t size : {0, 1, 3, 31, 33, 1025, 300001}) {
    for (DType dtype : kFloats) {
      const Request r = request({size}, dtype, 0x123456789abcdef, 5);
      EXPECT_EQ(bytes(uniform(r, -2.5, 7.25)), bytes(uniform(cpu(r), -2.5, 7.25))) << name(dtype);
      EXPECT_EQ(bytes(normal(r, 0.5, 3)), bytes(normal(cpu(r), 0.5, 3))) << name(dtype);
    }
    for (int i = static_cast<int>(DType::int8); i <= static_cast<int>(DType::uint64); ++i) {
      const Request r = request({size}, static_cast<DType>(i), 99, 1);
      EXPECT_EQ(bytes(randint(r, 3, 120)), bytes(randint(cpu(r), 3, 120)));
    }
  }
}

/// The numbers of a seed are part of the interface: they must not change between versions, machines or devices.
TEST_P(Random, KnownHashes) {
  std::string all;
  for (DType dtype : kFloats) {
    all += bytes(uniform(request({1001}, dtype, 42), -1, 3));
    all += bytes(normal(request({1001}, dtype, 42), 1, 2));
  }
  for (DType dtype : {DType::int8, DType::uint32, DType::int64})
    all += bytes(randint(request({1001}, dtype, 42), 0, 100));
  EXPECT_EQ(hex(sha256(all)), "ace8eed99aabca284fb88525fbc3283c7430163c6424feaa05e41d5cb6d9ba62");
}

TEST_P(Random, ElementDependsOnIndexAlone) {
  const std::string whole = bytes(normal(request({1000}, DType::float32, 7, 3)));
  EXPECT_EQ(bytes(normal(request({10}, DType::float32, 7, 3))), whole.substr(0, 40));
  EXPECT_EQ(bytes(normal(request({20, 50}, DType::float32, 7, 3))), whole);
  EXPECT_NE(bytes(normal(request({1000}, DType::float32, 7, 4))), whole);
  EXPECT_NE(bytes(normal(request({1000}, DType::float32, 8, 3))), whole);
}

TEST_P(Random, ThreadsDoNotMatter) {
  set_num_threads(1);
  const std::string one = bytes(normal(request({300001}, DType::float32, 1)));
  set_num_threads(7);
  const std::string seven = bytes(normal(request({300001}, DType::float32, 1)));
  set_num_threads(0);
  EXPECT_EQ(one, seven);
}

TEST_P(Random, UniformStaysInItsRange) {
  for (DType dtype : kFloats) {
    for (auto [low, high] : {std::pair{0.0, 1.0}, {-3.0, -2.9}, {1.0, 1.0625}, {-1e-3, 1e-3}, {5.0, 5.0}}) {
      const double edge_low = to_doubles(uniform(request({1}, dtype, 1), low, low))[0];
      const auto got = to_doubles(uniform(request({50000}, dtype, 2), low, high));
      const auto [least, most] = std::minmax_element(got.begin(), got.end());
      EXPECT_GE(*least, std::min(edge_low, low)) << name(dtype);
      if (low < high) {
        EXPECT_LT(*most, high) << name(dtype) << " " << low;
      } else {
        EXPECT_EQ(*most, low);
      }
    }
  }
}

TEST_P(Random, Moments) {
  const auto u = to_doubles(uniform(request({200000}, DType::float32, 3)));
  const auto z = to_doubles(normal(request({200000}, DType::float32, 3)));
  double u1 = 0, u2 = 0, z1 = 0, z2 = 0, z4 = 0, lag = 0;
  for (size_t i = 0; i < u.size(); ++i) {
    u1 += u[i];
    u2 += u[i] * u[i];
    z1 += z[i];
    z2 += z[i] * z[i];
    z4 += z[i] * z[i] * z[i] * z[i];
    if (i > 0) lag += z[i] * z[i - 1];
  }
  const double n = static_cast<double>(u.size());
  EXPECT_NEAR(u1 / n, 0.5, 0.003);
  EXPECT_NEAR(u2 / n, 1.0 / 3, 0.003);
  EXPECT_NEAR(z1 / n, 0, 0.01);
  EXPECT_NEAR(z2 / n, 1, 0.015);
  EXPECT_NEAR(z4 / n, 3, 0.15);
  EXPECT_NEAR(lag / n, 0, 0.01);
}

TEST_P(Random, Integers) {
  std::vector<int> counts(7);
  for (double v : to_doubles(randint(request({70000}, DType::int32, 4), -3, 4))) {
    ASSERT_TRUE(v >= -3 && v <= 3);
    ++counts[static_cast<size_t>(v + 3)];
  }
  for (int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(to_doubles(randint(request({5}, DType::uint8, 4), 255, 256)), std::vector<double>(5, 255));

  std::vector<uint64_t> words(1000);
  to_host(words.data(), randint(request({1000}, DType::uint64, 4), 0, Scalar::from_unsigned(UINT64_MAX)));
  EXPECT_TRUE(std::any_of(words.begin(), words.end(), [](uint64_t w) { return w >> 63 != 0; }));
  std::vector<int64_t> all(1000);
  to_host(all.data(), randint(request({1000}, DType::int64, 4), INT64_MIN, Scalar::from_unsigned(uint64_t{1} << 63)));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](int64_t v) { return v < 0; }));
  EXPECT_TRUE(std::any_of(all.begin(), all.end(), [](int64_t v) { return v > INT64_MAX / 2; }));
}

TEST_P(Random, OutMayBeStrided) {
  const Array base = Array::empty({33, 40}, DType::float32, device());
  const Array view = base.transpose().slice(0, 1, 40, 3);
  Request r = request(view.shape(), DType::float32, 6);
  const Array got = normal(r, 0, 1, &view);
  EXPECT_EQ(got.storage(), view.storage());
  EXPECT_EQ(to_doubles(view), to_doubles(normal(r)));
  const Array wrong = Array::empty({2}, DType::float32, device());
  EXPECT_THROW(normal(r, 0, 1, &wrong), ShapeError);
}

TEST_P(Random, Errors) {
  EXPECT_THROW(uniform(request({2}, DType::int32, 0)), DTypeError);
  EXPECT_THROW(uniform(request({2}, DType::float32, 0), 1, 0), ArgumentError);
  EXPECT_THROW(uniform(request({2}, DType::float32, 0), 0, INFINITY), ArgumentError);
  EXPECT_THROW(uniform(request({2}, DType::float32, 0), -3e38, 3e38), ArgumentError);
  EXPECT_THROW(uniform(request({2}, DType::float32, 0), NAN, 1), ArgumentError);
  EXPECT_THROW(uniform(request({-2}, DType::float32, 0)), ShapeError);
  EXPECT_THROW(normal(request({2}, DType::float32, 0), 0, -1), ArgumentError);
  EXPECT_THROW(normal(request({2}, DType::complex64, 0)), DTypeError);
  EXPECT_THROW(randint(request({2}, DType::int32, 0), 3, 3), ArgumentError);
  EXPECT_THROW(randint(request({2}, DType::int8, 0), 0, 129), ArgumentError);
  EXPECT_THROW(randint(request({2}, DType::uint8, 0), -1, 3), ArgumentError);
  EXPECT_THROW(randint(request({2}, DType::int32, 0), 0, 2.5), ArgumentError);
  EXPECT_THROW(randint(request({2}, DType::float32, 0), 0, 2), DTypeError);
}

TEST(Generator, EachCallTakesTheNextOffset) {
  Generator g(5);
  EXPECT_EQ(g.take("test").offset, 0u);
  EXPECT_EQ(g.take("test").offset, 1u);
  const State kept = g.state();
  Request r{.shape = {9}, .device = gpukit::testing::kCpu};
  r.generator = &g;
  const std::string first = bytes(uniform(r)), second = bytes(uniform(r));
  EXPECT_NE(first, second);
  g.set_state(kept);
  EXPECT_EQ(bytes(uniform(r)), first);
  g.seed(5);
  EXPECT_EQ(g.state().offset, 0u);
  EXPECT_THROW(uniform(r, 2, 1), ArgumentError);
  EXPECT_EQ(g.state().offset, 0u) << "a refused call takes nothing";
}

TEST_P(Random, CaptureNeverAdvancesTheState) {
  const Array out = Array::empty({100}, DType::float32, device());
  const Request free{.shape = {100}, .device = device()};
  const Request fixed = request({100}, DType::float32, 77);
  const State before = default_generator().state();
  runtime::Graph graph(device());
  const runtime::Session session = runtime::Session().with_stream(graph.stream());
  {
    const runtime::SessionGuard guard(session);
    graph.begin_capture();
    EXPECT_THROW(uniform(free, 0, 1, &out), Error);
    uniform(fixed, 0, 1, &out);
    graph.end_capture();
  }
  EXPECT_EQ(default_generator().state().offset, before.offset);
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(to_doubles(out), to_doubles(uniform(fixed)));
}

}  // namespace
}  // namespace gpukit::random
