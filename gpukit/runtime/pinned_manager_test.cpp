#include "gpukit/runtime/pinned_manager.h"

#include <gtest/gtest.h>

#include "gpukit/base/error.h"

namespace gpukit::runtime {
namespace {

constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(PinnedManager, SizeClassesAndAlignment) {
  PinnedPoolConfig config;
  EXPECT_EQ(config.size_class(0), 4 * kKiB);
  EXPECT_EQ(config.size_class(4 * kKiB), 4 * kKiB);
  EXPECT_EQ(config.size_class(4 * kKiB + 1), 64 * kKiB);
  EXPECT_EQ(config.size_class(2 * kMiB), 4 * kMiB);
  EXPECT_EQ(config.size_class(256 * kMiB), 256 * kMiB);
  EXPECT_EQ(config.size_class(256 * kMiB + 1), 256 * kMiB + 256);
  EXPECT_THROW(config.size_class(-1), ArgumentError);
  PinnedPoolConfig odd{kMiB, true, 3};
  EXPECT_THROW(PinnedManager{odd}, ArgumentError);
}

TEST(PinnedManager, FreedBlocksAreReusedByClass) {
  PinnedManager manager;
  auto a = manager.allocate(100);
  EXPECT_EQ(a.bytes, 4 * kKiB);
  EXPECT_FALSE(a.reused);
  manager.register_block(a.id, 0x1000, a.bytes);
  auto freed = manager.free(a.id);
  EXPECT_FALSE(freed.should_free);
  EXPECT_EQ(freed.address, 0x1000u);
  EXPECT_EQ(manager.stats().pooled_blocks, 1);
  auto b = manager.allocate(4000);
  EXPECT_TRUE(b.reused);
  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(manager.find(b.id)->address, 0x1000u);
  auto c = manager.allocate(kMiB);
  EXPECT_FALSE(c.reused);
  EXPECT_DOUBLE_EQ(manager.stats().hit_rate(), 1.0 / 3);
  EXPECT_EQ(manager.stats().current_used, 4 * kKiB + kMiB);
  EXPECT_EQ(manager.active_count(), 2);
  EXPECT_THROW(manager.free(99), ArgumentError);
  EXPECT_FALSE(manager.free(c.id).should_free);  // nothing was registered
}

TEST(PinnedManager, LimitCoversUsedAndKept) {
  PinnedManager manager({64 * kKiB + 4 * kKiB, true, 256});
  auto a = manager.allocate(64 * kKiB);
  manager.register_block(a.id, 1, 64 * kKiB);
  EXPECT_TRUE(manager.can_allocate(1));
  EXPECT_FALSE(manager.can_allocate(5 * kKiB));
  EXPECT_THROW(manager.allocate(5 * kKiB), OutOfMemoryError);
  manager.free(a.id);
  EXPECT_TRUE(manager.can_allocate(5 * kKiB));  // by reuse
  auto b = manager.allocate(1);
  EXPECT_THROW(manager.allocate(1), OutOfMemoryError);
  EXPECT_EQ(manager.clear_pool(), std::vector<uint64_t>{1});
  EXPECT_TRUE(manager.can_allocate(1));
  manager.register_block(b.id, 2, b.bytes);
  EXPECT_EQ(manager.clear(), std::vector<uint64_t>{2});
  EXPECT_EQ(manager.stats().current_used, 0);
  EXPECT_EQ(manager.stats().peak_used, 64 * kKiB);
}

TEST(PinnedManager, WithoutPoolingEveryBlockGoesBack) {
  PinnedManager manager({kMiB, false, 256});
  auto a = manager.allocate(1);
  manager.register_block(a.id, 5, a.bytes);
  auto freed = manager.free(a.id);
  EXPECT_TRUE(freed.should_free);
  EXPECT_EQ(freed.address, 5u);
  EXPECT_EQ(manager.stats().pool_size, 0);
}

TEST(PinnedManager, BlocksOfATaskGoTogether) {
  VirtualClock clock(10);
  PinnedManager manager({}, clock);
  auto a = manager.allocate(1), b = manager.allocate(1), c = manager.allocate(1);
  manager.associate_task(a.id, "t");
  manager.associate_task(c.id, "t");
  clock.advance_ns(5);
  manager.touch(b.id);
  EXPECT_EQ(manager.find(b.id)->last_access_ns, 15);
  EXPECT_EQ(manager.find(a.id)->last_access_ns, 10);
  EXPECT_EQ(manager.blocks_of_task("t"), (std::vector<uint64_t>{a.id, c.id}));
  EXPECT_EQ(manager.free_task_blocks("t").size(), 2u);
  EXPECT_EQ(manager.active_count(), 1);
  EXPECT_THROW(manager.associate_task(a.id, "t"), ArgumentError);
}

}  // namespace
}  // namespace gpukit::runtime
