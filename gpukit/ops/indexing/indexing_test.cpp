#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "gpukit/array/host.h"
#include "gpukit/ops/elementwise/cast.h"
#include "gpukit/ops/elementwise/copy.h"
#include "gpukit/ops/indexing/index.h"
#include "gpukit/ops/indexing/indexed_move.h"
#include "gpukit/ops/indexing/nonzero.h"
#include "gpukit/ops/indexing/take.h"
#include "gpukit/runtime/device.h"

namespace gpukit {
namespace {

using V = std::vector<int64_t>;

class Indexing : public testing::Test {
 protected:
  static std::vector<Device> devices() { return runtime::devices(); }

  static Array counting(const Dims& shape, Device device, DType dtype = DType::int32) {
    V values(static_cast<size_t>(shape.product()));
    std::iota(values.begin(), values.end(), 0);
    return astype(from_host(values.data(), shape, DType::int64, device), dtype);
  }
  static Array numbers(const V& values, const Dims& shape, Device device) {
    return from_host(values.data(), shape, DType::int64, device);
  }
  static Array numbers(const V& values, Device device) {
    return numbers(values, {static_cast<int64_t>(values.size())}, device);
  }
  static Array mask(const std::vector<uint8_t>& values, const Dims& shape, Device device) {
    return from_host(values.data(), shape, DType::boolean, device);
  }
  static V values(const Array& a) {
    V out(static_cast<size_t>(a.size()));
    to_host(out.data(), contiguous(astype(a, DType::int64)));
    return out;
  }
  static Array get(const Array& x, std::initializer_list<IndexItem> items) {
    return get_item(x, {items.begin(), items.size()});
  }
  static void set(const Array& x, std::initializer_list<IndexItem> items, const Operand& value) {
    set_item(x, {items.begin(), items.size()}, value);
  }
};

TEST_F(Indexing, BasicKeysGiveViews) {
  for (Device device : devices()) {
    const Array x = counting({3, 4}, device);
    const Array row = get(x, {int64_t{-1}});
    EXPECT_EQ(row.storage(), x.storage());
    EXPECT_EQ(values(row), (V{8, 9, 10, 11}));
    EXPECT_EQ(values(get(x, {IndexEllipsis{}, IndexSlice{{}, {}, -2}})), (V{3, 1, 7, 5, 11, 9}));
    EXPECT_EQ(get(x, {IndexNewAxis{}, IndexEllipsis{}, IndexNewAxis{}}).shape(), (Dims{1, 3, 4, 1}));
    EXPECT_EQ(get(x, {IndexSlice{5, {}, {}}}).shape(), (Dims{0, 4}));
    EXPECT_EQ(get(x, {IndexSlice{{}, {}, INT64_MIN}}).shape(), (Dims{1, 4}));
    EXPECT_EQ(get(x, {IndexSlice{{}, {}, INT64_MAX}}).shape(), (Dims{1, 4}));
    EXPECT_EQ(get(x, {}).shape(), x.shape());
  }
}

TEST_F(Indexing, HostIntegersRaiseAtOnce) {
  for (Device device : devices()) {
    const Array x = counting({3, 4}, device);
    EXPECT_THROW(get(x, {int64_t{3}}), OutOfRangeError);
    EXPECT_THROW(get(x, {int64_t{0}, int64_t{-5}}), OutOfRangeError);
    EXPECT_THROW(get(x, {int64_t{0}, int64_t{0}, int64_t{0}}), OutOfRangeError);
    EXPECT_THROW(get(x, {IndexEllipsis{}, IndexEllipsis{}}), OutOfRangeError);
    EXPECT_THROW(get(x, {IndexSlice{{}, {}, 0}}), ArgumentError);
    EXPECT_THROW(get(x, {counting({2}, device, DType::float32)}), DTypeError);
    EXPECT_THROW(get(x, {mask({1, 0}, {2}, device)}), OutOfRangeError);
  }
}

TEST_F(Indexing, ArraysSideBySideStayInPlaceAndSeparatedOnesGoFirst) {
  for (Device device : devices()) {
    const Array x = counting({2, 3, 4, 5}, device);
    const Array i = numbers({0, 1, 2}, device), j = numbers({3, 2, 1}, device), one = numbers({1}, device);
    EXPECT_EQ(get(x, {IndexSlice{}, i, j}).shape(), (Dims{2, 3, 5}));
    EXPECT_EQ(get(x, {one, IndexSlice{}, j}).shape(), (Dims{3, 3, 5}));
    EXPECT_EQ(get(x, {int64_t{0}, IndexSlice{}, j}).shape(), (Dims{3, 3, 5}));
    EXPECT_EQ(get(x, {IndexSlice{}, int64_t{1}, j}).shape(), (Dims{2, 3, 5}));
    EXPECT_EQ(values(get(x, {int64_t{1}, i, j, int64_t{4}})), (V{60 + 15 + 4, 60 + 20 + 10 + 4, 60 + 40 + 5 + 4}));
    EXPECT_EQ(values(get(x, {int64_t{1}, i.expand_dims(1), j.slice(0, 0, 2, 1), int64_t{0}})),
              (V{75, 70, 95, 90, 115, 110}));
  }
}

TEST_F(Indexing, MasksReadInRowMajorOrder) {
  for (Device device : devices()) {
    const Array x = counting({2, 3}, device);
    const Array m = mask({1, 0, 1, 0, 0, 1}, {2, 3}, device);
    EXPECT_EQ(values(get(x, {m})), (V{0, 2, 5}));
    EXPECT_EQ(values(get(x.transpose(), {m.transpose()})), (V{0, 2, 5}));
    EXPECT_EQ(values(get(x, {IndexSlice{}, mask({0, 1, 1}, {3}, device)})), (V{1, 2, 4, 5}));
    EXPECT_EQ(get(x, {true}).shape(), (Dims{1, 2, 3}));
    EXPECT_EQ(get(x, {false}).shape(), (Dims{0, 2, 3}));
    EXPECT_EQ(get(x, {mask({1}, {}, device)}).shape(), (Dims{1, 2, 3}));
  }
}

TEST_F(Indexing, SetsThroughEveryKindOfKey) {
  for (Device device : devices()) {
    Array x = counting({2, 3}, device);
    set(x, {int64_t{0}}, 9);
    EXPECT_EQ(values(x), (V{9, 9, 9, 3, 4, 5}));
    set(x, {IndexSlice{}, IndexSlice{{}, {}, 2}}, numbers({1, 2}, device));
    EXPECT_EQ(values(x), (V{1, 9, 2, 1, 4, 2}));
    set(x, {mask({0, 1, 0, 1, 0, 0}, {2, 3}, device)}, 7);
    EXPECT_EQ(values(x), (V{1, 7, 2, 7, 4, 2}));
    set(x, {mask({0, 1, 0, 1, 0, 0}, {2, 3}, device)}, numbers({30, 40}, device));
    EXPECT_EQ(values(x), (V{1, 30, 2, 40, 4, 2}));
    set(x, {numbers({1, 0}, device), numbers({-1, 0}, device)}, numbers({50, 60}, device));
    EXPECT_EQ(values(x), (V{60, 30, 2, 40, 4, 50}));
    EXPECT_THROW(set(x, {int64_t{0}}, numbers({1, 2}, device)), ShapeError);
    EXPECT_THROW(set(x, {numbers({0}, device)}, numbers({1, 2}, device)), ShapeError);
    EXPECT_THROW(set(x.slice(0, 0, 1, 1).broadcast_to({2, 3}), {numbers({0}, device)}, 1), ArgumentError);
    EXPECT_THROW(set(x.slice(0, 0, 1, 1).broadcast_to({2, 3}), {int64_t{0}, IndexNewAxis{}, IndexSlice{}},
                     numbers({1, 2}, device)),
                 ShapeError);
  }
}

TEST_F(Indexing, OverlappingValuesBehaveAsCopies) {
  for (Device device : devices()) {
    Array x = counting({6}, device);
    set(x, {IndexSlice{1, {}, {}}}, x.slice(0, 0, 5, 1));
    EXPECT_EQ(values(x), (V{0, 0, 1, 2, 3, 4}));
    Array y = counting({4}, device, DType::int64);
    set(y, {y.slice(0, 3, -1, -1)}, y);
    EXPECT_EQ(values(y), (V{3, 2, 1, 0}));
  }
}

// Both the line kernel (few positions) and the claim table (many) are met.
TEST_F(Indexing, LastOfEqualIndicesStays) {
  for (Device device : devices()) {
    for (int64_t count : {3, 64, 65, 5000}) {
      V where(static_cast<size_t>(count)), expected{-1, -1, -1, -1, -1, -1, -1};
      for (int64_t i = 0; i < count; ++i) {
        where[static_cast<size_t>(i)] = (i * i) % 7;
        expected[static_cast<size_t>((i * i) % 7)] = i;
      }
      Array x = Array::empty({7}, DType::int64, device);
      fill(x, -1);
      set(x, {numbers(where, device)}, counting({count}, device));
      EXPECT_EQ(values(x), expected) << count;
      fill(x, -1);
      put_along_axis(x, numbers(where, device), counting({count}, device), 0);
      EXPECT_EQ(values(x), expected) << count;
      // Two index arrays that lead to the same places, and rows of values.
      Array rows = Array::empty({7, 2, 3}, DType::int16, device);
      fill(rows, -1);
      set(rows, {numbers(where, device), numbers({1}, device)}, counting({count, 1}, device));
      V spread;
      for (int64_t v : expected) {
        spread.insert(spread.end(), 3, -1);
        spread.insert(spread.end(), 3, v);
      }
      EXPECT_EQ(values(rows), spread) << count;
    }
  }
}

TEST_F(Indexing, BadIndicesAreSkippedAndRaiseAtTheNextWait) {
  for (Device device : devices()) {
    const Array x = counting({5}, device);
    const Array got = take(x, numbers({1, 7, -1, -6}, device));
    EXPECT_THROW(runtime::synchronize(device), OutOfRangeError);
    EXPECT_EQ(values(got), (V{1, 0, 4, 0}));
    set(x, {numbers({0, 5}, device)}, 9);
    EXPECT_THROW(runtime::synchronize(device), OutOfRangeError);
    EXPECT_EQ(values(x), (V{9, 1, 2, 3, 4}));
    const Array huge = numbers({-1, 2}, device).bitcast(DType::uint64);
    const Array from_unsigned = take(x, huge);
    EXPECT_THROW(runtime::synchronize(device), OutOfRangeError);
    EXPECT_EQ(values(from_unsigned), (V{0, 2}));
    take(x, numbers({7}, device));
    try {
      runtime::synchronize(device);
      FAIL();
    } catch (const OutOfRangeError& error) {
      EXPECT_STREQ(error.what(), "take: index 7 is out of range for an axis of size 5");
    }
  }
}

TEST_F(Indexing, TakeAndGather) {
  for (Device device : devices()) {
    for (DType dtype : {DType::int8, DType::int16, DType::int32, DType::int64, DType::complex128}) {
      const Array x = counting({3, 4}, device, dtype == DType::complex128 ? DType::int64 : dtype);
      const Array y = astype(x, dtype);
      if (dtype == DType::complex128) {
        const Array rows = take(y, numbers({2, 0}, device), 0).bitcast(DType::float64);
        EXPECT_EQ(values(rows.slice(1, 0, 8, 2)), (V{8, 9, 10, 11, 0, 1, 2, 3}));
        continue;
      }
      EXPECT_EQ(values(take(y, numbers({2, 0}, device), 0)), (V{8, 9, 10, 11, 0, 1, 2, 3}));
      EXPECT_EQ(values(take(y, numbers({2, -4}, device), 1)), (V{2, 0, 6, 4, 10, 8}));
      EXPECT_EQ(values(take(y.transpose(), numbers({1}, device), 0)), (V{1, 5, 9}));
      EXPECT_EQ(values(take_along_axis(y, numbers({3, 0, 1}, {3, 1}, device), 1)), (V{3, 4, 9}));
      EXPECT_EQ(values(take_along_axis(y, numbers({2, 1, 0, 1}, {1, 4}, device), 0)), (V{8, 5, 2, 7}));
    }
    const Array x = counting({3, 4}, device);
    EXPECT_EQ(take(x, numbers({1, 2, 3, 4}, {2, 2}, device)).shape(), (Dims{2, 2}));
    EXPECT_EQ(values(scatter(x, numbers({3, 3, 0}, {3, 1}, device), -1, 1)),
              (V{0, 1, 2, -1, 4, 5, 6, -1, -1, 9, 10, 11}));
    EXPECT_EQ(values(x), values(counting({3, 4}, device)));
    take(x, numbers({2, 1, 0}, device), 0, &x);
    EXPECT_EQ(values(x), (V{8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}));
    EXPECT_THROW(take(x, numbers({0}, device), 2), OutOfRangeError);
    EXPECT_THROW(take_along_axis(x, numbers({0}, device), 0), ShapeError);
    EXPECT_THROW(put_along_axis(x, numbers({0, 0}, {2, 1}, device), 1, 1), ShapeError);
  }
}

TEST_F(Indexing, NonzeroAcrossBlocks) {
  for (Device device : devices()) {
    V flags(70001);
    V expected;
    for (size_t i = 0; i < flags.size(); ++i) {
      flags[i] = (i * 2654435761u) % 5 == 0;
      if (flags[i] != 0) expected.push_back(static_cast<int64_t>(i));
    }
    EXPECT_EQ(values(nonzero(numbers(flags, device))[0]), expected);
    const Array x = numbers({0, 3, 0, 4}, {2, 2}, device);
    EXPECT_EQ(values(argwhere(x)), (V{0, 1, 1, 1}));
    EXPECT_EQ(values(argwhere(x.transpose())), (V{1, 0, 1, 1}));
    EXPECT_EQ(nonzero(x.slice(0, 0, 0, 1)).size(), 2u);
    EXPECT_THROW(nonzero(x.select(0, 0).select(0, 0)), ShapeError);
    EXPECT_EQ(values(compress(numbers({0, 1}, device), x, 0)), (V{0, 4}));
  }
}

// How a write is done is a function of shapes alone.
TEST_F(Indexing, SetPlan) {
  const Device cpu{DeviceKind::cpu, 0};
  auto method = [&](int64_t positions, int64_t lines) {
    IndexedMove move;
    move.indexed = Array::empty({4, lines}, DType::float32, cpu);
    move.shape = {positions, lines};
    move.indexed_strides = {0, 1};
    move.ordered_end = 1;
    move.add(Array::empty({positions}, DType::int64, cpu), {1, 0}, 4, lines);
    return cuda::plan_set(move, move_axes(move, {lines, 1}, true));
  };
  EXPECT_EQ(method(1, 100), cuda::SetMethod::direct);
  EXPECT_EQ(method(64, 100), cuda::SetMethod::lines);
  EXPECT_EQ(method(65, 100), cuda::SetMethod::claims);
  EXPECT_EQ(method(65, 32768), cuda::SetMethod::lines);
}

TEST_F(Indexing, RowsMoveInWideAccesses) {
  const Device cpu{DeviceKind::cpu, 0};
  auto width = [&](const Array& table, const Array& out) {
    IndexedMove move;
    move.indexed = table;
    move.shape = out.shape();
    move.indexed_strides = {0, table.strides()[1]};
    move.add(Array::empty({out.shape(0)}, DType::int32, cpu), {1, 0}, table.shape(0), table.strides()[0]);
    return cuda::plan_width(move, move_axes(move, out.strides(), false), &out);
  };
  const Array table = Array::empty({10, 64}, DType::float16, cpu);
  auto out = [&](int64_t columns) { return Array::empty({3, columns}, DType::float16, cpu); };
  EXPECT_EQ(width(table, out(64)), 8);
  EXPECT_EQ(width(table.narrow(1, 4, 12), out(12)), 4);
  EXPECT_EQ(width(table.narrow(1, 1, 8), out(8)), 1);
  EXPECT_EQ(width(table.slice(1, 0, 64, 2), out(32)), 1);
}

}  // namespace
}  // namespace gpukit
