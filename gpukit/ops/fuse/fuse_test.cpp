#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/ops/elementwise/binary.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/elementwise/unary.h"
#include "gpukit/ops/elementwise/where.h"
#include "gpukit/ops/fuse/fused.h"
#include "gpukit/ops/reduce/reduce.h"

namespace gpukit {
namespace {

using Function = std::function<Array(const Array&, const Array&)>;

class FuseTest : public ::testing::Test {
 protected:
  Array array(const Dims& shape, DType dtype, double start, double step) {
    Array x = Array::empty(shape, DType::float64, Device{});
    auto* p = static_cast<double*>(x.host_data());
    for (int64_t i = 0; i < x.size(); ++i) p[i] = start + step * static_cast<double>(i);
    return astype(x, dtype);
  }
  static std::vector<char> bytes(const Array& x) {
    const Array flat = contiguous(x);
    const char* p = static_cast<const char*>(flat.host_data());
    return {p, p + flat.nbytes()};
  }
  static Fused trace(const Function& function, const Array& a, const Array& b) {
    Trace trace("test", a.device());
    const Array x = trace.argument(a.shape(), a.dtype(), a.device());
    const Array y = trace.argument(b.shape(), b.dtype(), b.device());
    runtime::Tracing* before = runtime::set_tracing(&trace);
    try {
      const Array made[] = {function(x, y)};
      runtime::set_tracing(before);
      return Fused(trace, made);
    } catch (...) {
      runtime::set_tracing(before);
      throw;
    }
  }
};

TEST_F(FuseTest, HasTheBitsOfTheCalls) {
  const Function function = [](const Array& x, const Array& y) {
    const Array sum = add(x, y);
    const Array narrow = astype(multiply(exp(sum), 0.3), DType::float16);
    return where(less(sum, 1.0), narrow, divide(x, add(y, 2)));
  };
  for (const auto& [a, b] : {std::pair{Dims{0}, Dims{1}},
                             {Dims{1}, Dims{}},
                             {Dims{70001}, Dims{1}},
                             {Dims{3, 33}, Dims{33}},
                             {Dims{5, 1, 7}, Dims{4, 1}}}) {
    const Array x = array(a, DType::float32, -3, 0.01), y = array(b, DType::bfloat16, 1, 0.5);
    const Fused fused = trace(function, x, y);
    const Array want = function(x, y);
    const Array arguments[] = {x, y};
    const Array made = fused.run(arguments, {})[0];
    EXPECT_EQ(made.shape(), want.shape());
    EXPECT_EQ(made.dtype(), want.dtype());
    EXPECT_EQ(bytes(made), bytes(want)) << a.str();
  }
}

TEST_F(FuseTest, WhatNoResultNeedsIsGone) {
  const Array x = array({9}, DType::float32, 0, 1), y = array({9}, DType::float32, 2, 1);
  const Fused fused = trace(
      [](const Array& a, const Array& b) {
        exp(multiply(a, b));
        return add(b, 1);
      },
      x, y);
  EXPECT_EQ(fused.graph().nodes.size(), 1u);
  ASSERT_EQ(fused.graph().leaves.size(), 1u);
  EXPECT_EQ(fused.graph().leaves[0].argument, 1);
}

TEST_F(FuseTest, RefusesByName) {
  const Array x = array({4}, DType::float32, 0, 1);
  auto message = [&](const Function& function) -> std::string {
    try {
      trace(function, x, x);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message([](const Array& a, const Array&) { return sum(a); }).find("sum"), std::string::npos);
  EXPECT_NE(message([&](const Array& a, const Array&) { return add(a, x); }).find("no argument"), std::string::npos);
  EXPECT_NE(message([](const Array& a, const Array&) { return add(a, 1, &a); }).find("in place"), std::string::npos);
  EXPECT_NE(message([](const Array& a, const Array&) { return add(a.slice(0, 0, 2, 1), 1); }).find("view"),
            std::string::npos);
  EXPECT_NE(message([](const Array& a, const Array&) {
              return add(a, Array::empty({4}, DType::float32, a.device()));
            }).find("allocates"),
            std::string::npos);
  EXPECT_EQ(runtime::tracing(), nullptr);
}

}  // namespace
}  // namespace gpukit
