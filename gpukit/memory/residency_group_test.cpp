// Groups: blocks that leave and come back together, at the same addresses.
#include <gtest/gtest.h>

#include "gpukit/base/error.h"
#include "gpukit/memory/eviction_group.h"
#include "tests/support/residency_fixture.h"

namespace gpukit::memory {
namespace {

struct GroupTest : ResidencyTest {
  StoragePtr in_graph(size_t bytes, int value) {
    StoragePtr storage = make(bytes, value);
    storage->graph_hold();
    kept.push_back(storage);
    return storage;
  }
  ~GroupTest() override {
    for (const auto& storage : kept) storage->graph_release();
  }
  std::vector<StoragePtr> kept;
};

TEST_F(GroupTest, GraphHeldBlocksMoveAsAWholeAndKeepTheirAddresses) {
  StoragePtr a = in_graph(4 * kMiB, 1), b = in_graph(2 * kMiB, 2), small = in_graph(1000, 3), free = make(2 * kMiB, 4);
  EXPECT_THROW(a->evict(), Error);
  EvictionGroup model(pool);
  for (const auto& storage : {a, b, small, free}) model.add(storage);
  EXPECT_EQ(model.size(), 4u);
  const auto addresses = std::pair(*a->address_now(), *b->address_now());
  EXPECT_EQ(model.evict(), 8 * kMiB);  // the small one stays
  EXPECT_FALSE(model.resident());
  EXPECT_FALSE(a->resident() || b->resident() || free->resident());
  EXPECT_EQ(account->live_bytes(), 1024u);
  StoragePtr others[] = {make(6 * kMiB, 8), make(6 * kMiB, 9)};
  {
    GroupHold hold(kept);  // a replay brings all back; the others leave
    EXPECT_TRUE(model.resident() && a->resident() && b->resident() && free->resident());
    EXPECT_EQ(addresses, std::pair(*a->address_now(), *b->address_now()));
    hold.note_use(stream);
  }
  EXPECT_TRUE(holds(a, 1) && holds(b, 2) && holds(small, 3) && holds(free, 4));
  EXPECT_TRUE(holds(others[0], 8) && holds(others[1], 9));
}

TEST_F(GroupTest, BlocksThatGoWhileEvictedDoNotDisturbACapture) {
  StoragePtr storage = make(4 * kMiB, 1);
  storage->graph_hold();
  {
    EvictionGroup model(pool);
    model.add(storage);
    EXPECT_EQ(model.evict(), 4 * kMiB);
  }
  storage->graph_release();
  auto other = std::make_shared<driver::Stream>(context, 0);
  context.make_current();
  context.api().begin_capture(other->handle());
  storage.reset();
  EXPECT_EQ(context.api().capture_info(other->handle()).status, driver::CaptureStatus::active);
  context.api().destroy_graph(context.api().end_capture(other->handle()));
}

TEST_F(GroupTest, LeavesByItselfWhenItIsTheOldest) {
  EvictionGroup model(pool);
  for (int i = 0; i < 3; ++i) model.add(in_graph(2 * kMiB, i));
  StoragePtr young = make(6 * kMiB, 7);
  StoragePtr more = make(6 * kMiB, 8);
  EXPECT_FALSE(model.resident());
  EXPECT_TRUE(young->resident());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(holds(kept[static_cast<size_t>(i)], i));
  model.set_priority(3);
  StoragePtr last = make(6 * kMiB, 9);
  EXPECT_TRUE(model.resident());
}

TEST_F(GroupTest, AllOrNone) {
  EvictionGroup model(pool);
  StoragePtr a = in_graph(4 * kMiB, 1), b = make(4 * kMiB, 2);
  model.add(a);
  model.add(b);
  b->pin();
  EXPECT_THROW(model.evict(), Error);
  EXPECT_TRUE(a->resident() && b->resident());
  b->unpin();
  account->set_host_limit(6 * kMiB);
  EXPECT_THROW(model.evict(), OutOfMemoryError);
  EXPECT_TRUE(a->resident() && b->resident());
  account->set_host_limit(0);
  model.evict();
  account->set_quota(6 * kMiB);
  EXPECT_THROW(model.restore(), OutOfMemoryError);
  EXPECT_FALSE(a->resident() || b->resident());
  account->set_quota(16 * kMiB);
  EXPECT_TRUE(holds(a, 1) && holds(b, 2));
}

TEST_F(GroupTest, BlocksMoveAloneAgainAfterTheGroup) {
  StoragePtr a = in_graph(4 * kMiB, 1), b = make(4 * kMiB, 2);
  const driver::Address address = *a->address_now();
  {
    EvictionGroup model(pool);
    model.add(a);
    model.add(b);
    EvictionGroup other(pool);
    EXPECT_THROW(other.add(a), Error);
    model.evict();
    EXPECT_THROW(other.add(b), Error);
  }
  EXPECT_TRUE(holds(a, 1));
  EXPECT_EQ(*a->address_now(), address);
  EXPECT_TRUE(holds(b, 2));
  b->evict();
  EXPECT_TRUE(holds(b, 2));
  EvictionGroup model(pool);
  EXPECT_THROW(model.add(Storage::allocate(pool, 100, stream)), Error);
}

TEST_F(GroupTest, DestroyedWhileEvicted) {
  const gpukit::testing::Live before = fake.live();
  {
    EvictionGroup model(pool);
    model.add(in_graph(4 * kMiB, 1));
    model.add(make(4 * kMiB, 2));
    model.evict();
    kept.front()->graph_release();
    kept.clear();
    EXPECT_EQ(model.size(), 0u);
  }
  pool.trim();
  EXPECT_EQ(account->charged(), 0u);
  EXPECT_EQ(account->evicted_bytes(), 0u);
  EXPECT_EQ(fake.live().ranges, before.ranges);
  EXPECT_EQ(fake.live().pages, before.pages);
}

}  // namespace
}  // namespace gpukit::memory
