#include <gtest/gtest.h>

#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/memory/size_class.h"
#include "gpukit/memory/storage.h"
#include "tests/support/pool_fixture.h"

namespace gpukit::memory {
namespace {

GPUKIT_WITH_AND_WITHOUT_PAGES(PoolTest);

TEST(SizeClass, WastesAnEighthAtMostAndIsAMultipleOf256) {
  for (size_t bytes = 1; bytes <= kSmallLimit; bytes += bytes < 5000 ? 1 : 97) {
    const int index = size_class(bytes);
    ASSERT_GE(class_bytes(index), bytes);
    ASSERT_EQ(class_bytes(index) % 256, 0u);
    if (index > 0) {
      ASSERT_LT(class_bytes(index - 1), bytes);
    }
    if (bytes > 2048) {
      ASSERT_LE(class_bytes(index) - bytes, class_bytes(index) / 8) << bytes;
    }
  }
  for (int index = 0; index < kNumClasses; ++index)
    EXPECT_LE(slab_bytes(index) % class_bytes(index) * 8, slab_bytes(index)) << class_bytes(index);
}

TEST_P(PoolTest, ReusesOnTheSameStreamWithoutADriverCall) {
  auto s = stream();
  Block a = pool.allocate(1000, s);
  EXPECT_EQ(a.bytes, 1024u);
  EXPECT_EQ(a.address % 256, 0u);
  pool.release(a, s, {});
  const int64_t driver_calls = pool.stats().driver_allocations;
  Block b = pool.allocate(900, s);
  EXPECT_EQ(b.address, a.address);
  EXPECT_EQ(pool.stats().driver_allocations, driver_calls);
  EXPECT_EQ(pool.stats().reuses, 1);
  pool.release(b, s, {});
  EXPECT_EQ(pool.stats().live_bytes, 0);
  EXPECT_EQ(pool.stats().cached_bytes, 1024);
  EXPECT_EQ(pool.stats().virtual_memory, pages());
}

TEST_P(PoolTest, BlocksMoveBetweenStreams) {
  auto first = stream(), second = stream();
  Block a = pool.allocate(4 * kMiB, first);
  pool.release(a, first, {});
  Block b = pool.allocate(4 * kMiB, second);
  EXPECT_EQ(b.address, a.address);
  std::shared_ptr<driver::Stream> others[] = {first};
  pool.release(b, second, others);
  Block c = pool.allocate(4 * kMiB, second);
  EXPECT_EQ(c.address, a.address);
  pool.release(c, second, {});
}

TEST_P(PoolTest, DoesNotWasteLargeBlocksOnSmallRequests) {
  auto s = stream();
  Block a = pool.allocate(64 * kMiB, s);
  pool.release(a, s, {});
  Block b = pool.allocate(2 * kMiB, s);
  EXPECT_NE(b.address, a.address);
  EXPECT_EQ(b.bytes, 2 * kMiB);
  pool.release(b, s, {});
}

TEST_P(PoolTest, TrimReturnsEverything) {
  auto s = stream();
  Block a = pool.allocate(3 * kMiB, s), b = pool.allocate(100, s);
  EXPECT_EQ(pool.stats().reserved_bytes, 6 << 20);
  pool.release(a, s, {});
  pool.release(b, s, {});
  EXPECT_EQ(pool.trim(), 6 << 20);
  ResourceStats stats = pool.stats();
  EXPECT_EQ(stats.cached_bytes, 0);
  EXPECT_EQ(stats.reserved_bytes, 0);
  EXPECT_EQ(stats.slabs, 0);
  EXPECT_EQ(stats.driver_frees, 2);
  EXPECT_EQ(pool.root()->charged(), 0u);
}

TEST_P(PoolTest, TrimKeepsWhatLives) {
  auto s = stream();
  Block a = pool.allocate(100, s), b = pool.allocate(100, s);
  pool.release(a, s, {});
  EXPECT_EQ(pool.trim(), 0);
  EXPECT_EQ(pool.stats().slabs, 1);
  std::fill_n(reinterpret_cast<char*>(b.address), b.bytes, 'x');
  pool.release(b, s, {});
  EXPECT_EQ(pool.trim(), 2 << 20);
}

TEST_P(PoolTest, OutOfMemorySaysAllItKnows) {
  auto s = stream();
  auto hungry = Account::create("hungry", context.device(), 0, false, pool.root());
  Block held = pool.allocate(3 * kMiB, s, hungry);
  try {
    pool.allocate(size_t{1} << 60, s);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.asked_bytes, int64_t{1} << 60);
    const std::string text = error.what();
    for (const char* part : {"asked 1152921504606846976 bytes", "4194304 in use in 1 blocks", "0 cached",
                             "largest free 0", "owners: hungry 4194304 live + 0 cached", "tried nothing: it is above"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " | " << text;
  }
  EXPECT_EQ(pool.root()->charged(), 4 * kMiB);
  pool.release(held, s, {});
  Block a = pool.allocate(512, s);
  pool.release(a, s, {});
}

TEST_P(PoolTest, OutOfMemoryNamesTheFiveLargestOwners) {
  auto s = stream();
  std::vector<std::shared_ptr<Account>> owners;
  std::vector<Block> blocks;
  for (int i = 0; i < 7; ++i) {
    owners.push_back(Account::create("owner" + std::to_string(i), context.device(), 0, false, pool.root()));
    blocks.push_back(pool.allocate(2 * kMiB * static_cast<size_t>(i + 1), s, owners.back()));
  }
  try {
    pool.allocate(size_t{1} << 60, s);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("owners: owner6 14680064 live"), std::string::npos) << text;
    EXPECT_NE(text.find("owner2"), std::string::npos) << text;
    EXPECT_EQ(text.find("owner1"), std::string::npos) << text;
  }
  for (const Block& block : blocks) pool.release(block, s, {});
}

TEST_P(PoolTest, ThreadsNeverShareABlock) {
  std::vector<std::thread> threads;
  std::atomic<int> clashes{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto s = stream();
      for (int i = 0; i < 500; ++i) {
        Block a = pool.allocate(i % 50 == 0 ? 3 * kMiB : static_cast<size_t>(512 * (1 + i % 7)), s);
        auto* word = reinterpret_cast<volatile int*>(a.address);
        *word = t;
        std::this_thread::yield();
        if (*word != t) ++clashes;
        pool.release(a, s, {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool.stats().live_blocks, 0);
}

TEST_P(PoolTest, MemoryOfAStreamThatIsGoneIsFreeForAll) {
  Block a;
  {
    auto gone = stream();
    a = pool.allocate(8 * kMiB, gone);
    pool.release(a, gone, {});
  }
  auto other = Account::create("other", context.device(), 0, false, pool.root());
  Block b = pool.allocate(8 * kMiB, stream(), other);
  EXPECT_EQ(b.address, a.address);
  pool.release(b, nullptr, {});
  EXPECT_EQ(pool.stats().reserved_bytes, 8 << 20);
}

TEST_P(PoolTest, RetainedBytesAreCapped) {
  PoolConfig small = config();
  small.max_retained = 10 * kMiB;
  Pool capped(context, small);
  auto s = stream();
  std::vector<Block> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(capped.allocate(4 * kMiB, s));
  for (const Block& block : blocks) {
    capped.release(block, s, {});
    EXPECT_LE(capped.stats().retained_bytes, 10 << 20);
  }
  EXPECT_LE(capped.stats().reserved_bytes, 10 << 20);
  EXPECT_GE(capped.stats().retained_bytes, 8 << 20);
}

TEST_P(PoolTest, ASteadyLoopMakesNoDriverAllocation) {
  auto s = stream();
  const size_t sizes[] = {256, 14336 * 2, 4096 * 2, 600000, 2 * kMiB, 5 * kMiB, 33 * kMiB};
  ResourceStats before;
  for (int step = 0; step < 400; ++step) {
    if (step == 2) before = pool.stats();
    std::vector<Block> blocks;
    for (size_t size : sizes) blocks.push_back(pool.allocate(size, s));
    for (const Block& block : blocks) pool.release(block, s, {});
  }
  EXPECT_EQ(pool.stats().driver_allocations, before.driver_allocations);
  EXPECT_EQ(pool.stats().mappings, before.mappings);
  EXPECT_EQ(pool.stats().waits, 0);
}

/// Sizes as a transformer's layers ask for them: activations of a few hundred tokens, norms, scores, tables.
std::vector<size_t> trace() {
  std::vector<size_t> sizes;
  for (size_t tokens : {1, 3, 17, 64, 129, 200})
    for (size_t width : {896, 1152, 2048, 3584, 4864, 151})
      for (size_t item : {2, 4}) sizes.push_back(tokens * width * item);
  for (size_t heads : {14, 32})
    for (size_t length : {100, 333, 511}) sizes.push_back(heads * length * 4);
  std::erase_if(sizes, [](size_t size) { return size > kSmallLimit; });
  return sizes;
}

TEST_P(PoolTest, SlabsWasteAnEighthAtMost) {
  auto s = stream();
  std::vector<Block> blocks;
  size_t asked = 0, given = 0;
  for (int round = 0; round < 400; ++round) {
    for (size_t size : trace()) {
      blocks.push_back(pool.allocate(size, s));
      asked += size;
      given += blocks.back().bytes;
    }
  }
  const auto slabs = static_cast<size_t>(pool.stats().slab_bytes);
  EXPECT_LE(given - asked, given / 8);
  EXPECT_LE(slabs - asked, slabs / 8) << asked << " of " << slabs;
  for (const Block& block : blocks) pool.release(block, s, {});
}

TEST_P(PoolTest, ForeignMemoryIsReleasedOnce) {
  int released = 0;
  char bytes[64];
  {
    auto storage = Storage::adopt(context, reinterpret_cast<driver::Address>(bytes), 64, [&] { ++released; });
    storage->note_use(stream());
    EXPECT_TRUE(storage->foreign());
    EXPECT_EQ(released, 0);
  }
  run_pending_releases(true);
  EXPECT_EQ(released, 1);
}

// Debug mode

TEST(PoolDebug, FindsBytesWrittenPastABlockAndReusesNothing) {
  driver::Api api(driver::host_table(), DeviceKind::cpu);
  api.init();
  driver::Context context(api, 0);
  Pool pool(context, {.debug = true});
  auto s = std::make_shared<driver::Stream>(context, 0);
  auto account = Account::create("careless", context.device(), 1 << 20, false, pool.root());
  Block good = pool.allocate(1000, s, account), bad = pool.allocate(1000, s, account);
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(reinterpret_cast<unsigned char*>(good.address)[i], 0xcd);
  EXPECT_EQ(good.bytes, 1000u);
  pool.release(good, s, {});
  EXPECT_NO_THROW(pool.raise_faults());
  reinterpret_cast<char*>(bad.address)[1003] = 1;
  pool.release(bad, s, {});
  try {
    pool.raise_faults();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a byte 3 past its end"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("careless"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(pool.raise_faults());
  Block before = pool.allocate(64, s);
  reinterpret_cast<char*>(before.address)[-2] = 1;
  pool.release(before, s, {});
  EXPECT_THROW(pool.raise_faults(), Error);
  EXPECT_THROW(pool.allocate(2 << 20, s, account), OutOfMemoryError);
  EXPECT_EQ(pool.stats().driver_allocations, pool.stats().driver_frees);
  EXPECT_EQ(account->charged(), 0u);
}

}  // namespace
}  // namespace gpukit::memory
