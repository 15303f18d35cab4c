// Quotas are walls, and wholly free pages always suffice.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "gpukit/base/error.h"
#include "tests/support/pool_fixture.h"

namespace gpukit::memory {
namespace {

class PoolQuotaTest : public PoolTest {};
GPUKIT_WITH_AND_WITHOUT_PAGES(PoolQuotaTest);

// Wholly free pages always suffice

TEST_P(PoolQuotaTest, GrowingSizesSucceedAsLongAsTheyFit) {
  driver::set_host_memory_limit(64 * kMiB);
  auto s = stream();
  for (size_t size = 2; size <= 64; size += 2) {
    Block a = pool.allocate(size * kMiB, s);
    EXPECT_EQ(a.bytes, size * kMiB);
    pool.release(a, s, {});
  }
}

TEST_P(PoolQuotaTest, LargeAfterAlternatingLargeAndSmall) {
  driver::set_host_memory_limit(64 * kMiB);
  auto s = stream();
  std::vector<Block> large, small;
  for (int i = 0; i < 15; ++i) {
    large.push_back(pool.allocate(4 * kMiB, s));
    small.push_back(pool.allocate(700, s));
  }
  for (const Block& block : large) pool.release(block, s, {});
  // The small ones share one slab, so 62 MiB are wholly free.
  Block all = pool.allocate(62 * kMiB, s);
  pool.release(all, s, {});
  for (const Block& block : small) pool.release(block, s, {});
  pool.release(pool.allocate(64 * kMiB, s), s, {});
}

TEST_P(PoolQuotaTest, LargeAfterEveryOtherWasFreed) {
  driver::set_host_memory_limit(64 * kMiB);
  auto s = stream();
  std::vector<Block> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(pool.allocate(4 * kMiB, s));
  for (int i = 0; i < 16; i += 2) pool.release(blocks[static_cast<size_t>(i)], s, {});
  Block large = pool.allocate(32 * kMiB, s);
  std::fill_n(reinterpret_cast<char*>(large.address), large.bytes, 'x');
  for (int i = 1; i < 16; i += 2) {
    Block block = blocks[static_cast<size_t>(i)];
    std::fill_n(reinterpret_cast<char*>(block.address), block.bytes, 'y');
  }
  for (size_t i = 0; i < large.bytes; i += 4096) ASSERT_EQ(reinterpret_cast<char*>(large.address)[i], 'x');
  EXPECT_THROW(pool.allocate(2 * kMiB, s), OutOfMemoryError);
  pool.release(large, s, {});
  for (int i = 1; i < 16; i += 2) pool.release(blocks[static_cast<size_t>(i)], s, {});
}

TEST_P(PoolQuotaTest, SmallPiecesOfALargeBlockAndBack) {
  driver::set_host_memory_limit(64 * kMiB);
  auto s = stream();
  pool.release(pool.allocate(60 * kMiB, s), s, {});
  std::vector<Block> blocks;
  for (int i = 0; i < 30; ++i) blocks.push_back(pool.allocate(2 * kMiB, s));
  for (int i = 0; i < 4096; ++i) blocks.push_back(pool.allocate(1000, s));
  EXPECT_THROW(pool.allocate(2 * kMiB, s), OutOfMemoryError);
  for (const Block& block : blocks) pool.release(block, s, {});
  pool.release(pool.allocate(64 * kMiB, s), s, {});
}

TEST_P(PoolQuotaTest, AnotherAccountsCachedPagesAreUsed) {
  driver::set_host_memory_limit(32 * kMiB);
  auto s = stream();
  auto first = Account::create("first", context.device(), 0, false, pool.root());
  auto second = Account::create("second", context.device(), 0, false, pool.root());
  for (int i = 0; i < 3; ++i) {
    pool.release(pool.allocate(24 * kMiB, s, first), s, {});
    pool.release(pool.allocate(20 * kMiB, s, second), s, {});
  }
  std::vector<Block> small;
  for (int i = 0; i < 2048; ++i) small.push_back(pool.allocate(8192, s, first));
  for (const Block& block : small) pool.release(block, s, {});
  pool.release(pool.allocate(32 * kMiB, s, second), s, {});
  EXPECT_EQ(first->charged(), 0u);
}

// Quotas

TEST_P(PoolQuotaTest, QuotaIsAWallOfLiveAndCachedBytes) {
  auto s = stream();
  auto account = Account::create("tenant", context.device(), 10 * kMiB, false, pool.root());
  Block a = pool.allocate(4 * kMiB, s, account), b = pool.allocate(4 * kMiB, s, account);
  EXPECT_THROW(pool.allocate(3 * kMiB, s, account), OutOfMemoryError);
  Block c = pool.allocate(2 * kMiB, s, account);
  EXPECT_EQ(account->charged(), 10 * kMiB);
  pool.release(a, s, {});
  EXPECT_EQ(account->charged(), 10 * kMiB);  // 4 of them cached
  EXPECT_EQ(account->cached_bytes(), 4 * kMiB);
  Block d = pool.allocate(1000, s, account);  // makes room by letting go of what is cached
  EXPECT_LE(account->charged(), 10 * kMiB);
  EXPECT_EQ(account->cached_bytes(), 0u);
  Block other = pool.allocate(64 * kMiB, s);
  for (const Block& block : {b, c, d, other}) pool.release(block, s, {});
  EXPECT_EQ(account->live_bytes(), 0u);
  pool.forget(*account);
  EXPECT_EQ(account->charged(), 0u);
}

TEST_P(PoolQuotaTest, ChargesGoUpTheWholeChainOrNowhere) {
  auto s = stream();
  auto partition = Account::create("partition", context.device(), 10 * kMiB, false, pool.root());
  auto a = Account::create("a", context.device(), 8 * kMiB, false, partition);
  auto b = Account::create("b", context.device(), 8 * kMiB, false, partition);
  Block x = pool.allocate(6 * kMiB, s, a);
  try {
    pool.allocate(6 * kMiB, s, b);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("quota of partition is 10485760, charged 6291456"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(b->charged(), 0u);
  EXPECT_EQ(partition->charged(), 6 * kMiB);
  pool.release(x, s, {});
  // What a keeps cached does not keep b out of their partition.
  Block y = pool.allocate(6 * kMiB, s, b);
  EXPECT_EQ(a->charged(), 0u);
  EXPECT_EQ(partition->charged(), 6 * kMiB);
  pool.release(y, s, {});
}

TEST_P(PoolQuotaTest, LoweredQuotaAdmitsNothingUntilEnoughIsFree) {
  auto s = stream();
  auto account = Account::create("tenant", context.device(), 0, false, pool.root());
  Block a = pool.allocate(8 * kMiB, s, account), b = pool.allocate(2 * kMiB, s, account);
  account->set_quota(4 * kMiB);
  EXPECT_THROW(pool.allocate(256, s, account), OutOfMemoryError);
  EXPECT_EQ(account->charged(), 10 * kMiB);
  pool.release(a, s, {});
  Block c = pool.allocate(256, s, account);
  EXPECT_LE(account->charged(), 4 * kMiB);
  pool.release(b, s, {});
  pool.release(c, s, {});
}

TEST_P(PoolQuotaTest, QuotaHoldsAtEveryInstantUnderThreads) {
  constexpr size_t kQuota = 24 * kMiB;
  auto partition = Account::create("partition", context.device(), kQuota, false, pool.root());
  std::vector<std::shared_ptr<Account>> tenants;
  for (int t = 0; t < 3; ++t)
    tenants.push_back(Account::create("t" + std::to_string(t), context.device(), kQuota / 2, false, partition));
  std::atomic<bool> stop{false};
  std::atomic<int> breaches{0}, served{0};
  std::thread watcher([&] {
    while (!stop.load()) {
      if (partition->charged() > kQuota) ++breaches;
      for (const auto& tenant : tenants)
        if (tenant->charged() > kQuota / 2) ++breaches;
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      auto s = stream();
      std::vector<Block> held;
      uint64_t random = static_cast<uint64_t>(t) + 1;
      for (int i = 0; i < 3000; ++i) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (held.size() > 4 || (!held.empty() && (random >> 60) % 2 == 0)) {
          pool.release(held.back(), s, {});
          held.pop_back();
          continue;
        }
        try {
          held.push_back(pool.allocate((random >> 33) % (4 * kMiB) + 1, s, tenants[static_cast<size_t>(t)]));
          ++served;
        } catch (const OutOfMemoryError&) {
        }
      }
      for (const Block& block : held) pool.release(block, s, {});
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  watcher.join();
  EXPECT_EQ(breaches, 0);
  EXPECT_GT(served, 100);
  pool.trim();
  EXPECT_EQ(partition->charged(), 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0);
}

// The text of a refusal ranks owners that other threads change meanwhile.
TEST_P(PoolQuotaTest, RefusalsAmongThreadsThatAllocate) {
  std::vector<std::shared_ptr<Account>> tenants;
  for (int i = 0; i < 4; ++i)
    tenants.push_back(Account::create("t" + std::to_string(i), context.device(), kMiB, false, pool.root()));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      auto s = stream();
      for (size_t i = static_cast<size_t>(t); !stop; ++i) pool.release(pool.allocate(4096, s, tenants[i % 4]), s, {});
    });
  }
  auto s = stream();
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    try {
      pool.allocate(2 * kMiB, s, tenants[0]);
    } catch (const OutOfMemoryError&) {
      ++refused;
    }
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(refused, 20000);
}

// Two driver calls that wait for each other's threads.
std::atomic<int> g_phase;  // 1: trim has the pages in hand, 2: it may go on, 3: it is over
thread_local bool t_trims = false;

driver::CUresult late_unmap(driver::CUdeviceptr address, size_t bytes) {
  if (t_trims && g_phase == 0)
    for (g_phase = 1; g_phase != 2;) std::this_thread::yield();
  return driver::host_table().cuMemUnmap(address, bytes);
}

driver::CUresult late_refusal(driver::CUmemHandle* handle, size_t bytes, const driver::CUmemAllocationProp* properties,
                              unsigned long long flags) {
  static int refusals = 0;
  const driver::CUresult code = driver::host_table().cuMemCreate(handle, bytes, properties, flags);
  if (code != 0 && ++refusals == 2)
    for (g_phase = 2; g_phase != 3;) std::this_thread::yield();
  return code;
}

TEST(PoolTrim, WhatItGivesBackMeanwhileServesARefusedRequest) {
  driver::CudaTable table = driver::host_table();
  table.cuMemUnmap = late_unmap;
  table.cuMemCreate = late_refusal;
  driver::set_host_device_count(kOwnDevice + 1);
  driver::set_host_memory_limit(64 * kMiB);
  driver::Api api(table, DeviceKind::cpu);
  api.init();
  {
    driver::Context context(api, kOwnDevice);
    Pool pool(context, {.pages = PoolConfig::Pages::on, .max_retained = 64 * kMiB});
    auto s = std::make_shared<driver::Stream>(context, 0);
    pool.release(pool.allocate(40 * kMiB, s), s, {});
    g_phase = 0;
    std::thread trims([&] {
      t_trims = true;
      pool.trim();
      g_phase = 3;
    });
    while (g_phase != 1) std::this_thread::yield();
    Block block;
    EXPECT_NO_THROW(block = pool.allocate(40 * kMiB, s));
    if (g_phase == 1) g_phase = 2;
    trims.join();
    if (block.bytes != 0) pool.release(block, s, {});
  }
  driver::set_host_memory_limit(0);
  driver::set_host_device_count(1);
}

TEST_P(PoolQuotaTest, ClosedAccountKeepsNothing) {
  auto s = stream();
  auto account = Account::create("closed", context.device(), 0, false, pool.root());
  Block a = pool.allocate(4 * kMiB, s, account), b = pool.allocate(100, s, account);
  pool.release(a, s, {});
  account->close();
  pool.release(b, s, {});
  EXPECT_EQ(account->charged(), 0u);
}

TEST_P(PoolQuotaTest, RefusesAnAccountOfAnotherDevice) {
  auto account = Account::create("elsewhere", {DeviceKind::cuda, 3});
  EXPECT_THROW(pool.allocate(100, stream(), account), ArgumentError);
  EXPECT_THROW(Account::create("x", {DeviceKind::cuda, 3}, 0, false, pool.root()), ArgumentError);
}

}  // namespace
}  // namespace gpukit::memory
