#include "gpukit/runtime/pinned_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
constexpr Device kCpu{DeviceKind::cpu, 0};

driver::Context& context() { return open_device(kCpu).context; }
std::shared_ptr<driver::Stream> new_stream() { return std::make_shared<driver::Stream>(context(), 0); }

TEST(PinnedRing, GrowsOnUseAndKeepsWhatItHas) {
  FakeDriver fake;
  const int before = fake.live().pinned + 1;  // the device's own word
  PinnedRing ring(context(), 100, 3);
  EXPECT_EQ(fake.live().pinned, before);
  {
    PinnedRing::Slot a = ring.acquire(), b = ring.acquire();
    EXPECT_NE(a.data(), b.data());
    EXPECT_EQ(ring.stats().held, 2u);
  }
  EXPECT_EQ(ring.stats().free, 2u);
  for (int i = 0; i < 10; ++i) ring.acquire();
  EXPECT_EQ(ring.stats().chunks, 2u);
  EXPECT_EQ(fake.live().pinned, before + 2);
  EXPECT_EQ(ring.trim(), 200u);
  EXPECT_EQ(ring.stats().chunks, 0u);
  EXPECT_EQ(fake.live().pinned, before);
}

TEST(PinnedRing, WaitForAHolderCanBeEnded) {
  FakeDriver fake;
  PinnedRing ring(context(), 100, 1);
  PinnedRing::Slot held = ring.acquire();
  EXPECT_THROW(ring.acquire([] { throw Error("a signal"); }), Error);
  held.reset();
  EXPECT_TRUE(ring.acquire([] { throw Error("not called"); }));
}

TEST(PinnedRing, ChunkIsNotHandedOutBeforeItsWorkHasRun) {
  FakeDriver fake;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    fake.defer(false);
    PinnedRing ring(context(), 16, 2);
    auto stream = new_stream();
    std::vector<char> target(160, 0);
    fake.defer(true);
    fake.seed(seed);
    for (char i = 0; i < 10; ++i) {
      PinnedRing::Slot slot = ring.acquire();
      std::memset(slot.data(), 'a' + i, 16);
      context().api().copy_async(nullptr, reinterpret_cast<driver::Address>(target.data() + 16 * i), slot.data(), 0, 16,
                                 driver::CopyKind::host_to_device, stream->handle());
      slot.mark(stream);
    }
    EXPECT_LE(ring.stats().chunks, 2u);
    stream->synchronize();
    for (size_t i = 0; i < target.size(); ++i) ASSERT_EQ(target[i], static_cast<char>('a' + i / 16)) << i;
  }
}

TEST(PinnedRing, ChunkThatFinishedFirstIsTakenFirst) {
  FakeDriver fake;
  PinnedRing ring(context(), 16, 2);
  auto slow = new_stream(), fast = new_stream();
  char* first = nullptr;
  char* second = nullptr;
  fake.defer(true);
  {
    PinnedRing::Slot a = ring.acquire(), b = ring.acquire();
    first = a.data();
    second = b.data();
    context().api().launch_host(
        slow->handle(), [](void*) {}, nullptr);
    a.mark(slow);
    b.mark(fast);
  }
  fast->synchronize();
  EXPECT_EQ(ring.acquire().data(), second);
  PinnedRing::Slot again = ring.acquire();
  EXPECT_TRUE(again.data() == first || again.data() == second);
}

TEST(PinnedRing, WaitsForAHolderAtTheCap) {
  FakeDriver fake;
  PinnedRing ring(context(), 16, 1);
  PinnedRing::Slot held = ring.acquire();
  std::atomic<bool> got{false};
  std::thread other([&] {
    PinnedRing::Slot slot = ring.acquire();
    got = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(got);
  held.reset();
  other.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(ring.stats().chunks, 1u);
}

TEST(PinnedRing, WhoHoldsAChunkIsNotMadeToWaitForAnother) {
  FakeDriver fake;
  PinnedRing ring(context(), 16, 2);
  PinnedRing::Slot a = ring.acquire(), b = ring.try_acquire();
  EXPECT_TRUE(b);
  EXPECT_FALSE(ring.try_acquire());
  b.reset();
  EXPECT_TRUE(ring.try_acquire());
}

TEST(PinnedRing, RefusedMemoryIsAnErrorOnlyWithoutAnyChunk) {
  FakeDriver fake;
  PinnedRing ring(context(), 16, 4);
  fake.fail_nth_of("cuMemHostAlloc", 1, driver::kErrorOutOfMemory);
  EXPECT_THROW(ring.acquire(), CudaError);
  EXPECT_EQ(ring.stats().chunks, 0u);
  auto stream = new_stream();
  {
    PinnedRing::Slot slot = ring.acquire();
    fake.defer(true);
    context().api().launch_host(
        stream->handle(), [](void*) {}, nullptr);
    slot.mark(stream);
  }
  fake.fail_nth_of("cuMemHostAlloc", 1, driver::kErrorOutOfMemory);
  EXPECT_TRUE(ring.acquire());  // waits for the one it has
  EXPECT_EQ(ring.stats().chunks, 1u);
  EXPECT_EQ(ring.stats().held, 0u);
}

TEST(PinnedRing, UnrecordedMarkWaitsForTheStream) {
  FakeDriver fake;
  PinnedRing ring(context(), 4, 1);
  auto stream = new_stream();
  std::vector<char> target(4, 0);
  fake.defer(true);
  {
    PinnedRing::Slot slot = ring.acquire();
    std::memset(slot.data(), 7, 4);
    context().api().copy_async(nullptr, reinterpret_cast<driver::Address>(target.data()), slot.data(), 0, 4,
                               driver::CopyKind::host_to_device, stream->handle());
    fake.fail_nth_of("cuEventRecord", 1, 999);
    EXPECT_THROW(slot.mark(stream), CudaError);
  }
  PinnedRing::Slot again = ring.acquire();
  EXPECT_EQ(target, std::vector<char>(4, 7));
}

TEST(PinnedRing, ManyThreadsNeverShareAChunk) {
  FakeDriver fake;
  PinnedRing ring(context(), 64, 3);
  std::atomic<int> wrong{0};
  auto work = [&](char mine) {
    auto stream = new_stream();
    std::vector<char> target(64);
    for (int i = 0; i < 200; ++i) {
      PinnedRing::Slot slot = ring.acquire();
      std::memset(slot.data(), mine, 64);
      context().api().copy_async(nullptr, reinterpret_cast<driver::Address>(target.data()), slot.data(), 0, 64,
                                 driver::CopyKind::host_to_device, stream->handle());
      slot.mark(stream);
      if (i % 3 == 0) slot.wait();
      for (char c : {slot.data()[0], slot.data()[63]}) wrong += c != mine;
    }
    stream->synchronize();
  };
  std::vector<std::thread> threads;
  for (char i = 1; i <= 4; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ring.stats().held, 0u);
  EXPECT_LE(ring.stats().chunks, 3u);
}

TEST(PinnedRing, TrimLeavesACaptureAlone) {
  FakeDriver fake;
  PinnedRing ring(context(), 100, 1);
  ring.acquire();
  auto stream = new_stream();
  const driver::Api& api = context().api();
  api.begin_capture(stream->handle());
  EXPECT_EQ(ring.trim(), 100u);
  EXPECT_EQ(api.capture_info(stream->handle()).status, driver::CaptureStatus::active);
  api.destroy_graph(api.end_capture(stream->handle()));
}

}  // namespace
}  // namespace gpukit::runtime
