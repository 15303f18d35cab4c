// Storage beside the pool: foreign memory and when it is released, and the streams that a block remembers.
#include "gpukit/memory/storage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "gpukit/memory/fence.h"
#include "tests/support/fake_driver.h"

namespace gpukit::memory {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;

struct StorageTest : ::testing::Test {
  static driver::Api started(const driver::CudaTable& table) {
    driver::Api api(table, DeviceKind::cpu);
    api.init();
    return api;
  }
  StreamPtr new_stream() { return std::make_shared<driver::Stream>(context, 0); }
  void submit(const StreamPtr& stream) {
    stream->api().launch_host(
        stream->handle(), [](void* count) { ++*static_cast<int*>(count); }, &ran);
    stream->sequence.fetch_add(1);
  }
  std::shared_ptr<Storage> foreign(std::function<void()> release) {
    return Storage::adopt(context, reinterpret_cast<driver::Address>(bytes), sizeof(bytes), std::move(release));
  }

  FakeDriver fake;
  driver::Context context{started(fake.table()), 0};
  char bytes[64] = {};
  int ran = 0, released = 0;
};

TEST_F(StorageTest, DropInACaptureWaitsForTheWorkAndLeavesTheCaptureAlone) {
  StreamPtr side = new_stream(), captured = new_stream();
  fake.queries_run(false);
  fake.defer(true);
  context.api().begin_capture(captured->handle());
  auto storage = foreign([&] { released += ran; });
  submit(side);
  storage->note_use(side);
  storage.reset();
  run_pending_releases(false);
  EXPECT_EQ(released, 0);
  EXPECT_EQ(context.api().capture_info(captured->handle()).status, driver::CaptureStatus::active);
  context.api().destroy_graph(context.api().end_capture(captured->handle()));
  fake.run_all(0);
  run_pending_releases(false);
  EXPECT_EQ(released, 1);
}

TEST_F(StorageTest, DropWhileAStreamOfItsOwnCaptures) {
  StreamPtr stream = new_stream();
  auto storage = foreign([&] { ++released; });
  submit(stream);
  storage->note_use(stream);
  context.api().begin_capture(stream->handle());
  storage.reset();
  run_pending_releases(true);
  EXPECT_EQ(released, 0);
  EXPECT_EQ(context.api().capture_info(stream->handle()).status, driver::CaptureStatus::active);
  context.api().destroy_graph(context.api().end_capture(stream->handle()));
  run_pending_releases(true);
  EXPECT_EQ(released, 1);
}

TEST_F(StorageTest, NoReleaseIsLostToAFailureOrMadeTwice) {
  for (const char* call : {"cuEventQuery", "cuEventSynchronize", "cuEventRecord", "cuCtxSetCurrent"}) {
    released = 0;
    StreamPtr stream = new_stream();
    fake.queries_run(false);
    fake.defer(true);
    submit(stream);
    for (int i = 0; i < 3; ++i) {
      auto storage = foreign([this] {
        ++released;
        throw std::runtime_error("a release that throws");
      });
      storage->note_use(stream);
    }
    fake.fail_nth_of(call, 1, 999);
    EXPECT_NO_THROW(run_pending_releases(true)) << call;
    fake.stop_failing();
    EXPECT_NO_THROW(run_pending_releases(true)) << call;
    EXPECT_EQ(released, 3) << call;
    fake.defer(false);
  }
}

TEST_F(StorageTest, DeadContextReleasesAtOnce) {
  StreamPtr stream = new_stream();
  fake.queries_run(false);
  fake.defer(true);
  auto storage = foreign([&] { ++released; });
  submit(stream);
  storage->note_use(stream);
  fake.fail_nth_of("cuStreamQuery", 1, 700);
  storage.reset();
  fake.stop_failing();
  EXPECT_EQ(released, 1);
  fake.defer(false);
}

TEST_F(StorageTest, ForgetsStreamsWhoseWorkIsOver) {
  StreamPtr busy = new_stream();
  auto storage = foreign([&] { ++released; });
  fake.defer(true);
  for (int i = 0; i < 100; ++i) submit(busy);  // a query runs one
  storage->note_use(busy);
  const int before = fake.live().streams;
  const uint64_t forgotten = g_forgotten_streams;
  for (int i = 0; i < 200; ++i) {
    storage->note_use(new_stream());
    ASSERT_LE(storage->streams().size(), 16u);
  }
  EXPECT_LE(fake.live().streams, before + 16);
  EXPECT_GT(g_forgotten_streams, forgotten);
  const auto streams = storage->streams();
  EXPECT_LT(ran, 100);
  EXPECT_NE(std::find(streams.begin(), streams.end(), busy), streams.end());
  fake.defer(false);
}

TEST_F(StorageTest, CapturingStreamsAreNotForgotten) {
  StreamPtr captured = new_stream();
  auto storage = foreign([&] { ++released; });
  storage->note_use(captured);
  context.api().begin_capture(captured->handle());
  for (int i = 0; i < 40; ++i) storage->note_use(new_stream());
  EXPECT_EQ(context.api().capture_info(captured->handle()).status, driver::CaptureStatus::active);
  const auto streams = storage->streams();
  EXPECT_NE(std::find(streams.begin(), streams.end(), captured), streams.end());
  context.api().destroy_graph(context.api().end_capture(captured->handle()));
}

}  // namespace
}  // namespace gpukit::memory
