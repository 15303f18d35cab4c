#include "gpukit/memory/caching_allocator.h"

#include <gtest/gtest.h>

#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"

namespace gpukit::memory {
namespace {

struct CachingAllocatorTest : testing::Test {
  static driver::Api started() {
    driver::Api api(driver::host_table(), DeviceKind::cpu);
    api.init();
    return api;
  }
  driver::Context context{started(), 0};
  CachingAllocator allocator{context};
  std::shared_ptr<driver::Stream> stream() {
    context.make_current();
    return std::make_shared<driver::Stream>(context, 0);
  }
  void TearDown() override { allocator.trim(); }
};

TEST_F(CachingAllocatorTest, ReusesOnTheSameStreamWithoutADriverCall) {
  auto s = stream();
  Block a = allocator.allocate(1000, s);
  EXPECT_EQ(a.bytes, 1024u);
  EXPECT_EQ(a.address % 256, 0u);
  allocator.release(a, s, {});
  Block b = allocator.allocate(900, s);
  EXPECT_EQ(b.address, a.address);
  EXPECT_EQ(allocator.stats().driver_allocations, 1);
  EXPECT_EQ(allocator.stats().reuses, 1);
  allocator.release(b, s, {});
  EXPECT_EQ(allocator.stats().live_bytes, 0);
  EXPECT_EQ(allocator.stats().cached_bytes, 1024);
}

TEST_F(CachingAllocatorTest, BlocksMoveBetweenStreams) {
  auto first = stream(), second = stream();
  Block a = allocator.allocate(4 << 20, first);
  allocator.release(a, first, {});
  Block b = allocator.allocate(4 << 20, second);
  EXPECT_EQ(b.address, a.address);
  std::shared_ptr<driver::Stream> others[] = {first};
  allocator.release(b, second, others);
  Block c = allocator.allocate(4 << 20, second);
  EXPECT_EQ(c.address, a.address);
  allocator.release(c, second, {});
}

TEST_F(CachingAllocatorTest, DoesNotWasteLargeBlocksOnSmallRequests) {
  auto s = stream();
  Block a = allocator.allocate(64 << 20, s);
  allocator.release(a, s, {});
  Block b = allocator.allocate(2 << 20, s);
  EXPECT_NE(b.address, a.address);
  allocator.release(b, s, {});
}

TEST_F(CachingAllocatorTest, TrimReturnsEverything) {
  auto s = stream();
  Block a = allocator.allocate(3 << 20, s);
  allocator.release(a, s, {});
  EXPECT_EQ(allocator.trim(), 4 << 20);
  EXPECT_EQ(allocator.stats().cached_bytes, 0);
  EXPECT_EQ(allocator.stats().driver_frees, 1);
}

TEST_F(CachingAllocatorTest, OutOfMemorySaysWhatWasAsked) {
  auto s = stream();
  try {
    allocator.allocate(size_t{1} << 60, s);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.asked_bytes, int64_t{1} << 60);
    EXPECT_NE(std::string(error.what()).find("asked 1152921504606846976 bytes"), std::string::npos) << error.what();
  }
  Block a = allocator.allocate(512, s);
  allocator.release(a, s, {});
}

TEST_F(CachingAllocatorTest, ThreadsNeverShareABlock) {
  std::vector<std::thread> threads;
  std::atomic<int> clashes{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      auto s = stream();
      for (int i = 0; i < 500; ++i) {
        Block a = allocator.allocate(static_cast<size_t>(512 * (1 + i % 7)), s);
        auto* word = reinterpret_cast<volatile int*>(a.address);
        *word = t;
        std::this_thread::yield();
        if (*word != t) ++clashes;
        allocator.release(a, s, {});
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(allocator.stats().live_blocks, 0);
}

TEST_F(CachingAllocatorTest, ForeignMemoryIsReleasedOnce) {
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

}  // namespace
}  // namespace gpukit::memory
