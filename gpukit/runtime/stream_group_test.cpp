// Streams that move to other SMs: nothing is lost, nothing overtakes, what is left goes.
#include "gpukit/runtime/stream_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <type_traits>

#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/waiter.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;

constexpr Device kCpu{DeviceKind::cpu, 0};

class StreamGroupTest : public ::testing::Test {
 protected:
  StreamGroupTest() {
    driver::set_host_sms(32);
    split = std::make_unique<driver::SmSplit>(context());
  }
  ~StreamGroupTest() override {
    fake.defer(false);
    Waiter::of(kCpu).drain();
    forget_moved_streams();
    driver::set_host_sms(0);
  }
  static driver::Context& context() { return open_device(kCpu).context; }
  std::shared_ptr<driver::GreenContext> green(std::vector<int> groups) {
    context().make_current();
    return std::make_shared<driver::GreenContext>(*split, groups);
  }
  void push(const StreamPtr& stream, int value) {
    Session session = Session().with_stream(stream);
    SessionGuard guard(session);
    run_host("push", kCpu, {}, [this, value](void* const*) { order.push_back(value); });
  }
  static std::vector<int> sms(const StreamPtr& stream) {
    return driver::host_green_sms(driver::host_stream_green(stream->handle()));
  }

  FakeDriver fake;
  std::unique_ptr<driver::SmSplit> split;
  std::vector<int> order;
};

TEST_F(StreamGroupTest, WorkMovesToTheNewSmsAndKeepsItsOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto group = StreamGroup::make(context(), green({0}));
    StreamPtr stream = group->make_stream(0);
    EXPECT_EQ(resolve(stream), stream);
    order.clear();
    fake.queries_run(false);
    fake.defer(true);
    push(stream, 1);
    group->move_to(green({1, 2}));
    StreamPtr now = resolve(stream);
    EXPECT_NE(now, stream);
    EXPECT_EQ(now->green()->sm_count(), 16);
    EXPECT_EQ(sms(now).size(), 16u);
    push(stream, 2);
    EXPECT_EQ(now->sequence.load(), 1u);
    fake.run_all(seed);
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    fake.defer(false);
  }
}

TEST_F(StreamGroupTest, WorkThatIsLateOnTheOldStreamIsNotOvertaken) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto group = StreamGroup::make(context(), green({0}));
    StreamPtr stream = group->make_stream(0);
    group->move_to(green({1}));
    StreamPtr second = resolve(stream);
    order.clear();
    fake.queries_run(false);
    fake.defer(true);
    group->move_to(green({2}));
    push(second, 1);  // a call that had looked before the second move
    push(stream, 2);
    fake.run_all(seed);
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
    fake.defer(false);
  }
}

TEST_F(StreamGroupTest, ReturnsToTheFirstStreamInOrder) {
  auto group = StreamGroup::make(context());
  StreamPtr stream = group->make_stream(0);
  fake.queries_run(false);
  fake.defer(true);
  group->move_to(green({0}));
  push(stream, 1);
  group->move_to(nullptr);
  EXPECT_EQ(resolve(stream), stream);
  push(stream, 2);
  fake.run_all(3);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(StreamGroupTest, StreamsThatWereLeftGoAfterTheirLastEvent) {
  auto group = StreamGroup::make(context());
  StreamPtr stream = group->make_stream(0);
  const auto before = fake.live();
  for (int i = 0; i < 20; ++i) {
    group->move_to(green({i % 4}));
    push(stream, i);
    Waiter::of(kCpu).drain();
  }
  group->move_to(nullptr);
  Waiter::of(kCpu).drain();
  forget_moved_streams();
  EXPECT_EQ(fake.live().streams, before.streams);
  EXPECT_EQ(fake.live().green, before.green);
  EXPECT_EQ(order.size(), 20u);
}

TEST_F(StreamGroupTest, AMoveThatFailsChangesNothing) {
  auto group = StreamGroup::make(context());
  StreamPtr a = group->make_stream(0), b = group->make_stream(0);
  auto target = green({0});
  fake.fail_nth_of("cuGreenCtxStreamCreate", 2, driver::kErrorOutOfMemory);
  EXPECT_THROW(group->move_to(target), CudaError);
  fake.stop_failing();
  EXPECT_EQ(resolve(a), a);
  EXPECT_EQ(resolve(b), b);
  EXPECT_EQ(group->green(), nullptr);
}

TEST_F(StreamGroupTest, TheHookSeesEveryStreamAndMayRefuse) {
  auto group = StreamGroup::make(context());
  int seen = 0;
  group->set_hook([&](const StreamPtr&) {
    if (++seen > 2) throw Error("enough");
  });
  StreamPtr a = group->make_stream(0), b = group->make_stream(-1);
  EXPECT_EQ(b->priority(), -1);
  EXPECT_THROW(group->make_stream(0), Error);
  EXPECT_EQ(group->num_streams(), 2);
}

TEST_F(StreamGroupTest, AGraphBelongsToTheSmsOfItsCapture) {
  DeviceState& state = open_device(kCpu);
  Graph graph(kCpu);
  int runs = 0;
  auto capture = [&] {
    graph.begin_capture();
    Session session = current_session().with_stream(graph.stream());
    SessionGuard guard(session);
    run_host("count", kCpu, {}, [&runs](void* const*) { ++runs; });
    graph.end_capture();
  };
  capture();
  graph.replay();
  EXPECT_EQ(runs, 1);
  state.streams->move_to(green({0}));
  EXPECT_THROW(graph.replay(), Error);  // it would run on all SMs
  graph.reset();
  capture();
  EXPECT_EQ(sms(graph.stream()).size(), 8u);
  graph.replay();
  EXPECT_EQ(runs, 2);

  auto other = StreamGroup::make(context(), state.streams->green());
  Session session = Session().with_stream(other->make_stream(0));
  {
    SessionGuard guard(session);
    EXPECT_THROW(graph.replay(), Error);  // another session
  }
  state.streams->move_to(nullptr);
  EXPECT_THROW(graph.replay(), Error);
}

TEST(CurrentStream, IsKeptAliveByWhoAsked) {
  static_assert(std::is_same_v<decltype(current_stream(kCpu)), std::shared_ptr<driver::Stream>>);
  std::weak_ptr<driver::Stream> known;
  {
    auto group = StreamGroup::make(open_device(kCpu).context);
    auto session = std::make_unique<Session>(Session().with_stream(group->make_stream(0)));
    std::optional<SessionGuard> guard(*session);
    const auto stream = current_stream(kCpu);
    known = stream;
    guard.reset();
    session.reset();
    group.reset();
    EXPECT_FALSE(known.expired());
    stream->context().make_current();
    stream->synchronize();
  }
  EXPECT_TRUE(known.expired());
}

}  // namespace
}  // namespace gpukit::runtime
