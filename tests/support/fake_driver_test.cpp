// The test driver itself: recording, failing, counting, and the orders deferred work may run in.
#include "tests/support/fake_driver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/driver/objects.h"

namespace gpukit::testing {
namespace {

class Fake : public ::testing::Test {
 protected:
  using Note = std::pair<std::vector<int>*, int>;

  void push(const driver::Stream& stream, int value) {
    notes.push_back({&order, value});
    stream.api().launch_host(
        stream.handle(),
        [](void* p) {
          auto* note = static_cast<Note*>(p);
          note->first->push_back(note->second);
        },
        &notes.back());
  }

  FakeDriver fake;
  driver::Api api = [this] {
    driver::Api made(fake.table(), DeviceKind::cpu);
    made.init();
    return made;
  }();
  std::deque<Note> notes;
  std::vector<int> order;
  driver::Context context{api, 0};
  driver::Stream first{context, 0}, second{context, 0};
};

TEST_F(Fake, RecordsCalls) {
  fake.clear_calls();
  push(first, 1);
  api.synchronize_stream(first.handle());
  EXPECT_EQ(fake.calls(), (std::vector<std::string>{"cuLaunchHostFunc", "cuStreamSynchronize"}));
  EXPECT_EQ(fake.count("cuLaunchHostFunc"), 1);
}

TEST_F(Fake, FailsTheNthCallOnce) {
  fake.fail_nth(2, 999);
  push(first, 1);
  try {
    push(first, 2);
    FAIL();
  } catch (const CudaError& error) {
    EXPECT_EQ(error.code, 999);
    EXPECT_EQ(error.name, "CUDA_ERROR_UNKNOWN");
  }
  push(first, 3);
  EXPECT_EQ(fake.failed_call(), "cuLaunchHostFunc");
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
  fake.fail_nth_of("cuMemAlloc", 1, 2);
  push(first, 4);
  EXPECT_EQ(fake.failed_call(), "");
  EXPECT_THROW(api.allocate(16), CudaError);
}

TEST_F(Fake, CountsWhatIsAlive) {
  Live before = fake.live();
  EXPECT_EQ(before.streams, 2);
  {
    driver::Stream stream(context, 0);
    driver::Event event(context);
    driver::Address memory = api.allocate(100);
    Live now = fake.live();
    EXPECT_EQ(now.streams, 3);
    EXPECT_EQ(now.events, 1);
    EXPECT_EQ(now.memory, 1);
    api.release(memory);
  }
  EXPECT_EQ(fake.live(), before) << str(fake.live());
}

TEST_F(Fake, CountsPagesAndGreenContexts) {
  Live before = fake.live();
  driver::set_host_sms(16);
  {
    driver::SmSplit split(context);
    int groups[] = {0};
    auto green = std::make_shared<driver::GreenContext>(split, groups);
    driver::Stream stream(context, 0, green);
    size_t page = api.page_granularity();
    driver::PageHandle pages = api.create_pages(page);
    driver::Address range = api.reserve_range(2 * page);
    api.map_pages(range, page, pages);
    api.map_pages(range + page, page, pages);
    api.allow_access(range, 2 * page);
    std::vector<char> memory(100);
    api.register_host(memory.data(), memory.size());
    Live now = fake.live();
    EXPECT_EQ(now.green, 1);
    EXPECT_EQ(now.streams, before.streams + 1);
    EXPECT_EQ(now.pages, 1);
    EXPECT_EQ(now.ranges, 1);
    EXPECT_EQ(now.mappings, 2);
    EXPECT_EQ(now.registrations, 1);
    fake.fail_nth_of("cuMemUnmap", 1, 999);
    EXPECT_EQ(api.unmap_pages(range, 2 * page), 999);
    EXPECT_EQ(fake.live(), now) << str(fake.live());
    fake.defer(true);
    push(stream, 1);
    EXPECT_EQ(api.unmap_pages(range, 2 * page), 0);
    EXPECT_EQ(api.free_range(range, 2 * page), 0);
    EXPECT_EQ(api.release_pages(pages), 0);
    EXPECT_EQ(api.unregister_host(memory.data()), 0);
    EXPECT_TRUE(order.empty());  // none of these waits
    stream.synchronize();
    EXPECT_EQ(order, (std::vector<int>{1}));
  }
  driver::set_host_sms(0);
  EXPECT_EQ(fake.live(), before) << str(fake.live());
}

TEST_F(Fake, DeferredWorkWaitsAndKeepsStreamOrder) {
  fake.defer(true);
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    order.clear();
    for (int value : {1, 2}) push(first, value);
    for (int value : {11, 12}) push(second, value);
    EXPECT_TRUE(order.empty());
    EXPECT_EQ(fake.pending(), 4u);
    fake.run_all(seed);
    auto at = [&](int value) { return std::find(order.begin(), order.end(), value); };
    EXPECT_LT(at(1), at(2));
    EXPECT_LT(at(11), at(12));
    seen.insert(order);
  }
  EXPECT_EQ(seen.size(), 6u);  // all interleavings of two streams of two
}

TEST_F(Fake, DeferredEventOrdersStreamsUnlessDropped) {
  fake.defer(true);
  auto orders = [&] {
    std::set<std::vector<int>> seen;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      order.clear();
      driver::Event event(context);
      push(first, 1);
      event.record(first);
      second.wait(event);
      push(second, 2);
      fake.run_all(seed);
      seen.insert(order);
    }
    return seen;
  };
  EXPECT_EQ(orders(), (std::set<std::vector<int>>{{1, 2}}));
  fake.drop_wait(0);
  EXPECT_EQ(orders().size(), 2u);
  EXPECT_EQ(fake.dropped_waits(), 40);
}

TEST_F(Fake, WaitIsForTheRecordBeforeIt) {
  fake.defer(true);
  driver::Event event(context);
  event.record(second);  // an older, empty record
  push(first, 1);
  second.wait(event);
  event.record(first);
  push(second, 2);
  second.synchronize();
  EXPECT_EQ(order, (std::vector<int>{2}));  // does not wait for the later record
  fake.run_all(1);
}

TEST_F(Fake, SynchronizeRunsOnlyWhatIsNeeded) {
  fake.defer(true);
  driver::Event event(context);
  push(first, 1);
  event.record(first);
  push(first, 2);
  second.wait(event);
  push(second, 3);
  EXPECT_FALSE(event.query());
  second.synchronize();
  EXPECT_EQ(order, (std::vector<int>{1, 3}));
  EXPECT_TRUE(event.query());
  api.synchronize_context();
  EXPECT_EQ(order, (std::vector<int>{1, 3, 2}));
}

TEST_F(Fake, PollingEnds) {
  fake.defer(true);
  driver::Event event(context, true);
  for (int i = 0; i < 5; ++i) push(first, i);
  event.record(first);
  EXPECT_THROW(driver::elapsed_ms(event, event), CudaError);
  int polls = 0;
  while (!event.query()) ++polls;
  EXPECT_GE(polls, 1);
  EXPECT_EQ(order.size(), 5u);
  push(second, 9);
  while (!second.query()) {
  }
  EXPECT_EQ(order.back(), 9);
}

TEST_F(Fake, PageLockedMemoryIsReadLateAndPageableAtOnce) {
  fake.defer(true);
  driver::Address memory = api.allocate(4);
  auto* pinned = static_cast<int*>(api.allocate_pinned(8));
  int pageable = 1, result = 0;
  api.copy_async(nullptr, memory, &pageable, 0, 4, driver::CopyKind::host_to_device, first.handle());
  pageable = 2;
  api.copy_async(&result, 0, nullptr, memory, 4, driver::CopyKind::device_to_host, first.handle());
  EXPECT_EQ(result, 1);
  pinned[0] = 3;
  pinned[1] = 0;
  api.copy_async(nullptr, memory, pinned, 0, 4, driver::CopyKind::host_to_device, first.handle());
  api.copy_async(pinned + 1, 0, nullptr, memory, 4, driver::CopyKind::device_to_host, first.handle());
  pinned[0] = 4;
  EXPECT_EQ(pinned[1], 0);
  first.synchronize();
  EXPECT_EQ(pinned[1], 4);
  api.release_pinned(pinned);
  api.release(memory);
}

TEST_F(Fake, ObjectsMayGoBeforeTheirWork) {
  Live before = fake.live();
  fake.defer(true);
  {
    driver::Stream third(context, 0);
    driver::Event event(context);
    push(third, 1);
    event.record(third);
    second.wait(event);
    push(second, 2);
  }
  EXPECT_EQ(fake.live(), before);
  EXPECT_TRUE(order.empty());
  second.synchronize();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(Fake, GraphNodesRunInEveryOrderTheyAllow) {
  fake.defer(true);
  driver::Event fork(context), join(context);
  api.begin_capture(first.handle());
  push(first, 1);
  fork.record(first);
  second.wait(fork);
  push(second, 2);
  push(first, 3);
  join.record(second);
  first.wait(join);
  push(first, 4);
  driver::GraphHandle graph = api.end_capture(first.handle());
  driver::GraphExecHandle exec = api.instantiate(graph);
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    order.clear();
    api.launch_graph(exec, first.handle());
    api.launch_graph(exec, second.handle());  // never beside the first
    EXPECT_TRUE(order.empty());
    fake.run_all(seed);
    ASSERT_EQ(order.size(), 8u);
    EXPECT_EQ(order[3], 4);
    EXPECT_EQ(order[4], 1);
    order.resize(4);
    seen.insert(order);
  }
  EXPECT_EQ(seen, (std::set<std::vector<int>>{{1, 2, 3, 4}, {1, 3, 2, 4}}));
  api.destroy_graph(graph);
  api.destroy_graph_exec(exec);
}

}  // namespace
}  // namespace gpukit::testing
