// Frozen blocks: evictions that copy nothing. Turns of groups that share the room of one.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/residency.h"
#include "tests/support/residency_fixture.h"

namespace gpukit::memory {
namespace {

/// Gives one value, and can refuse.
struct Constant final : ByteSource {
  Constant(size_t bytes, int value) : all{{0, bytes, false}}, value(value) {}
  const std::vector<Part>& parts() const override { return all; }
  void read(size_t offset, void* to, size_t bytes) override {
    if (gone) throw FileError("weights", 0, "cannot read");
    EXPECT_LE(offset + bytes, all.front().bytes);
    std::memset(to, value, bytes);
    reads += bytes;
  }
  std::vector<Part> all;
  const int value;
  std::atomic<bool> gone{false};
  std::atomic<size_t> reads{0};
};

struct FrozenTest : ResidencyTest {
  StoragePtr in_graph(size_t bytes, int value) {
    StoragePtr storage = make(bytes, value);
    storage->graph_hold();
    kept.push_back(storage);
    return storage;
  }
  ~FrozenTest() override {
    for (const auto& storage : kept) storage->graph_release();
  }
  /// By a launch that only reads.
  static bool shows(const StoragePtr& storage, int value) {
    const Use use{&storage, 0, false};
    const Hold hold({&use, 1});
    const auto* p = reinterpret_cast<const char*>(storage->address());
    return p[0] == static_cast<char>(value) && std::memcmp(p, p + 1, storage->bytes() - 1) == 0;
  }
  size_t host_bytes() { return static_cast<size_t>(pool.residency()->moved().host); }
  int64_t out() { return pool.residency()->moved().copied_out; }
  std::vector<StoragePtr> kept;
};

TEST_F(FrozenTest, ASourceSavesTheCopy) {
  auto source = std::make_shared<Constant>(4 * kMiB, 5);
  StoragePtr weights = in_graph(4 * kMiB, 5), cache = in_graph(2 * kMiB, 1);
  freeze(*weights, source);
  EvictionGroup model(pool);
  model.add(weights);
  model.add(cache);
  const auto address = *weights->address_now();
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(model.evict(), 6 * kMiB);
    EXPECT_FALSE(weights->resident());
    EXPECT_EQ(account->live_bytes(), 0u);
    EXPECT_EQ(host_bytes(), 2 * kMiB);
    EXPECT_EQ(out(), static_cast<int64_t>(i * 2 * kMiB));  // of the cache alone
    EXPECT_TRUE(shows(weights, 5) && shows(cache, 1));
    EXPECT_EQ(*weights->address_now(), address);
    EXPECT_EQ(pool.residency()->moved().reread, static_cast<int64_t>(i * 4 * kMiB));
  }
}

TEST_F(FrozenTest, WithoutASourceOneCopyServesForLife) {
  StoragePtr block = make(4 * kMiB, 7);
  freeze(*block);
  for (int i = 0; i < 3; ++i) {
    block->evict();
    EXPECT_FALSE(block->resident());
    EXPECT_EQ(host_bytes(), 4 * kMiB);
    EXPECT_TRUE(shows(block, 7));
  }
  EXPECT_EQ(out(), static_cast<int64_t>(4 * kMiB));
  block.reset();
  EXPECT_EQ(host_bytes(), 0u);
}

TEST_F(FrozenTest, AWriteMakesItAnOrdinaryBlock) {
  auto source = std::make_shared<Constant>(4 * kMiB, 5);
  StoragePtr block = make(4 * kMiB, 5);
  freeze(*block, source);
  fill(block, 9);
  EXPECT_EQ(source.use_count(), 1);
  block->evict();
  EXPECT_EQ(out(), static_cast<int64_t>(4 * kMiB));
  EXPECT_TRUE(shows(block, 9));
}

TEST_F(FrozenTest, ASourceThatFailsLeavesTheBlockAway) {
  auto source = std::make_shared<Constant>(4 * kMiB, 5);
  StoragePtr weights = in_graph(4 * kMiB, 5), cache = in_graph(2 * kMiB, 1), other = make(2 * kMiB, 3);
  freeze(*weights, source);
  EvictionGroup model(pool);
  model.add(weights);
  model.add(cache);
  model.evict();
  source->gone = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(GroupTurn turn(model), FileError);
    EXPECT_FALSE(model.resident() || weights->resident() || cache->resident());
    EXPECT_EQ(account->live_bytes(), 2 * kMiB);
    EXPECT_TRUE(shows(other, 3));
  }
  source->gone = false;
  EXPECT_TRUE(shows(weights, 5) && shows(cache, 1) && shows(other, 3));
}

TEST_F(FrozenTest, ADriverFaultAtAnyCallOfAReturnLosesNothing) {
  auto source = std::make_shared<Constant>(4 * kMiB, 5);
  StoragePtr weights = in_graph(4 * kMiB, 5), cache = in_graph(2 * kMiB, 1);
  freeze(*weights, source);
  EvictionGroup model(pool);
  model.add(weights);
  model.add(cache);
  int failures = 0;
  for (int nth = 1; nth < 60; ++nth) {
    stream->synchronize();
    model.evict();
    pool.trim();
    fake.fail_nth(nth, driver::kErrorOutOfMemory);
    try {
      model.restore();
    } catch (const Error&) {
      ++failures;
      EXPECT_FALSE(model.resident());
      EXPECT_EQ(account->live_bytes(), 0u);
    }
    fake.stop_failing();
    ASSERT_TRUE(shows(weights, 5) && shows(cache, 1)) << nth;
  }
  EXPECT_GT(failures, 3);
}

TEST_F(FrozenTest, PlainMemoryOfACpuKeepsItsAddressToo) {
  Pool plain(context, {.pages = PoolConfig::Pages::off, .host_limit = 256 * kMiB});
  auto tenant = Account::create("plain", context.device(), 16 * kMiB, true, plain.root());
  auto block = [&](size_t bytes, int value) {
    StoragePtr storage = Storage::allocate(plain, bytes, stream, tenant);
    fill(storage, value);
    return storage;
  };
  auto source = std::make_shared<Constant>(4 * kMiB, 5);
  {
    StoragePtr weights = block(4 * kMiB, 5), cache = block(6 * kMiB, 1);
    kept = {weights, cache};
    for (const auto& storage : kept) storage->graph_hold();
    freeze(*weights, source);
    EvictionGroup model(plain);
    model.add(weights);
    model.add(cache);
    const auto addresses = std::pair(*weights->address_now(), *cache->address_now());
    for (int i = 0; i < 3; ++i) {
      {
        StoragePtr large = block(12 * kMiB, 2);  // makes the model leave
        EXPECT_FALSE(model.resident());
        EXPECT_TRUE(shows(large, 2));
      }
      EXPECT_TRUE(shows(weights, 5) && shows(cache, 1));
      EXPECT_EQ(addresses, std::pair(*weights->address_now(), *cache->address_now()));
    }
    model.evict();
    for (const auto& storage : kept) storage->graph_release();
    kept.clear();
  }
  plain.trim();
  EXPECT_EQ(tenant->charged(), 0u);
  EXPECT_EQ(plain.stats().reserved_bytes, 0);
}

TEST_F(FrozenTest, SpareCopiesGiveWayToBytesThatNeedTheRoom) {
  account->set_host_limit(4 * kMiB);
  StoragePtr frozen = make(4 * kMiB, 7), other = make(4 * kMiB, 8);
  freeze(*frozen);
  frozen->evict();
  frozen->restore();
  EXPECT_EQ(host_bytes(), 4 * kMiB);
  other->evict();  // into the room of the copy
  EXPECT_EQ(host_bytes(), 4 * kMiB);
  EXPECT_TRUE(shows(other, 8) && shows(frozen, 7));
}

TEST_F(FrozenTest, KeptMemoryOfAnotherAccountDoesNotLeaveForNothing) {
  auto budget = Account::create("budget", context.device(), 16 * kMiB, false, pool.root());
  auto guaranteed = Account::create("guaranteed", context.device(), 8 * kMiB, true, budget);
  auto guest = Account::create("guest", context.device(), 0, true, budget);
  ASSERT_EQ(guaranteed->try_keep(8 * kMiB), nullptr);
  StoragePtr own = Storage::allocate(pool, 6 * kMiB, stream, guaranteed);
  StoragePtr first = Storage::allocate(pool, 6 * kMiB, stream, guest);
  StoragePtr second = Storage::allocate(pool, 6 * kMiB, stream, guest);
  EXPECT_TRUE(own->resident());
  EXPECT_FALSE(first->resident());
}

TEST_F(FrozenTest, TwoThreadsTakeTurnsOfManySteps) {
  constexpr int kSteps = 300;
  std::vector<std::shared_ptr<Constant>> sources;
  std::vector<std::unique_ptr<EvictionGroup>> models;
  std::vector<StoragePtr> weights;
  for (int i = 0; i < 2; ++i) {
    weights.push_back(in_graph(12 * kMiB, 5 + i));
    sources.push_back(std::make_shared<Constant>(12 * kMiB, 5 + i));
    freeze(*weights[i], sources[i]);
    models.push_back(std::make_unique<EvictionGroup>(pool));
    models[i]->add(weights[i]);
  }
  std::atomic<int> wrong{0};
  auto work = [&](size_t i) {
    auto own = std::make_shared<driver::Stream>(context, 0);
    for (int step = 0; step < kSteps; ++step) {
      GroupTurn turn(*models[i]);
      for (int launch = 0; launch < 4; ++launch) {
        const Use use{&weights[i], 0, false};
        const Hold hold({&use, 1});
        const auto* bytes = reinterpret_cast<const char*>(weights[i]->address());
        if (bytes[launch * 1000] != static_cast<char>(5 + i) || bytes[12 * kMiB - 1] != static_cast<char>(5 + i))
          ++wrong;
        weights[i]->note_use(own);
      }
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  EXPECT_EQ(wrong, 0);
  // Not one change a step: turns are many steps long.
  EXPECT_LT(pool.stats().restores, kSteps);
}

}  // namespace
}  // namespace gpukit::memory
