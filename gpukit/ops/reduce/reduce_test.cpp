#include "gpukit/ops/reduce/reduce.h"

#include <bit>
#include <cmath>
#include <limits>

#include "gpukit/base/error.h"
#include "gpukit/base/thread_pool.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/reduce/reduce_plan.h"
#include "gpukit/runtime/graph.h"
#include "tests/support/testing.h"

namespace gpukit {
namespace {

using testing::make_array;
using testing::random_values;
using testing::to_doubles;

/// The documented tree, written as plainly as possible.
float pairwise(std::vector<float> v) {
  while (v.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < v.size(); i += 2) next.push_back(v[i] + v[i + 1]);
    if (v.size() % 2) next.push_back(v.back());
    v = std::move(next);
  }
  return v[0];
}

std::vector<float> floats(const Array& a) {
  std::vector<float> out;
  for (double v : to_doubles(a)) out.push_back(static_cast<float>(v));
  return out;
}

class Reduce : public testing::DeviceTest {};
GPUKIT_ON_DEVICES(Reduce);

TEST_P(Reduce, SumFollowsTheTreeInEveryForm) {
  for (int64_t n : {1, 2, 3, 7, 31, 33, 255, 257, 1025, 4096, 5000, 70001, 300000}) {
    const std::vector<double> values = random_values(static_cast<size_t>(n), 7);
    const Array row = make_array(values, {n}, DType::float32, device());
    const float expected = pairwise(floats(row));
    EXPECT_EQ(floats(sum(row))[0], expected) << n;
    // Shifted by one element, every other element, backwards, across rows: the order is the elements' own.
    Array wide = Array::empty({n + 1}, DType::float32, device());
    copy_into(wide.slice(0, 1, n + 1, 1), row);
    EXPECT_EQ(floats(sum(wide.slice(0, 1, n + 1, 1)))[0], expected) << n;
    Array apart = Array::empty({n, 2}, DType::float32, device());
    copy_into(apart.select(1, 1), row);
    EXPECT_EQ(floats(sum(apart.select(1, 1)))[0], expected) << n;
    Array columns = Array::empty({n, 12}, DType::float32, device());
    copy_into(columns, row.expand_dims(1).broadcast_to({n, 12}));
    const std::vector<float> sums = floats(sum(columns, Dims{0}));
    EXPECT_EQ(sums, std::vector<float>(12, expected)) << n;
    Array rows = Array::empty({5, n}, DType::float32, device());
    copy_into(rows, row.expand_dims(0).broadcast_to({5, n}));
    EXPECT_EQ(floats(sum(rows, Dims{1})), std::vector<float>(5, expected)) << n;
  }
}

TEST_P(Reduce, CumsumEqualsSumsOfPrefixes) {
  for (int64_t n : {1, 2, 33, 1025, 5000, 70001}) {
    const Array x = make_array(random_values(static_cast<size_t>(n), 3), {n}, DType::float32, device());
    const std::vector<float> values = floats(x), running = floats(cumsum(x));
    for (int64_t i : {int64_t{0}, n / 7, n / 3, n / 2, n - 1})
      EXPECT_EQ(running[static_cast<size_t>(i)], pairwise({values.begin(), values.begin() + i + 1}))
          << n << " at " << i;
    EXPECT_EQ(running.back(), floats(sum(x))[0]) << n;
  }
}

TEST_P(Reduce, RepeatsGiveTheSameBits) {
  const Array x = make_array(random_values(70001 * 3, 5), {3, 70001}, DType::float32, device());
  const std::vector<float> first = floats(sum(x)), rows = floats(var(x, Dims{1}));
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(floats(sum(x)), first);
    ASSERT_EQ(floats(var(x, Dims{1})), rows);
  }
}

TEST_P(Reduce, ARowDoesNotDependOnTheRowsBesideIt) {
  const Array x = make_array(random_values(40 * 3001, 9), {40, 3001}, DType::bfloat16, device());
  const std::vector<double> all = to_doubles(sum(x, Dims{1}));
  for (int64_t row : {0, 17, 39})
    EXPECT_EQ(to_doubles(sum(x.narrow(0, row, 1), Dims{1}))[0], all[static_cast<size_t>(row)]);
}

TEST_P(Reduce, VarianceIsStableFarFromZero) {
  std::vector<double> values = random_values(100000, 11);
  double mean = 0, expected = 0;
  for (double& v : values) v = static_cast<float>(v + 10000);
  for (double v : values) mean += v / static_cast<double>(values.size());
  for (double v : values) expected += (v - mean) * (v - mean) / static_cast<double>(values.size());
  const Array x = make_array(values, {100000}, DType::float32, device());
  EXPECT_NEAR(to_doubles(var(x))[0], expected, 1e-4 * expected);
  EXPECT_NEAR(to_doubles(std(x))[0], std::sqrt(expected), 1e-4);
}

TEST_P(Reduce, EmptyReductions) {
  const Array x = Array::empty({0, 3}, DType::float32, device());
  EXPECT_EQ(to_doubles(sum(x, Dims{0})), std::vector<double>(3, 0));
  EXPECT_FALSE(std::signbit(to_doubles(sum(x))[0]));
  EXPECT_EQ(to_doubles(prod(x)), std::vector<double>{1});
  EXPECT_TRUE(std::isnan(to_doubles(mean(x))[0]));
  EXPECT_EQ(to_doubles(all(x)), std::vector<double>{1});
  EXPECT_EQ(max(x, Dims{1}).shape(), (Dims{0}));
  EXPECT_THROW(max(x), ArgumentError);
  EXPECT_THROW(argmin(x, 0), ArgumentError);
}

TEST_P(Reduce, WorksInAGraphWithoutAllocating) {
  const Array x = make_array(random_values(1 << 20, 13), {1 << 20}, DType::float32, device());
  const Array total = Array::empty({}, DType::float32, device()), running = Array::empty_like(x);
  const std::vector<float> expected = floats(sum(x)), sums = floats(cumsum(x));
  runtime::Graph graph(device());
  graph.begin_capture();
  {
    const runtime::Session session = runtime::current_session().with_stream(graph.stream());
    runtime::SessionGuard guard(session);
    // More reductions than there are buffers set aside: the rest must come out the same.
    for (int i = 0; i < 20; ++i) sum(x, {}, false, {}, &total);
    cumsum(x, 0, {}, &running);
    EXPECT_THROW(sum(x), Error);
  }
  graph.end_capture();
  for (int i = 0; i < 2; ++i) {
    fill(total, Scalar(0.0));
    graph.replay();
    EXPECT_EQ(floats(total), expected);
    EXPECT_EQ(floats(running), sums);
  }
}

TEST_P(Reduce, Errors) {
  const Array x = Array::empty({2, 3}, DType::float32, device());
  EXPECT_THROW(sum(x, Dims{2}), OutOfRangeError);
  EXPECT_THROW(sum(x, Dims{0, -2}), ArgumentError);
  EXPECT_THROW(max(Array::empty({2}, DType::complex64, device())), DTypeError);
  EXPECT_THROW(sum(Array::empty({2}, DType::float8_e4m3, device())), DTypeError);
  EXPECT_THROW(sum_axis(Array::empty({2, 2, 2}, DType::float32, device()), 0), ShapeError);
  EXPECT_THROW(cumsum(x, 5), OutOfRangeError);
}

TEST(ReduceThreads, NumberOfThreadsChangesNoBit) {
  const Array flat = make_array(random_values(300001, 17), {300001}, DType::float32, testing::kCpu);
  const Array matrix = make_array(random_values(5000 * 70, 19), {5000, 70}, DType::float32, testing::kCpu);
  const Array tall = make_array(random_values(50000 * 9, 21), {50000, 9}, DType::float16, testing::kCpu);
  std::vector<std::vector<float>> first;
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    const std::vector<std::vector<float>> got = {floats(sum(flat)),
                                                 floats(cumsum(flat)),
                                                 floats(var(flat)),
                                                 floats(sum(matrix, Dims{0})),
                                                 floats(mean(matrix, Dims{1})),
                                                 floats(sum(tall, Dims{0})),
                                                 floats(cumsum(matrix, 0))};
    if (threads == 1) first = got;
    EXPECT_EQ(got, first) << threads;
  }
  set_num_threads(0);
}

// Layouts and plans

ReduceLayout layout_of(const Dims& shape, const Dims& strides, uint32_t reduced, bool keep_order = false) {
  return reduce_layout(shape, strides, reduced, Dims::filled(shape.rank(), 0), keep_order);
}
ReduceLayout contiguous_layout(const Dims& shape, uint32_t reduced) {
  return layout_of(shape, contiguous_strides(shape), reduced);
}

TEST(ReduceLayout, MergesAndOrdersAxes) {
  const ReduceLayout full = contiguous_layout({4, 5, 6}, 0b111);
  EXPECT_EQ(full.reduced_rank, 1);
  EXPECT_EQ(full.reduced[0].size, 120);
  EXPECT_EQ(full.reduced[0].in, 1);
  EXPECT_EQ(full.outputs, 1);
  const ReduceLayout transposed = layout_of({6, 4}, {1, 6}, 0b11);
  EXPECT_EQ(transposed.reduced_rank, 1) << "memory order makes one run of it";
  EXPECT_EQ(layout_of({6, 4}, {1, 6}, 0b11, true).reduced_rank, 2) << "argmax needs the array's own order";
  const ReduceLayout middle = contiguous_layout({2, 3, 4}, 0b010);
  EXPECT_EQ(middle.kept_rank, 2);
  EXPECT_EQ(middle.kept[1].in, 1);
}

TEST(ReducePlan, Table) {
  struct Row {
    Dims shape;
    uint32_t reduced;
    int bytes;
    ReduceForm form;
    bool split;
  };
  const int64_t m = 16384, n = 8192;
  const Row table[] = {
      {{m, n}, 0b11, 2, ReduceForm::rows, true},           {{m, n}, 0b11, 4, ReduceForm::rows, true},
      {{m, n}, 0b10, 2, ReduceForm::rows, false},          {{m, n}, 0b10, 4, ReduceForm::rows, false},
      {{m, n}, 0b01, 2, ReduceForm::columns, true},        {{m, n}, 0b01, 4, ReduceForm::columns, true},
      {{100, 3}, 0b10, 4, ReduceForm::strided, false},     {{100, 33}, 0b10, 4, ReduceForm::strided, false},
      {{4096}, 0b1, 4, ReduceForm::rows, false},           {{8, 16, 32}, 0b101, 4, ReduceForm::strided, false},
      {{8, 16, 32}, 0b010, 4, ReduceForm::columns, false},
  };
  for (const Row& row : table) {
    const ReducePlan plan = plan_reduce(contiguous_layout(row.shape, row.reduced), row.bytes, 4, true, 132);
    EXPECT_EQ(plan.form, row.form) << row.shape.str();
    const bool single = plan.params.outputs == 1;
    EXPECT_EQ(plan.finish_grid != 0, row.split && !single) << row.shape.str();
    EXPECT_EQ(plan.params.last_block != 0, row.split && single) << row.shape.str();
    EXPECT_EQ(plan.partials_bytes != 0, row.split) << row.shape.str();
    EXPECT_LE(plan.params.segments.value, kReduceMaxSegments);
    EXPECT_TRUE(!row.split || plan.grid >= 256) << row.shape.str();
    EXPECT_TRUE(!single || plan.grid <= 4 * 132) << row.shape.str();
    EXPECT_LE(plan.partials_bytes, single ? 64 << 10 : kMaxPartialsBytes) << row.shape.str();
    EXPECT_LE(plan.shared_bytes, 48u << 10);
  }
  EXPECT_EQ(plan_reduce(contiguous_layout({m, n}, 0b11), 4, 4, false, 132).form, ReduceForm::shifted);
  // Odd widths and starts keep 16 bytes at a time where elements are smaller.
  EXPECT_EQ(plan_reduce(contiguous_layout({m, 1559}, 0b10), 2, 4, true, 132).form, ReduceForm::shifted);
  EXPECT_EQ(plan_reduce(contiguous_layout({3, 1000003}, 0b10), 4, 4, true, 132).form, ReduceForm::shifted);
  EXPECT_GT(plan_reduce(contiguous_layout({3, 1000003}, 0b10), 4, 4, true, 132).params.segments.value, 8);
  EXPECT_EQ(plan_reduce(contiguous_layout({m, 1559}, 0b10), 16, 16, true, 132).form, ReduceForm::rows);
}

TEST(ReducePlan, SegmentsCoverEveryElementOnce) {
  for (int64_t rows : {1, 3, 700}) {
    for (int64_t length : {129, 1000, 4096, 65536, 1 << 20, (1 << 24) + 8}) {
      const ReducePlan plan = plan_reduce(contiguous_layout({rows, length}, 0b10), 4, 4, true, 132);
      const ReduceParams& p = plan.params;
      const int64_t chunk = 32 * kReduceUnits * (plan.form == ReduceForm::rows ? 4 : 1);
      const int64_t segment = p.warps * p.chunks_per_warp * chunk;
      EXPECT_GE(segment * p.segments.value, length);
      EXPECT_LT(segment * (p.segments.value - 1), length);
      EXPECT_EQ(segment & (segment - 1), 0) << "a whole node of the tree";
      const ReducePlan columns = plan_reduce(contiguous_layout({length, 64}, 0b01), 4, 4, true, 132);
      EXPECT_GE(columns.params.segment_rows * columns.params.segments.value, length);
      EXPECT_LT(columns.params.segment_rows * (columns.params.segments.value - 1), length);
    }
  }
}

/// Lanes take all elements of a short row, and a block as many rows as it has lanes for.
TEST(ReducePlan, ShortRowsShareAWarp) {
  for (int64_t length = 1; length <= kReduceNarrowLength; ++length) {
    const ReducePlan plan = plan_reduce(contiguous_layout({55604, length}, 0b10), 4, 4, true, 132);
    const ReduceParams& p = plan.params;
    ASSERT_TRUE(p.narrow) << length;
    EXPECT_EQ(plan.form, ReduceForm::strided);
    EXPECT_GE(p.lanes * kReduceNarrow, length);
    EXPECT_TRUE(p.lanes == 1 || p.lanes / 2 * kReduceNarrow < length) << length;
    EXPECT_EQ(plan.grid, ceil_div(55604, kReduceThreads / p.lanes));
    EXPECT_EQ(p.segments.value, 1);
  }
  EXPECT_EQ(plan_reduce(contiguous_layout({55604, 22}, 0b10), 4, 4, true, 132).params.lanes, 8);
  EXPECT_FALSE(plan_reduce(contiguous_layout({55604, kReduceNarrowLength + 1}, 0b10), 4, 4, true, 132).params.narrow);
}

TEST(Divisor, IsExact) {
  auto quotient = [](int64_t n, const Divisor& d) {
    const auto high = static_cast<uint64_t>(static_cast<unsigned __int128>(d.magic) * static_cast<uint64_t>(n) >> 64);
    return static_cast<int64_t>((high + static_cast<uint64_t>(n)) >> d.shift);
  };
  for (int64_t d : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{641}, int64_t{1} << 31,
                    (int64_t{1} << 40) + 1, int64_t{1} << 62})
    for (int64_t n : {int64_t{0}, int64_t{1}, d - 1, d, d + 1, (d / 2) * 2 + 1, (int64_t{1} << 62) - 1, INT64_MAX})
      EXPECT_EQ(quotient(n, make_divisor(d)), n / d) << n << " / " << d;
}

}  // namespace
}  // namespace gpukit
