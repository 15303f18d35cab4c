#include "gpukit/runtime/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

#include "gpukit/array/array.h"
#include "gpukit/base/error.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/stream_group.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

Array make(int n, float value) {
  Array a = Array::empty({n}, DType::float32, kCpu);
  for (int i = 0; i < n; ++i) static_cast<float*>(a.host_data())[i] = value;
  return a;
}
float first(const Array& a) { return static_cast<float*>(a.host_data())[0]; }

void increment(const Array& out, const Array& in, float by) {
  int64_t n = out.size();
  run_host("increment", kCpu, {write(out), read(in)}, [n, by](void* const* p) {
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(p[0])[i] = static_cast<const float*>(p[1])[i] + by;
  });
}

/// Captures increment(a, a, 1) then increment(b, a, 10).
struct Captured {
  Array a = make(5, 1), b = make(5, 0);
  Graph graph{kCpu};
  Captured() {
    graph.begin_capture();
    Session session = current_session().with_stream(graph.stream());
    SessionGuard guard(session);
    increment(a, a, 1);
    increment(b, a, 10);
    graph.end_capture();
  }
};

TEST(Graph, CaptureRunsNothingAndReplayRunsAll) {
  Captured c;
  EXPECT_EQ(first(c.a), 1.0f);
  EXPECT_EQ(c.graph.num_nodes(), 2);
  c.graph.replay();
  c.graph.replay();
  c.graph.synchronize();
  EXPECT_EQ(first(c.a), 3.0f);
  EXPECT_EQ(first(c.b), 13.0f);
}

TEST(Graph, ReplayIsNotedAgainOnceABlockHasForgottenItsStream) {
  Captured c;
  auto stream = std::make_shared<driver::Stream>(open_device(kCpu).context, 0);
  auto replay = [&] {
    Session session = current_session().with_stream(stream);
    SessionGuard guard(session);
    c.graph.replay();
    stream->synchronize();
  };
  auto known = [&] {
    const auto streams = c.a.storage()->streams();
    return std::find(streams.begin(), streams.end(), stream) != streams.end();
  };
  replay();
  EXPECT_TRUE(known());
  for (int i = 0; i < 20; ++i) c.a.storage()->note_use(std::make_shared<driver::Stream>(stream->context(), 0));
  EXPECT_FALSE(known());
  replay();
  EXPECT_TRUE(known());
}

TEST(Graph, VerifyLeavesStateAsItWas) {
  Captured c;
  EXPECT_TRUE(c.graph.verify());
  EXPECT_EQ(first(c.a), 1.0f);
  EXPECT_EQ(first(c.b), 0.0f);
}

TEST(Graph, VerifyLeavesStateAsItWasWhenItFails) {
  for (int copy : {3, 5}) {  // two save the state, two what the replay left, two what the eager steps left
    gpukit::testing::FakeDriver fake;
    Captured c;
    fake.fail_nth_of("cuMemcpyDtoHAsync", copy, driver::kErrorOutOfMemory);
    EXPECT_THROW(c.graph.verify(), Error);
    fake.stop_failing();
    EXPECT_FALSE(fake.failed_call().empty());
    EXPECT_EQ(first(c.a), 1.0f) << copy;
    EXPECT_EQ(first(c.b), 0.0f) << copy;
  }
}

TEST(Graph, VerifyFindsAStepThatDiffers) {
  Array a = make(3, 0);
  Graph graph(kCpu);
  graph.begin_capture();
  Session session = current_session().with_stream(graph.stream());
  SessionGuard guard(session);
  auto calls = std::make_shared<int>(0);
  run_host("counter", kCpu, {write(a)}, [calls](void* const* p) { static_cast<float*>(p[0])[1] = float(++*calls); });
  graph.end_capture();
  EXPECT_THROW(
      {
        try {
          graph.verify();
        } catch (const Error& error) {
          EXPECT_NE(std::string(error.what()).find("first at byte"), std::string::npos) << error.what();
          throw;
        }
      },
      Error);
  EXPECT_EQ(first(a), 0.0f);
}

TEST(Graph, HoldsTheBuffersItSaw) {
  Graph graph(kCpu);
  std::weak_ptr<memory::Storage> held;
  {
    Array a = make(4, 2);
    held = a.storage();
    graph.begin_capture();
    Session session = current_session().with_stream(graph.stream());
    SessionGuard guard(session);
    increment(a, a, 1);
    graph.end_capture();
  }
  EXPECT_FALSE(held.expired());
  graph.replay();
  graph.reset();
  EXPECT_TRUE(held.expired());
  EXPECT_FALSE(graph.ready());
}

TEST(Graph, RefusesWhatACaptureCannotHold) {
  Array a = make(4, 2);
  Graph graph(kCpu);
  graph.begin_capture();
  Session session = current_session().with_stream(graph.stream());
  {
    SessionGuard guard(session);
    EXPECT_THROW(Array::empty({1}, DType::float32, kCpu), Error);
    float value = 0;
    EXPECT_THROW(copy_to_host(&value, read(a), 4, "item"), Error);
    EXPECT_THROW(synchronize(kCpu), Error);
    EXPECT_THROW(graph.begin_capture(), Error);
    increment(a, a, 1);
  }
  // A stream that has not joined the capture.
  EXPECT_THROW(increment(a, a, 1), Error);
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 1);
  EXPECT_THROW(graph.begin_capture(), Error);
  EXPECT_THROW(graph.end_capture(), Error);
}

TEST(Graph, SecondStreamJoinsByEvent) {
  Array a = make(4, 1), b = make(4, 0);
  Graph graph(kCpu);
  auto second = std::make_shared<driver::Stream>(open_device(kCpu).context, 0);
  graph.begin_capture();
  Session origin = current_session().with_stream(graph.stream());
  Session other = current_session().with_stream(second);
  driver::Event fork(graph.stream()->context()), join(graph.stream()->context());
  {
    SessionGuard guard(origin);
    increment(a, a, 1);
  }
  fork.record(*graph.stream());
  second->wait(fork);
  {
    SessionGuard guard(other);
    increment(b, a, 5);
  }
  join.record(*second);
  graph.stream()->wait(join);
  graph.end_capture();
  graph.replay();
  EXPECT_EQ(first(b), 7.0f);
  // The stream is free again.
  SessionGuard guard(other);
  increment(b, b, 1);
  EXPECT_EQ(first(b), 8.0f);
}

TEST(Graph, UnjoinedStreamIsAnError) {
  Array a = make(4, 1);
  Graph graph(kCpu);
  auto second = std::make_shared<driver::Stream>(open_device(kCpu).context, 0);
  graph.begin_capture();
  driver::Event fork(graph.stream()->context());
  fork.record(*graph.stream());
  second->wait(fork);
  Session other = current_session().with_stream(second);
  {
    SessionGuard guard(other);
    increment(a, a, 1);
  }
  EXPECT_THROW(graph.end_capture(), Error);
  EXPECT_FALSE(graph.capturing());
  increment(a, a, 1);
  EXPECT_EQ(first(a), 2.0f);
}

/// Holds submissions back until it is opened.
struct Barrier : StreamControl {
  std::atomic<bool> reached{false}, open{false};
  uint64_t admit(const std::shared_ptr<driver::Stream>&, const char*, SubmitKind, size_t) override {
    reached = true;
    while (!open) std::this_thread::yield();
    return 0;
  }
  void submitted(uint64_t, const std::shared_ptr<driver::Stream>&, int) noexcept override {}
};

TEST(Graph, IsNotResetUnderAReplay) {
  Captured c;
  auto stream = std::make_shared<driver::Stream>(open_device(kCpu).context, 0);
  Barrier barrier;
  stream->control = &barrier;
  std::thread other([&] {
    Session session = Session().with_stream(stream);
    SessionGuard guard(session);
    c.graph.replay();
  });
  while (!barrier.reached) std::this_thread::yield();
  EXPECT_THROW(c.graph.reset(), Error);
  EXPECT_TRUE(c.graph.ready());
  barrier.open = true;
  other.join();
  stream->control = nullptr;
  c.graph.synchronize();
  EXPECT_EQ(first(c.b), 12.0f);
  c.graph.reset();
  EXPECT_FALSE(c.graph.ready());
}

TEST(Graph, ThreadsReplayOneGraph) {
  Captured c;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Session sessions[2] = {Session().with_stream(new_stream(kCpu, 0)), Session().with_stream(new_stream(kCpu, 0))};
      for (int i = 0; i < 200; ++i) {
        SessionGuard guard(sessions[i % 2]);
        c.graph.replay();
        if (i % 50 == 0) c.graph.synchronize();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  synchronize(kCpu);
  EXPECT_GT(first(c.a), 1.0f);
}

TEST(Graph, StreamsOfCapturesAreNotCounted) {
  auto group = StreamGroup::make(open_device(kCpu).context);
  Session session = Session().with_stream(group->make_stream(0));
  SessionGuard guard(session);
  Graph a(kCpu), b(kCpu);
  EXPECT_EQ(group->num_streams(), 1);
  auto second = new_stream(kCpu, 0);
  EXPECT_EQ(group->num_streams(), 2);
}

TEST(Graph, OfASessionThatIsGoneRunsNowhere) {
  std::optional<Session> session;
  auto group = StreamGroup::make(open_device(kCpu).context);
  session = Session().with_stream(group->make_stream(0));
  std::optional<Captured> c;
  {
    SessionGuard guard(*session);
    c.emplace();
    c->graph.replay();
  }
  EXPECT_THROW(c->graph.replay(), Error);
  session.reset();
  group.reset();
  EXPECT_THROW(c->graph.replay(), Error);
  EXPECT_EQ(first(c->a), 2.0f);
  c->graph.reset();
}

TEST(Graph, ScopedCaptureMakesTheStreamCurrentAndTheGraphReady) {
  Array a = make(3, 1);
  Graph graph(kCpu);
  {
    ScopedCapture capture(graph);
    EXPECT_EQ(current_stream(kCpu), graph.stream());
    increment(a, a, 1);
    EXPECT_TRUE(graph.capturing());
    capture.end();
    EXPECT_EQ(thread_capture(), nullptr);
    EXPECT_NE(current_stream(kCpu), graph.stream());
    EXPECT_THROW(capture.end(), Error);
  }
  EXPECT_TRUE(graph.ready());
  EXPECT_EQ(first(a), 1.0f);
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(first(a), 2.0f);
}

TEST(Graph, ScopedCaptureLeftByAnExceptionLeavesTheGraphEmpty) {
  Array a = make(3, 1);
  Graph graph(kCpu);
  auto fail = [&] {
    const ScopedCapture capture(graph);
    increment(a, a, 1);
    throw Error("the body failed");
  };
  EXPECT_THROW(fail(), Error);
  EXPECT_EQ(thread_capture(), nullptr);
  EXPECT_FALSE(graph.ready() || graph.capturing());
  ScopedCapture again(graph);
  increment(a, a, 1);
  again.end();
  graph.replay();
  graph.synchronize();
  EXPECT_EQ(first(a), 2.0f);
}

TEST(Graph, DestroyedByAnotherThreadFreesTheThreadThatCaptures) {
  Array a = make(2, 0);
  auto graph = std::make_unique<Graph>(kCpu);
  const std::shared_ptr<driver::Stream> stream = graph->stream();
  graph->begin_capture();
  std::thread([&] { graph.reset(); }).join();
  EXPECT_EQ(thread_capture(), nullptr);
  EXPECT_EQ(stream->api().capture_info(stream->handle()).status, driver::CaptureStatus::none);
  increment(a, a, 1);
  EXPECT_EQ(first(a), 1.0f);
}

TEST(Graph, CaptureOfAThreadThatEndsIsOver) {
  Array a = make(2, 0);
  Graph graph(kCpu);
  std::thread([&] { graph.begin_capture(); }).join();
  EXPECT_FALSE(graph.capturing());
  EXPECT_THROW(graph.end_capture(), Error);
  ScopedCapture capture(graph);
  increment(a, a, 1);
  capture.end();
  EXPECT_TRUE(graph.ready());
}

TEST(Graph, BeginWaitsForTheStreamsOfItsSessionAlone) {
  gpukit::testing::FakeDriver driver;
  driver.defer(true);
  driver.queries_run(false);
  Array a = Array::empty({2}, DType::float32, kCpu), b = Array::empty({2}, DType::float32, kCpu);
  auto others = StreamGroup::make(open_device(kCpu).context);
  Session elsewhere = Session().with_stream(others->make_stream(0));
  std::atomic<int> mine = 0, theirs = 0;
  {
    SessionGuard guard(elsewhere);
    run_host("theirs", kCpu, {write(b)}, [&](void* const*) { ++theirs; });
  }
  run_host("mine", kCpu, {write(a)}, [&](void* const*) { ++mine; });
  Graph graph(kCpu);
  ScopedCapture capture(graph);
  EXPECT_EQ(mine, 1);
  EXPECT_EQ(theirs, 0);
  capture.end();
  driver.run_all(1);
  EXPECT_EQ(theirs, 1);
}

TEST(Graph, AbandonedCaptureLeavesTheThreadFree) {
  Array a = make(2, 0);
  {
    Graph graph(kCpu);
    graph.begin_capture();
  }
  EXPECT_EQ(thread_capture(), nullptr);
  increment(a, a, 1);
  EXPECT_EQ(first(a), 1.0f);
}

}  // namespace
}  // namespace gpukit::runtime
