#include "gpukit/memory/pool_api.h"

#include <gtest/gtest.h>

#include <numeric>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"

namespace gpukit::memory {
namespace {

constexpr size_t kKiB = 1024, kMiB = kKiB * kKiB;

struct MemoryPoolTest : ::testing::Test {
  static driver::Api started() {
    driver::Api api(driver::host_table(), DeviceKind::cpu);
    api.init();
    return api;
  }
  driver::Context context{started(), 0};
  Pool device{context, {.pages = PoolConfig::Pages::on}};
  std::shared_ptr<driver::Stream> stream = std::make_shared<driver::Stream>(context, 0);
  MemoryPool plain{device, stream, 10 * kMiB, false, "plain"};
  MemoryPool evicting{device, stream, 10 * kMiB, true, "evicting"};
};

TEST_F(MemoryPoolTest, RoundsToTheDocumentedClasses) {
  for (auto [asked, given] : {std::pair<size_t, size_t>(0, 256),
                              {1, 256},
                              {257, kKiB},
                              {5 * kKiB, 16 * kKiB},
                              {kMiB, kMiB},
                              {kMiB + 1, 4 * kMiB},
                              {300 * kMiB, 300 * kMiB},
                              {300 * kMiB + 1, 301 * kMiB}})
    EXPECT_EQ(MemoryPool::size_class(asked), given);
  EXPECT_EQ(plain.allocate(1000), 0u);
  EXPECT_EQ(plain.allocate(100), 1u);
  EXPECT_EQ(plain.get_block(0)->size, kKiB);
  EXPECT_EQ(plain.used(), kKiB + 256);
  EXPECT_EQ(plain.available(), 10 * kMiB - kKiB - 256);
}

TEST_F(MemoryPoolTest, ReusesFreedBlocksAndCountsThem) {
  const uint64_t a = plain.allocate(4 * kMiB);
  plain.free(a);
  EXPECT_EQ(plain.used(), 0u);
  EXPECT_EQ(plain.cached(), 4 * kMiB);
  EXPECT_EQ(plain.allocate(4 * kMiB), 1u);
  const MemoryPoolStats stats = plain.stats();
  EXPECT_EQ(stats.allocation_count, 2);
  EXPECT_EQ(stats.reuse_count, 1);
  EXPECT_EQ(stats.cudamalloc_count, 1);
  EXPECT_EQ(stats.active_blocks, 1);
  EXPECT_EQ(stats.free_blocks, 0);
  EXPECT_EQ(stats.used, 4 * kMiB);
}

TEST_F(MemoryPoolTest, CachedBytesNeverStandInTheWay) {
  for (size_t size : {kMiB, 4 * kMiB, kKiB, kMiB, 4 * kMiB}) {
    const uint64_t id = plain.allocate(size);
    plain.free(id);
    EXPECT_LE(plain.used() + plain.cached(), 10 * kMiB);
  }
  plain.allocate(4 * kMiB);
  plain.allocate(4 * kMiB);
  EXPECT_THROW(plain.allocate(4 * kMiB), OutOfMemoryError);
  EXPECT_EQ(plain.used(), 8 * kMiB);
}

TEST_F(MemoryPoolTest, EvictsTheLeastRecentlyUsedAndKeepsItsBytes) {
  std::vector<char> bytes(4 * kMiB);
  std::iota(bytes.begin(), bytes.end(), 0);
  const uint64_t a = evicting.allocate(4 * kMiB), b = evicting.allocate(4 * kMiB);
  evicting.write(a, bytes.data(), bytes.size());
  evicting.write(b, bytes.data(), 100);
  evicting.touch(a);
  const uint64_t c = evicting.allocate(4 * kMiB);
  EXPECT_FALSE(evicting.get_block(b)->on_gpu);
  EXPECT_TRUE(evicting.get_block(b)->on_host);
  EXPECT_FALSE(evicting.get_block(b)->device_ptr().has_value());
  EXPECT_TRUE(evicting.get_block(a)->on_gpu);
  EXPECT_EQ(evicting.used(), 8 * kMiB);
  EXPECT_EQ(evicting.stats().eviction_count, 1);
  EXPECT_EQ(evicting.get_host_data(b)->substr(0, 100), std::string(bytes.data(), 100));
  EXPECT_EQ(evicting.get_host_data(a), std::nullopt);
  std::vector<char> found(bytes.size());
  evicting.free(c);
  evicting.read(b, found.data(), 100);
  EXPECT_TRUE(std::equal(found.begin(), found.begin() + 100, bytes.begin()));
  evicting.read(a, found.data(), found.size());
  EXPECT_EQ(found, bytes);
}

TEST_F(MemoryPoolTest, AddressThatWasHandedOutStays) {
  const uint64_t a = evicting.allocate(4 * kMiB), b = evicting.allocate(4 * kMiB);
  const std::optional<uint64_t> address = evicting.get_block(a)->device_ptr();
  ASSERT_TRUE(address.has_value());
  const PoolBlock seen = *evicting.get_block(b);  // no hand-out
  evicting.touch(b);
  const uint64_t c = evicting.allocate(4 * kMiB);
  EXPECT_TRUE(evicting.get_block(a)->on_gpu);
  EXPECT_FALSE(evicting.get_block(b)->on_gpu);
  EXPECT_EQ(evicting.get_block(a)->device_ptr(), address);
  EXPECT_THROW(evicting.evict(a), Error);
  EXPECT_EQ(seen.device_ptr(), std::nullopt);  // evicted meanwhile: nothing old is handed out
  evicting.free(a);
  evicting.restore(b);
  EXPECT_TRUE(seen.device_ptr().has_value());
  evicting.free(b);
  EXPECT_EQ(seen.device_ptr(), std::nullopt);
  evicting.free(c);
}

TEST_F(MemoryPoolTest, MovesByHandWithoutEviction) {
  const uint64_t a = plain.allocate(4 * kMiB);
  plain.write(a, "data", 4);
  plain.evict(a);
  EXPECT_EQ(plain.used(), 0u);
  EXPECT_FALSE(plain.get_block(a)->on_gpu);
  plain.restore(a);
  EXPECT_TRUE(plain.get_block(a)->on_gpu);
  char found[4];
  plain.read(a, found, 4);
  EXPECT_EQ(std::string(found, 4), "data");
  plain.evict(a);
  plain.free(a);
  EXPECT_EQ(plain.stats().active_blocks, 0);
}

TEST_F(MemoryPoolTest, KeepsWhatTheCallerSets) {
  const uint64_t a = plain.allocate(100);
  plain.set_device_ptr(a, 0x1234);
  EXPECT_EQ(plain.get_block(a)->device_ptr(), 0x1234u);
  plain.set_host_data(a, "mine");
  EXPECT_EQ(plain.get_host_data(a), "mine");
  plain.clear_host_data(a);
  EXPECT_EQ(plain.get_host_data(a), std::nullopt);
}

TEST_F(MemoryPoolTest, UnknownNumbersAndBadSizesAreNamed) {
  const uint64_t a = plain.allocate(100);
  plain.free(a);
  EXPECT_THROW(plain.free(a), ArgumentError);
  EXPECT_THROW(plain.touch(7), ArgumentError);
  EXPECT_THROW(plain.evict(7), ArgumentError);
  EXPECT_FALSE(plain.get_block(7).has_value());
  const uint64_t b = plain.allocate(100);
  char bytes[300] = {};
  EXPECT_THROW(plain.write(b, bytes, 300), ArgumentError);
  EXPECT_THROW((MemoryPool{device, stream, 0, false, "none"}), ArgumentError);
  EXPECT_THROW(plain.allocate(size_t{1} << 62), OutOfMemoryError);
}

TEST_F(MemoryPoolTest, ClearGivesEverythingBack) {
  for (int i = 0; i < 5; ++i) evicting.allocate(4 * kMiB);
  evicting.clear();
  EXPECT_EQ(evicting.used() + evicting.cached(), 0u);
  EXPECT_EQ(evicting.stats().active_blocks, 0);
  EXPECT_EQ(evicting.account()->evicted_bytes(), 0u);
  EXPECT_EQ(device.root()->charged(), 0u);
  EXPECT_EQ(evicting.allocate(1), 5u);
}

}  // namespace
}  // namespace gpukit::memory
