// Which driver calls the pool makes, and that it keeps away from streams that capture.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "gpukit/base/error.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/memory/pool.h"
#include "gpukit/memory/storage.h"
#include "tests/support/fake_driver.h"

namespace gpukit::memory {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;
constexpr size_t kMiB = size_t{1} << 20;
constexpr int kOwnDevice = 3;  // one that no other test leaves memory on

struct PoolStreamTest : ::testing::Test {
  static driver::Api started(const driver::CudaTable& table) {
    driver::set_host_device_count(kOwnDevice + 1);
    driver::Api api(table, DeviceKind::cpu);
    api.init();
    return api;
  }
  ~PoolStreamTest() override {
    driver::set_host_memory_limit(0);
    driver::set_host_device_count(1);
  }
  FakeDriver fake;
  driver::Context context{started(fake.table()), kOwnDevice};
  Pool pool{context, {.pages = PoolConfig::Pages::on}};
  StreamPtr first = std::make_shared<driver::Stream>(context, 0);
  StreamPtr second = std::make_shared<driver::Stream>(context, 0);

  int count(const char* name) const { return fake.count(name); }
  void begin(const StreamPtr& stream) {
    context.make_current();
    context.api().begin_capture(stream->handle());
  }
  size_t end(const StreamPtr& stream) {
    driver::GraphHandle graph = context.api().end_capture(stream->handle());
    const size_t nodes = context.api().graph_nodes(graph);
    context.api().destroy_graph(graph);
    return nodes;
  }
};

TEST_F(PoolStreamTest, AHitMakesNoDriverCall) {
  for (size_t size : {100, 700000, 1500000, 5 << 20, 9 << 20}) pool.release(pool.allocate(size, first), first, {});
  fake.clear_calls();
  for (int i = 0; i < 100; ++i)
    for (size_t size : {100, 700000, 1500000, 5 << 20, 9 << 20}) pool.release(pool.allocate(size, first), first, {});
  EXPECT_TRUE(fake.calls().empty()) << fake.calls().front();
}

TEST_F(PoolStreamTest, AnotherStreamWaitsByEventAndNeverOnTheHost) {
  fake.defer(true);
  for (size_t size : {100, 9 << 20}) {
    Block a = pool.allocate(size, first);
    pool.release(a, first, {});
    if (size == 100) pool.forget(*pool.root());
    fake.clear_calls();
    Block b = pool.allocate(size, second);
    EXPECT_EQ(b.address, a.address);
    EXPECT_EQ(count("cuEventRecord"), 1);
    EXPECT_EQ(count("cuStreamWaitEvent"), 1);
    EXPECT_EQ(count("cuEventSynchronize") + count("cuStreamSynchronize") + count("cuCtxSynchronize"), 0);
    pool.release(b, second, {});
  }
  EXPECT_EQ(pool.stats().waits, 0);
}

TEST_F(PoolStreamTest, PagesOfSlabsDoNotGatherEvents) {
  for (int i = 0; i < 50; ++i) {
    auto account = Account::create("short", context.device(), 0, false, pool.root());
    const StreamPtr own = std::make_shared<driver::Stream>(context, 0);
    pool.release(pool.allocate(100, own, account), own, {});
    account->close();
    pool.forget(*account);
    EXPECT_LE(fake.live().events, 1) << i;
  }
  fake.clear_calls();
  pool.release(pool.allocate(100, first), first, {});
  EXPECT_LE(count("cuStreamWaitEvent"), 1);
}

TEST_F(PoolStreamTest, StreamsThatCaptureAreLeftAlone) {
  Block a = pool.allocate(9 * kMiB, first), b = pool.allocate(100, first), c = pool.allocate(100, second);
  pool.release(a, first, {});
  begin(first);
  fake.clear_calls();
  pool.release(b, first, {});
  const StreamPtr others[] = {first};
  pool.release(c, second, others);  // used by the capturing stream too
  Block d = pool.allocate(9 * kMiB, second), e = pool.allocate(100, second);
  EXPECT_NE(d.address, a.address);
  EXPECT_NE(e.address, b.address);
  EXPECT_NE(e.address, c.address);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 22 << 20);  // nothing that the capture may have used has gone
  EXPECT_EQ(count("cuEventRecord") + count("cuEventQuery") + count("cuStreamQuery"), 0);
  EXPECT_EQ(end(first), 0u);
  // Afterwards all of it is free again.
  pool.release(d, second, {});
  pool.release(e, second, {});
  EXPECT_EQ(pool.trim(), 22 << 20);
}

TEST_F(PoolStreamTest, AllocatesAndFreesInAThreadThatCaptures) {
  Block a = pool.allocate(9 * kMiB, second);
  begin(first);
  pool.release(a, second, {});
  Block b = pool.allocate(12 * kMiB, second);  // maps pages, which a capture forbids unless relaxed
  pool.release(b, second, {});
  pool.trim();
  EXPECT_EQ(end(first), 0u);
  EXPECT_EQ(pool.stats().reserved_bytes, 0);
}

TEST_F(PoolStreamTest, PagesMoveBehindEventsAndTheOldMappingGoesLater) {
  driver::set_host_memory_limit(16 * kMiB);
  fake.defer(true);
  Block a = pool.allocate(8 * kMiB, first), b = pool.allocate(8 * kMiB, first);
  int order = 0, reader = 0, writer = 0;
  struct Note {
    int* order;
    int* at;
  } read{&order, &reader}, written{&order, &writer};
  auto note = [](void* p) { *static_cast<Note*>(p)->at = ++*static_cast<Note*>(p)->order; };
  context.api().launch_host(first->handle(), note, &read);
  pool.release(a, first, {});
  pool.release(b, first, {});
  fake.clear_calls();
  Block whole = pool.allocate(16 * kMiB, second);  // of the pages of both
  EXPECT_EQ(pool.stats().driver_allocations, 2);
  EXPECT_EQ(count("cuMemMap"), 2);
  EXPECT_EQ(count("cuMemUnmap"), 0);  // the first stream may still use them
  EXPECT_EQ(fake.live().mappings, 4);
  context.api().launch_host(second->handle(), note, &written);
  fake.run_all(3);
  EXPECT_EQ(reader, 1);
  EXPECT_EQ(writer, 2);
  std::memset(reinterpret_cast<void*>(whole.address), 1, whole.bytes);
  pool.release(whole, second, {});
  pool.trim();
  EXPECT_EQ(fake.live().mappings + fake.live().pages + fake.live().ranges, 0);
}

TEST_F(PoolStreamTest, WithoutEventsABlockStillWaitsForEverything) {
  // The event of a release cannot be made: the next user makes it.
  fake.defer(true);
  Block a = pool.allocate(100, first);
  int order = 0, reader = 0, writer = 0;
  struct Note {
    int* order;
    int* at;
  } read{&order, &reader}, written{&order, &writer};
  auto note = [](void* p) { *static_cast<Note*>(p)->at = ++*static_cast<Note*>(p)->order; };
  context.api().launch_host(second->handle(), note, &read);
  const StreamPtr others[] = {second};
  fake.fail_nth_of("cuEventRecord", 1, driver::CUDA_ERROR_INVALID_VALUE);
  pool.release(a, first, others);
  EXPECT_EQ(fake.failed_call(), "cuEventRecord");
  Block b = pool.allocate(100, first);
  EXPECT_EQ(b.address, a.address);
  context.api().launch_host(first->handle(), note, &written);
  fake.run_all(1);
  EXPECT_LT(reader, writer);
  pool.release(b, first, {});
}

TEST_F(PoolStreamTest, AFailedWaitPutsTheBlockBackWithAllItsFences) {
  for (const char* call : {"cuEventRecord", "cuStreamWaitEvent", "cuEventCreate"}) {
    Block a = pool.allocate(9 * kMiB, first);
    const StreamPtr others[] = {second};
    pool.release(a, first, others);
    StreamPtr third = std::make_shared<driver::Stream>(context, 0);
    fake.fail_nth_of(call, 1, driver::CUDA_ERROR_INVALID_VALUE);
    EXPECT_THROW(pool.allocate(9 * kMiB, third), CudaError) << call;
    EXPECT_EQ(pool.stats().live_blocks, 0);
    EXPECT_EQ(pool.stats().cached_bytes, 10 << 20);
    fake.clear_calls();
    Block b = pool.allocate(9 * kMiB, third);
    EXPECT_EQ(b.address, a.address);
    EXPECT_EQ(count("cuStreamWaitEvent"), 2);
    pool.release(b, third, {});
    pool.trim();
  }
}

}  // namespace
}  // namespace gpukit::memory
