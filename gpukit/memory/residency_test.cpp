// Eviction: bytes stay, the order is exact, pins and limits hold, and nothing is lost when a call fails.
#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "gpukit/memory/host_arena.h"
#include "gpukit/memory/mover.h"
#include "tests/support/residency_fixture.h"

namespace gpukit::memory {
namespace {

TEST_F(ResidencyTest, MakesRoomByMovingTheLeastRecentlyUsedToHostMemory) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  EXPECT_TRUE(holds(a, 1));  // b is the older one now
  StoragePtr c = make(6 * kMiB, 3);
  EXPECT_FALSE(b->resident());
  EXPECT_TRUE(a->resident());
  EXPECT_LE(account->charged(), 16 * kMiB);
  EXPECT_EQ(account->evicted_bytes(), 6 * kMiB);
  EXPECT_TRUE(holds(b, 2));  // comes back, a leaves
  EXPECT_FALSE(a->resident());
  EXPECT_TRUE(holds(a, 1));
  EXPECT_TRUE(holds(c, 3));
  EXPECT_EQ(pool.stats().evictions, account->stats().evictions);
  EXPECT_EQ(account->stats().evicted_blocks, 1);
}

TEST_F(ResidencyTest, OrderIsExactlyThatOfTheLastUses) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<StoragePtr> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(make(2 * kMiB, i));
    std::vector<size_t> order(8);
    for (size_t i = 0; i < 8; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      if (random() % 2 == 0)
        blocks[i]->touch();
      else
        EXPECT_TRUE(holds(blocks[i], static_cast<int>(i)));
    }
    std::vector<StoragePtr> more;
    for (size_t done = 0; done < 8; ++done) {
      more.push_back(make(2 * kMiB));
      for (size_t i = 0; i < 8; ++i) EXPECT_EQ(blocks[order[i]]->resident(), i > done) << round << " " << done;
    }
  }
}

TEST_F(ResidencyTest, HigherPriorityLeavesLater) {
  StoragePtr low = make(5 * kMiB, 1), high = make(5 * kMiB, 2), middle = make(4 * kMiB, 3);
  high->set_priority(5);
  middle->set_priority(1);
  fill(low, 4);
  fill(middle, 5);  // the most recent of all
  StoragePtr first = make(6 * kMiB);
  EXPECT_FALSE(low->resident());
  EXPECT_TRUE(middle->resident());
  first->set_priority(9);
  StoragePtr second = make(4 * kMiB);
  EXPECT_FALSE(middle->resident());
  EXPECT_TRUE(high->resident());
}

TEST_F(ResidencyTest, PinnedAndExportedBlocksStay) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  const driver::Address address = a->pin();
  EXPECT_THROW(a->evict(), Error);
  StoragePtr c = make(6 * kMiB, 3);
  EXPECT_TRUE(a->resident());
  EXPECT_FALSE(b->resident());
  EXPECT_EQ(a->address_now(), address);
  {
    Pin pin(c);
    try {
      b->restore();
      FAIL();
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find("quota of tenant"), std::string::npos) << error.what();
    }
  }
  a->unpin();
  a->evict();
  EXPECT_FALSE(a->resident());
  EXPECT_TRUE(holds(a, 1));
  EXPECT_TRUE(holds(b, 2));
  EXPECT_TRUE(holds(c, 3));
}

TEST_F(ResidencyTest, ALaunchLargerThanTheQuotaRaisesAndLosesNothing) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2), c = make(6 * kMiB, 3);
  const Use uses[] = {{&a, 0, false}, {&b, 0, false}, {&c, 0, true}};
  EXPECT_THROW(Hold{uses}, OutOfMemoryError);
  EXPECT_TRUE(holds(a, 1));
  EXPECT_TRUE(holds(b, 2));
  EXPECT_TRUE(holds(c, 3));
  const Use two[] = {{&a, 0, false}, {&c, 0, true}, {&a, 0, true}};
  const Hold hold(two);
  EXPECT_TRUE(a->resident() && c->resident());
}

TEST_F(ResidencyTest, HeldBlocksAreNoVictims) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  std::thread other;
  {
    const Use use{&a, 0, false};
    const Hold hold({&use, 1});
    b->pin();
    // Everything else is pinned: the other thread waits for this launch to be submitted.
    other = std::thread([&] { make(6 * kMiB, 3); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(a->resident());
  }
  other.join();
  EXPECT_FALSE(a->resident());
  b->unpin();
  EXPECT_TRUE(holds(a, 1));
}

TEST_F(ResidencyTest, WorkUnderWayIsWaitedForOnlyWhenNothingElseCanLeave) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  StreamPtr side = std::make_shared<driver::Stream>(context, 0);
  make(6 * kMiB);  // b is known to be idle from now on
  fake.defer(true);
  // Asking for completion brings deferred work a step further, so there is plenty of it.
  for (int i = 0; i < 20; ++i) fill(a, 7, side);
  b->touch();  // a is the older one, and in use
  StoragePtr c = make(6 * kMiB);
  EXPECT_FALSE(b->resident());
  EXPECT_TRUE(a->resident());
  const int64_t waits = pool.stats().waits;
  c->pin();
  StoragePtr d = make(6 * kMiB);
  EXPECT_FALSE(a->resident());
  EXPECT_GT(pool.stats().waits, waits);
  c->unpin();
  fake.defer(false);
  EXPECT_TRUE(holds(a, 7));
  EXPECT_TRUE(holds(b, 2));
}

TEST_F(ResidencyTest, DeferredWorkFindsItsBytesWhateverTheOrder) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    fake.defer(true);
    fake.seed(seed);
    std::mt19937 random(static_cast<unsigned>(seed));
    StreamPtr streams[] = {stream, std::make_shared<driver::Stream>(context, 0)};
    std::vector<StoragePtr> blocks;
    std::vector<int> value(10), last(10, 0);
    int wrong = 0;
    auto order_after = [&](int from, int to) {
      if (from == to) return;
      driver::Event event(context);
      event.record(*streams[from]);
      streams[to]->wait(event);
    };
    for (int i = 0; i < 10; ++i) blocks.push_back(make((1 + static_cast<size_t>(i) % 3) * kMiB + 512, value[i] = i));
    for (int step = 0; step < 40; ++step) {
      const size_t at = random() % 10;
      const int to = static_cast<int>(random() % 2);
      order_after(last[at], to);
      run_on(streams[to], blocks[at], [&wrong, old = value[at], now = step % 100, n = blocks[at]->bytes()](char* p) {
        for (size_t i = 0; i < n; i += 4096) wrong += p[i] != static_cast<char>(old);
        wrong += p[n - 1] != static_cast<char>(old);
        std::memset(p, now, n);
      });
      value[at] = step % 100;
      last[at] = to;
      ASSERT_LE(account->charged(), 16 * kMiB);
    }
    fake.defer(false);
    EXPECT_EQ(wrong, 0) << seed;
    for (size_t i = 0; i < 10; ++i) EXPECT_TRUE(holds(blocks[i], value[i])) << seed;
  }
}

TEST_F(ResidencyTest, HostSideIsCapped) {
  account->set_host_limit(7 * kMiB);
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2), c = make(6 * kMiB, 3);
  EXPECT_EQ(account->evicted_bytes(), 6 * kMiB);
  EXPECT_THROW(make(6 * kMiB), OutOfMemoryError);
  EXPECT_THROW(b->evict(), OutOfMemoryError);
  EXPECT_TRUE(holds(b, 2));
  EXPECT_TRUE(holds(c, 3));
  c.reset();
  EXPECT_TRUE(holds(a, 1));
}

TEST_F(ResidencyTest, ABlockThatFindsNoHostMemoryStaysAndAYoungerOneLeaves) {
  account->set_host_limit(3 * kMiB);
  StoragePtr a = make(6 * kMiB, 1), b = make(2 * kMiB, 2), c = make(6 * kMiB, 3);
  StoragePtr d = make(4 * kMiB, 4);
  EXPECT_TRUE(a->resident() && !b->resident() && c->resident());
  EXPECT_THROW(make(4 * kMiB), OutOfMemoryError);
  d.reset();
  EXPECT_TRUE(holds(a, 1) && holds(b, 2) && holds(c, 3));
  account->set_host_limit(0);
  d = make(6 * kMiB, 4);  // the large ones may leave again
  EXPECT_TRUE(holds(a, 1) && holds(b, 2) && holds(c, 3) && holds(d, 4));
}

TEST_F(ResidencyTest, HostMemoryThatNoBlockUsesMakesRoomForALargerOne) {
  HostArena arena(context, 100 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 9; ++i) blocks.push_back(arena.allocate(10 * kMiB));
  EXPECT_EQ(arena.reserved(), 100 * kMiB);
  for (void* block : blocks) arena.release(block);
  void* large = arena.allocate(80 * kMiB);
  EXPECT_NE(large, nullptr);
  EXPECT_LE(arena.reserved(), 100 * kMiB);
  void* small = arena.allocate(10 * kMiB);
  arena.release(large);
  const size_t reserved = arena.reserved();
  EXPECT_EQ(arena.allocate(95 * kMiB), nullptr);
  EXPECT_EQ(arena.reserved(), reserved);  // nothing goes when it would not help
  arena.release(small);
}

TEST_F(ResidencyTest, LoweredQuotaEvicts) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  account->set_quota(8 * kMiB);
  StoragePtr c = make(2 * kMiB, 3);
  EXPECT_FALSE(a->resident());
  EXPECT_LE(account->charged(), 8 * kMiB);
  EXPECT_TRUE(holds(a, 1));
  EXPECT_TRUE(holds(b, 2));
  EXPECT_TRUE(holds(c, 3));
}

TEST_F(ResidencyTest, FullDeviceEvictsToo) {
  driver::set_host_memory_limit(32 * kMiB);
  account->set_quota(0);
  StoragePtr a = make(14 * kMiB, 1), b = make(14 * kMiB, 2);
  Block plain = pool.allocate(14 * kMiB, stream);  // of an account that does not evict itself
  EXPECT_FALSE(a->resident());
  EXPECT_TRUE(holds(b, 2));
  pool.release(plain, stream, {});
  EXPECT_TRUE(holds(a, 1));
  driver::set_host_memory_limit(0);
}

TEST_F(ResidencyTest, ARequestAboveTheDevicesMemoryEvictsNothing) {
  driver::set_host_memory_limit(32 * kMiB);
  StoragePtr a = make(6 * kMiB, 1);
  EXPECT_THROW(pool.allocate(40 * kMiB, stream), OutOfMemoryError);
  EXPECT_TRUE(a->resident());
  driver::set_host_memory_limit(0);
}

TEST_F(ResidencyTest, EvictsByHandInAThreadThatCaptures) {
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  EvictionGroup group(pool);
  group.add(b);
  driver::Stream captured(context, 0);
  context.make_current();
  context.api().begin_capture(captured.handle());
  a->evict();
  EXPECT_GT(group.evict(), 0u);
  driver::GraphHandle graph = context.api().end_capture(captured.handle());
  context.api().destroy_graph(graph);
  EXPECT_FALSE(a->resident() || b->resident());
  EXPECT_TRUE(holds(a, 1) && holds(b, 2));
}

TEST_F(ResidencyTest, UsesOfAPoolThatNeverFillsLeaveNothingBehind) {
  StoragePtr a = make(6 * kMiB, 1);
  const gpukit::testing::Live before = fake.live();
  for (int i = 0; i < 1000; ++i) fill(a, i % 100);
  EXPECT_LE(fake.live().events, before.events + 2);
  for (int i = 0; i < 300; ++i) {
    auto side = std::make_shared<driver::Stream>(context, 0);
    StoragePtr block = Storage::allocate(pool, 1000, side, account);
    fill(block, 1, side);
    block.reset();
    side.reset();
    if (i % 10 == 0) pool.trim();
  }
  EXPECT_LE(fake.live().streams, before.streams + 150);
  EXPECT_EQ(account->stats().evictions, 0);
}

TEST_F(ResidencyTest, WorkOnOneStreamDelaysNoOneElse) {
  // Without the fake driver, which runs all work under a lock of its own.
  driver::Context plain(driver::Api(driver::host_table(), DeviceKind::cpu), kOwnDevice);
  Pool own(plain, {.pages = PoolConfig::Pages::on});
  auto tenant = Account::create("tenant", plain.device(), 16 * kMiB, true, own.root());
  auto home = std::make_shared<driver::Stream>(plain, 0), side = std::make_shared<driver::Stream>(plain, 0);
  StoragePtr a = Storage::allocate(own, kMiB, home, tenant), b = Storage::allocate(own, kMiB, home, tenant);
  struct Wait {
    std::promise<void> begun, end;
  } wait;
  std::thread worker([&] {
    plain.make_current();
    plain.api().launch_host(
        side->handle(),
        [](void* p) {
          static_cast<Wait*>(p)->begun.set_value();
          static_cast<Wait*>(p)->end.get_future().wait();
        },
        &wait);
  });
  wait.begun.get_future().wait();
  std::promise<void> almost;
  std::thread user([&] {
    for (int i = 0; i < 15; ++i) a->note_use(side);
    almost.set_value();
    a->note_use(side);  // this one gets an event, which on a CPU waits for the work of the stream
  });
  almost.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  auto other = std::async(std::launch::async, [&] { b->touch(); });
  EXPECT_EQ(other.wait_for(std::chrono::milliseconds(200)), std::future_status::ready);
  wait.end.set_value();
  other.wait();
  worker.join();
  user.join();
}

TEST_F(ResidencyTest, AnAccountWithoutEvictionIsMovedByHandOnly) {
  account->set_eviction(false);
  account->set_movable(true);
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  EXPECT_THROW(make(6 * kMiB), OutOfMemoryError);
  a->evict();
  StoragePtr c = make(6 * kMiB, 3);
  EXPECT_THROW(a->restore(), OutOfMemoryError);
  c.reset();
  a->restore();
  EXPECT_TRUE(holds(a, 1));
  StoragePtr fixed = Storage::allocate(pool, 100, stream);
  EXPECT_FALSE(fixed->managed());
  EXPECT_THROW(fixed->evict(), Error);
}

struct GraphHold {
  explicit GraphHold(StoragePtr held) : storage(std::move(held)) { storage->graph_hold(); }
  ~GraphHold() { storage->graph_release(); }
  StoragePtr storage;
};

class ResidencyFailure : public ResidencyTest, public ::testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(Codes, ResidencyFailure,
                         ::testing::Values(driver::CUDA_ERROR_LAUNCH_FAILED, driver::CUDA_ERROR_OUT_OF_MEMORY));

TEST_P(ResidencyFailure, OfAnyDriverCallLosesNothing) {
  auto scenario = [&](std::vector<StoragePtr>& blocks) {
    auto second = std::make_shared<driver::Stream>(context, 0);
    blocks.push_back(make(6 * kMiB, 1));
    blocks.push_back(make(700, 2));
    blocks.push_back(make(6 * kMiB, 3));
    fill(blocks[0], 1, second);
    blocks.push_back(make(5 * kMiB, 4));  // evicts
    // Pages of two ranges become one on another stream.
    for (int i = 0; i < 2; ++i) pool.release(pool.allocate(4 * kMiB, stream), stream, {&second, 1});
    pool.forget(*pool.root());
    pool.release(pool.allocate(8 * kMiB, second), second, {});
    blocks[0]->restore();
    blocks[1]->evict();
    pool.trim();
    {
      EvictionGroup group(pool);
      const GraphHold graph{blocks[0]};
      for (size_t i : {0, 3}) group.add(blocks[i]);
      group.evict();
      group.restore();
    }
    blocks.push_back(make(2 * kMiB, 5));
  };
  int failures = 0;
  for (int n = 1;; ++n) {
    std::vector<StoragePtr> blocks;
    bool failed = false;
    fake.fail_nth(n, GetParam());
    try {
      scenario(blocks);
    } catch (const Error&) {
      failed = true;
    }
    const std::string call = fake.failed_call();
    fake.stop_failing();
    if (call.empty()) break;
    ++failures;
    // The last one may be new and not written yet.
    for (size_t i = 0; i < blocks.size() - (failed && !blocks.empty()); ++i)
      ASSERT_TRUE(holds(blocks[i], static_cast<int>(i) + 1)) << n << " " << call << " block " << i;
    ASSERT_LE(account->charged(), 16 * kMiB) << n << " " << call;
    blocks.clear();
    stream->synchronize();
    pool.trim();
    ASSERT_EQ(account->charged(), 0u) << n << " " << call;
    ASSERT_EQ(account->live_bytes() + account->cached_bytes() + account->evicted_bytes(), 0u) << n << " " << call;
    // The next one works.
    std::vector<StoragePtr> again;
    ASSERT_NO_THROW(scenario(again)) << n << " " << call;
  }
  EXPECT_GT(failures, 50);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0);
  EXPECT_EQ(fake.live().pages, 0);
  EXPECT_EQ(fake.live().ranges, 0);
  EXPECT_EQ(fake.live().mappings, 0);
}

TEST_F(ResidencyTest, AMoverThatFailsLeavesTheBytesWhereTheyWere) {
  struct Broken final : Mover {
    void to_host(driver::Context&, std::span<const Move>) override { throw Error("no copy out"); }
    void to_device(driver::Context&, std::span<const Move>) override { throw Error("no copy in"); }
  } broken;
  StoragePtr a = make(6 * kMiB, 1), b = make(6 * kMiB, 2);
  Mover& plain = mover();
  set_mover(&broken);
  EXPECT_THROW(make(6 * kMiB), Error);
  EXPECT_TRUE(a->resident() && b->resident());
  set_mover(&plain);
  a->evict();
  set_mover(&broken);
  EXPECT_THROW(a->restore(), Error);
  set_mover(&plain);
  EXPECT_FALSE(a->resident());
  EXPECT_TRUE(holds(a, 1) && holds(b, 2));
  EXPECT_EQ(account->live_bytes(), 12 * kMiB);
}

}  // namespace
}  // namespace gpukit::memory
