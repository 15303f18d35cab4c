#include "gpukit/runtime/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_group.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int64_t kSecond = 1'000'000'000;

StreamPtr new_stream() { return std::make_shared<driver::Stream>(open_device(kCpu).context, 0); }

void work_on(
    const StreamPtr& stream, std::function<void()> work = [] {}) {
  const Session session = Session().with_stream(stream);
  const SessionGuard guard(session);
  run_host("work", kCpu, std::span<const memory::Use>(), [work](void* const*) { work(); });
}

/// Work is held back until the test says; nothing of the test is left with the waiter afterwards.
class WaiterTest : public ::testing::Test {
 protected:
  WaiterTest() {
    Waiter::of(kCpu).drain();  // of what tests before left
    driver_.defer(true);
    driver_.queries_run(false);
  }
  ~WaiterTest() override {
    driver_.defer(false);
    Waiter::of(kCpu).drain();
  }
  FakeDriver driver_;
};

struct Stopped {};

TEST_F(WaiterTest, SignalsEndTheWaitsForADevice) {
  auto stream = open_device(kCpu).streams->make_stream(0);
  Array array = Array::empty({16}, DType::uint8, kCpu);
  work_on(stream);
  driver_.clear_calls();
  set_interrupt_check([] { throw Stopped(); });
  char bytes[16] = {};
  const Session session = Session().with_stream(stream);
  {
    const SessionGuard guard(session);
    EXPECT_THROW(synchronize(*stream, "test"), Stopped);
    EXPECT_THROW(synchronize(kCpu), Stopped);
    EXPECT_THROW(to_host(bytes, array, "test"), Stopped);
  }
  EXPECT_EQ(driver_.count("cuStreamSynchronize") + driver_.count("cuCtxSynchronize"), 0);
  driver_.defer(false);
  {
    const SessionGuard guard(session);
    synchronize(*stream, "test");
    synchronize(kCpu);
    to_host(bytes, array, "test");
  }
  set_interrupt_check(nullptr);
  driver_.clear_calls();
  synchronize(*stream, "test");
  EXPECT_EQ(driver_.count("cuStreamSynchronize"), 1);
  EXPECT_EQ(driver_.count("cuStreamQuery"), 0);
}

TEST(Completion, EndsOnce) {
  Completion completion;
  int called = 0;
  completion.add_callback([&] { ++called; });
  EXPECT_EQ(completion.state(), Completion::State::pending);
  EXPECT_FALSE(completion.wait(1000));
  EXPECT_THROW(completion.rethrow(), Error);
  EXPECT_TRUE(completion.finish(12.5));
  EXPECT_FALSE(completion.cancel());
  EXPECT_FALSE(completion.fail(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "work"));
  EXPECT_EQ(called, 1);
  completion.add_callback([&] { ++called; });
  EXPECT_EQ(called, 2);
  EXPECT_TRUE(completion.wait());
  EXPECT_NO_THROW(completion.rethrow());
  EXPECT_EQ(completion.device_us(), 12.5);
  EXPECT_GE(completion.finished_ns(), completion.created_ns());
  EXPECT_EQ(completion.error(), "");
}

TEST(Completion, KeepsWhatFailed) {
  Completion failed, cancelled;
  failed.fail(700, "CUDA_ERROR_ILLEGAL_ADDRESS", "work");
  EXPECT_THROW(failed.rethrow(), CudaError);
  EXPECT_NE(failed.error().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
  cancelled.cancel("the partition is gone");
  EXPECT_EQ(cancelled.state(), Completion::State::cancelled);
  EXPECT_EQ(cancelled.error(), "the partition is gone");
  EXPECT_THROW(cancelled.rethrow(), Error);
}

TEST(Completion, WaitsAreWokenByAnotherThread) {
  Completion completion;
  std::thread other([&] { completion.finish(); });
  EXPECT_TRUE(completion.wait(60 * kSecond));
  other.join();
}

TEST(Completion, TimesOutOnItsClock) {
  Completion completion;
  VirtualClock clock(0, true);
  EXPECT_FALSE(completion.wait(3600 * kSecond, clock));
  EXPECT_GE(clock.now_ns(), 3600 * kSecond);
}

TEST(Completion, AWaitLetsSignalsThrough) {
  Completion completion;
  set_interrupt_check([] { throw Error("interrupted"); });
  EXPECT_THROW(completion.wait(60 * kSecond), Error);
  set_interrupt_check(nullptr);
  EXPECT_EQ(completion.state(), Completion::State::pending);
}

TEST_F(WaiterTest, CompletesInTheOrderOfEachStream) {
  StreamPtr a = new_stream(), b = new_stream();
  std::vector<std::shared_ptr<Completion>> list;
  std::atomic<int> next{0};
  std::vector<int> order(6);
  for (int i = 0; i < 6; ++i) {
    work_on(i % 2 == 0 ? a : b);
    list.push_back(completion_of(i % 2 == 0 ? a : b));
    list.back()->add_callback([&, i] { order[static_cast<size_t>(i)] = next++; });
  }
  EXPECT_EQ(Waiter::of(kCpu).pending(), 6u);
  for (const auto& completion : list) EXPECT_FALSE(completion->ready());
  driver_.run_all(3);
  for (const auto& completion : list) EXPECT_TRUE(completion->wait(60 * kSecond));
  Waiter::of(kCpu).drain();
  EXPECT_LT(order[0], order[2]);
  EXPECT_LT(order[2], order[4]);
  EXPECT_LT(order[1], order[3]);
  EXPECT_LT(order[3], order[5]);
  EXPECT_EQ(Waiter::of(kCpu).pending(), 0u);
}

TEST_F(WaiterTest, OneStreamDoesNotHoldUpAnother) {
  StreamPtr slow = new_stream(), quick = new_stream();
  work_on(slow);
  auto late = completion_of(slow);
  auto early = completion_of(quick);
  quick->synchronize();
  EXPECT_TRUE(early->wait(60 * kSecond));
  EXPECT_FALSE(late->ready());
  driver_.run_all(1);
  EXPECT_TRUE(late->wait(60 * kSecond));
}

TEST_F(WaiterTest, GivesTheDriversCode) {
  StreamPtr stream = new_stream();
  work_on(stream);
  auto event = std::make_shared<driver::Event>(stream->context(), false, true);
  event->record(*stream);
  driver_.fail_nth_of("cuEventQuery", 1, 2);
  std::atomic<int> code{-1};
  Waiter::of(kCpu).add(stream, event, [&](int result) { code = result; });
  Waiter::of(kCpu).drain();
  EXPECT_EQ(code.load(), 2);
}

TEST_F(WaiterTest, CallbacksMayAddMore) {
  StreamPtr stream = new_stream();
  Completion second;
  driver_.defer(false);
  auto event = std::make_shared<driver::Event>(stream->context(), false, true);
  event->record(*stream);
  Waiter& waiter = Waiter::of(kCpu);
  waiter.add(stream, event, [&](int) { waiter.add(stream, event, [&](int) { second.finish(); }); });
  EXPECT_TRUE(second.wait(60 * kSecond));
}

TEST_F(WaiterTest, ManyThreads) {
  driver_.defer(false);
  std::atomic<int> called{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      StreamPtr stream = new_stream();
      for (int i = 0; i < 200; ++i) {
        work_on(stream);
        completion_of(stream)->add_callback([&] { ++called; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Waiter::of(kCpu).drain();
  EXPECT_EQ(called.load(), 800);
}

TEST(WaiterThread, SaysWhenItCannotBeStarted) {
  FakeDriver driver;
  driver::set_host_device_count(2);
  driver.reopen_devices();
  {
    // A device whose waiter was never used.
    auto stream = std::make_shared<driver::Stream>(open_device({DeviceKind::cpu, 1}).context, 0);
    fail_thread_starts(1);
    EXPECT_THROW(completion_of(stream), Error);
    fail_thread_starts(0);
    EXPECT_TRUE(completion_of(stream)->wait(60 * kSecond));
    Waiter::of({DeviceKind::cpu, 1}).drain();
  }
  driver::set_host_device_count(1);
}

}  // namespace
}  // namespace gpukit::runtime
