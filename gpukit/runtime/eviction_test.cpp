// Arrays of accounts that evict: launches, copies, graphs and exports find their bytes and keep their addresses.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "gpukit/array/dlpack.h"
#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/pool_api.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr size_t kMiB = size_t{1} << 20;
constexpr int64_t kCount = 2 * kMiB / 4;  // int32 elements of one array

void add(const Array& out, const Array& a, const Array& b, int32_t value) {
  run_host("add", kCpu, {write(out), read(a), read(b)}, [value](void* const* p) {
    auto* to = static_cast<int32_t*>(p[0]);
    auto *x = static_cast<const int32_t*>(p[1]), *y = static_cast<const int32_t*>(p[2]);
    for (int64_t i = 0; i < kCount; ++i) to[i] = x[i] + y[i] + value;
  });
}

struct EvictionTest : ::testing::Test {
  FakeDriver fake;
  DeviceState& state = open_device(kCpu);
  std::shared_ptr<memory::Account> account =
      memory::Account::create("tenant", kCpu, 8 * kMiB, true, state.resource->root());
  Session session = Session().with_account(account);
  SessionGuard guard{session};

  Array numbers(int32_t first) {
    std::vector<int32_t> values(kCount);
    for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = first + static_cast<int32_t>(i % 97);
    return from_host(values.data(), {kCount}, DType::int32, kCpu);
  }
  static std::vector<int32_t> values(const Array& array) {
    std::vector<int32_t> result(kCount);
    to_host(result.data(), array);
    return result;
  }
  static bool is(const Array& array, int32_t first, int32_t factor = 1) {
    const std::vector<int32_t> found = values(array);
    for (int64_t i = 0; i < kCount; ++i)
      if (found[static_cast<size_t>(i)] != first + factor * static_cast<int32_t>(i % 97)) return false;
    return true;
  }
};

TEST_F(EvictionTest, ArraysOfASessionAreChargedToItsAccount) {
  Array a = numbers(1);
  EXPECT_EQ(account->live_bytes(), 2 * kMiB);
  {
    Session none;
    SessionGuard outside(none);
    Array b = Array::empty({kCount}, DType::int32, kCpu);
    EXPECT_EQ(account->live_bytes(), 2 * kMiB);
    EXPECT_EQ(current_account(kCpu), nullptr);
  }
  EXPECT_EQ(current_account(kCpu), account);
  EXPECT_EQ(current_account({DeviceKind::cpu, 1}), nullptr);
}

TEST_F(EvictionTest, ComputesOnThreeTimesTheQuotaInAnyOrder) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    fake.defer(seed != 0);
    fake.seed(seed);
    std::mt19937_64 random(seed);
    std::vector<Array> arrays;
    std::vector<int32_t> first(12), factor(12, 1);
    for (int32_t i = 0; i < 12; ++i) arrays.push_back(numbers(first[static_cast<size_t>(i)] = i * 10));
    for (int step = 0; step < 40; ++step) {
      const size_t out = random() % 12, a = random() % 12, b = random() % 12;
      if (factor[a] + factor[b] > 1000) continue;
      add(arrays[out], arrays[a], arrays[b], step);
      first[out] = first[a] + first[b] + step;
      factor[out] = factor[a] + factor[b];
      ASSERT_LE(account->charged(), 8 * kMiB);
    }
    for (size_t i = 0; i < 12; ++i) EXPECT_TRUE(is(arrays[i], first[i], factor[i])) << seed << " " << i;
    EXPECT_GT(account->stats().evictions, 0);
  }
}

TEST_F(EvictionTest, WorkingSetAboveTheQuotaRaisesAndLosesNothing) {
  Array a = numbers(1), b = numbers(2), c = numbers(3);
  account->set_quota(5 * kMiB);
  c.storage()->evict();
  EXPECT_THROW(add(a, b, c, 0), OutOfMemoryError);
  EXPECT_TRUE(is(a, 1) && is(b, 2) && is(c, 3));
  add(a, b, b, 0);
  EXPECT_TRUE(is(a, 4, 2));
}

TEST_F(EvictionTest, CopiesBringTheirArraysBack) {
  Array a = numbers(1), b = numbers(2), c = numbers(3), d = numbers(4), e = numbers(5);
  EXPECT_FALSE(a.storage()->resident());
  copy_device(write(e), read(a), static_cast<size_t>(a.nbytes()));
  EXPECT_TRUE(is(e, 1));
  a.storage()->evict();
  fill(write(a), 4, 7, kCount);
  EXPECT_EQ(values(a)[5], 7);
  EXPECT_TRUE(is(b, 2) && is(c, 3) && is(d, 4));
}

TEST_F(EvictionTest, ExportedArraysStayUntilTheDeleterRuns) {
  Array a = numbers(1);
  {
    auto tensor = dlpack::export_versioned(a, false, {1, 1}, 0);
    EXPECT_THROW(a.storage()->evict(), Error);
    Array others[] = {numbers(2), numbers(3), numbers(4), numbers(5)};
    EXPECT_TRUE(a.storage()->resident());
    EXPECT_EQ(static_cast<int32_t*>(tensor->dl_tensor.data)[3], 4);
  }
  EXPECT_NO_THROW(a.storage()->evict());
  EXPECT_TRUE(is(a, 1));
  a.host_data();  // a raw pointer: for life
  EXPECT_THROW(a.storage()->evict(), Error);
}

TEST_F(EvictionTest, GraphsKeepTheirBlocksUntilTheyAreReset) {
  Array a = numbers(1), b = numbers(2);
  Graph graph(kCpu);
  graph.begin_capture();
  {
    Session inside = session.with_stream(graph.stream());
    SessionGuard capturing(inside);
    add(a, a, b, 0);
  }
  graph.end_capture();
  EXPECT_THROW(a.storage()->evict(), Error);
  Array others[] = {numbers(3), numbers(4), numbers(5)};
  EXPECT_TRUE(a.storage()->resident() && b.storage()->resident());
  graph.replay();
  graph.replay();
  EXPECT_TRUE(is(a, 5, 3));
  EXPECT_TRUE(graph.verify());
  EXPECT_TRUE(is(a, 5, 3));
  graph.reset();
  a.storage()->evict();
  EXPECT_TRUE(is(a, 5, 3) && is(others[0], 3) && is(others[1], 4) && is(others[2], 5));
}

TEST_F(EvictionTest, ACaptureBringsEvictedBlocksBackWithoutBreaking) {
  Array a = numbers(1), b = numbers(2);
  a.storage()->evict();
  b.storage()->evict();
  Graph graph(kCpu);
  graph.begin_capture();
  {
    Session inside = session.with_stream(graph.stream());
    SessionGuard capturing(inside);
    add(a, a, b, 0);
  }
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 1);
  graph.replay();
  EXPECT_TRUE(is(a, 3, 2));
}

/// A model of two arrays, `a += b` captured in a graph, in a pool whose blocks can drop their pages.
struct ModelTest : EvictionTest {
  memory::Pool pool{state.context, {.pages = memory::PoolConfig::Pages::on}};
  std::shared_ptr<memory::Account> tenant = memory::Account::create("model", kCpu, 8 * kMiB, true, pool.root());
  Array a = make(1), b = make(2);
  Graph graph{kCpu};

  ModelTest() {
    graph.begin_capture();
    {
      Session inside = session.with_stream(graph.stream());
      SessionGuard capturing(inside);
      add(a, a, b, 0);
    }
    graph.end_capture();
  }
  Array make(int32_t first) {
    Array array(memory::Storage::allocate(pool, static_cast<size_t>(kCount) * 4, state.default_stream, tenant),
                DType::int32, {kCount}, contiguous_strides({kCount}), 0);
    copy_device(write(array), read(numbers(first)), static_cast<size_t>(array.nbytes()));
    return array;
  }
};

TEST_F(ModelTest, AGroupLeavesWithItsGraphsAndComesBackForAReplay) {
  Array spare = make(9);
  {
    memory::EvictionGroup group(pool);
    for (const Array* array : {&a, &b}) group.add(array->storage());
    graph.replay();
    EXPECT_EQ(group.evict(), 4 * kMiB);
    Array others[] = {make(3), make(4), make(5)};
    graph.replay();
    EXPECT_TRUE(group.resident());
    EXPECT_TRUE(is(a, 5, 3) && is(b, 2));
    EXPECT_TRUE(is(others[0], 3) && is(others[1], 4) && is(others[2], 5) && is(spare, 9));
    group.evict();
    EXPECT_TRUE(graph.verify());
    for (uint64_t seed = 1; seed < 20; ++seed) {
      fake.defer(true);
      fake.seed(seed);
      graph.replay();
      group.evict();
      graph.replay();
      fake.defer(false);
    }
    EXPECT_TRUE(is(a, 5 + 2 * 38, 3 + 38));
  }
  graph.reset();
}

TEST_F(ModelTest, AReplayBringsBackWhatItsGroupLeftEvicted) {
  {
    memory::EvictionGroup group(pool);
    for (const Array* array : {&a, &b}) group.add(array->storage());
    EXPECT_EQ(group.evict(), 4 * kMiB);
  }
  EXPECT_FALSE(a.storage()->resident());
  graph.replay();
  EXPECT_TRUE(a.storage()->resident() && b.storage()->resident());
  EXPECT_TRUE(is(a, 3, 2) && is(b, 2));
}

TEST_F(ModelTest, AGroupMadeAfterReplaysWaitsForThem) {
  graph.replay();
  synchronize(kCpu);
  make(7).storage()->evict();  // what ran until here is known to be over
  for (int32_t seed = 1; seed < 20; ++seed) {
    fake.defer(true);
    fake.queries_run(false);
    fake.seed(static_cast<uint64_t>(seed));
    graph.replay();
    memory::EvictionGroup group(pool);
    for (const Array* array : {&a, &b}) group.add(array->storage());
    EXPECT_EQ(group.evict(), 4 * kMiB);
    fake.defer(false);
    EXPECT_TRUE(is(a, 3 + 2 * seed, 2 + seed));
  }
}

TEST_F(EvictionTest, ArraysAllocateFromTheDefaultPool) {
  auto pool = std::make_shared<memory::MemoryPool>(*state.resource, state.default_stream, 4 * kMiB, false, "default");
  memory::set_default_pool(pool);
  Session none;
  SessionGuard outside(none);
  {
    Array a = Array::empty({kCount}, DType::int32, kCpu);
    EXPECT_EQ(pool->used(), 2 * kMiB);
    EXPECT_THROW(Array::empty({2 * kCount}, DType::int32, kCpu), OutOfMemoryError);
    SessionGuard inside(session);  // a session's account wins
    Array b = Array::empty({kCount}, DType::int32, kCpu);
    EXPECT_EQ(pool->used(), 2 * kMiB);
  }
  EXPECT_EQ(pool->used(), 0u);
  memory::set_default_pool(nullptr);
  Array c = Array::empty({2 * kCount}, DType::int32, kCpu);
  EXPECT_EQ(memory::default_account(kCpu), nullptr);
}

TEST_F(EvictionTest, FourThreadsComputeOnThreeTimesTheQuota) {
  std::atomic<int> wrong{0}, over{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Session own = session.with_stream(std::make_shared<driver::Stream>(state.context, 0));
      SessionGuard inside(own);
      std::vector<Array> mine;
      for (int32_t i = 0; i < 3; ++i) mine.push_back(numbers(t * 100 + i));
      for (int32_t step = 1; step <= 12; ++step) {
        add(mine[0], mine[1], mine[2], step);
        if (account->charged() > 8 * kMiB) ++over;
        if (!is(mine[0], t * 200 + 3 + step, 2)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(over, 0);
}

}  // namespace
}  // namespace gpukit::runtime
