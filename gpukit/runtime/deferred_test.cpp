// Work is held back and run in random orders that streams and events allow: results stay right, and a missing wait is
// found.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "gpukit/array/host.h"
#include "gpukit/driver/host_table.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/transfer.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;
using EventPtr = std::unique_ptr<driver::Event>;

constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int kSize = 16;
constexpr int kSeeds = 40;

void mix(const Array& out, const Array& a, const Array& b, int64_t factor) {
  run_host("mix", kCpu, {write(out), read(a), read(b)}, [factor](void* const* p) {
    auto* to = static_cast<uint64_t*>(p[0]);
    auto *x = static_cast<const uint64_t*>(p[1]), *y = static_cast<const uint64_t*>(p[2]);
    for (int i = 0; i < kSize; ++i) to[i] = x[i] * static_cast<uint64_t>(factor) + y[i] + 1;
  });
}

StreamPtr new_stream() { return std::make_shared<driver::Stream>(open_device(kCpu).context, 0); }

template <typename Function>
void on(const StreamPtr& stream, Function&& function) {
  Session session = current_session().with_stream(stream);
  SessionGuard guard(session);
  function();
}

Array numbers(uint64_t first) {
  std::vector<uint64_t> values(kSize);
  std::iota(values.begin(), values.end(), first);
  return from_host(values.data(), {kSize}, DType::uint64, kCpu);
}

std::vector<uint64_t> read_back(const Array& array) {
  std::vector<uint64_t> values(kSize);
  to_host(values.data(), array);
  return values;
}

/// A random program over three streams and four arrays, with an event wait for each dependency between streams.
class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {}

  std::vector<std::vector<uint64_t>> run() {
    for (uint64_t i = 0; i < 4; ++i) arrays_.push_back(numbers(i * 100));
    synchronize(kCpu);
    for (int i = 0; i < 3; ++i) streams_.push_back(new_stream());
    for (int step = 0; step < 24; ++step) submit(pick(3), pick(4), pick(4), pick(4), step + 2);
    synchronize(kCpu);
    std::vector<std::vector<uint64_t>> results;
    for (const Array& array : arrays_) results.push_back(read_back(array));
    return results;
  }

 private:
  struct Access {
    int stream;
    int array;
    bool write;
    EventPtr event;
  };

  int pick(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  void submit(int stream, int out, int a, int b, int factor) {
    for (const Access& before : history_) {
      bool conflict = before.array == out || (before.write && (before.array == a || before.array == b));
      if (conflict && before.stream != stream) streams_[stream]->wait(*before.event);
    }
    on(streams_[stream], [&] { mix(arrays_[out], arrays_[a], arrays_[b], factor); });
    note(stream, out, true);
    note(stream, a, false);
    note(stream, b, false);
  }

  void note(int stream, int array, bool write) {
    auto event = std::make_unique<driver::Event>(streams_[stream]->context());
    event->record(*streams_[stream]);
    history_.push_back({stream, array, write, std::move(event)});
  }

  std::mt19937_64 random_;
  std::vector<Array> arrays_;
  std::vector<StreamPtr> streams_;
  std::vector<Access> history_;
};

TEST(Deferred, RandomProgramsGiveTheInOrderResult) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDriver fake;
    auto in_order = Program(seed).run();
    fake.defer(true);
    for (uint64_t order = 0; order < 3; ++order) {
      fake.seed(order);
      EXPECT_EQ(Program(seed).run(), in_order) << "program " << seed << ", order " << order;
    }
  }
}

TEST(Deferred, RemovedWaitIsFound) {
  int found = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeDriver fake;
    auto in_order = Program(seed).run();
    fake.defer(true);
    fake.drop_wait(0);
    fake.seed(seed);
    found += Program(seed).run() != in_order;
    EXPECT_GT(fake.dropped_waits(), 0);
  }
  EXPECT_GE(found, kSeeds * 3 / 4);
}

/// One producer, one consumer on another stream, one event wait between them.
std::vector<uint64_t> produce_and_consume(FakeDriver& fake, uint64_t order, bool drop = false) {
  Array a = numbers(1), b = numbers(5), c = numbers(9);
  synchronize(kCpu);
  StreamPtr first = new_stream(), second = new_stream();
  driver::Event ready(first->context());
  on(first, [&] { mix(b, a, a, 3); });
  ready.record(*first);
  if (drop) fake.drop_wait(1);
  second->wait(ready);
  on(second, [&] { mix(c, b, a, 7); });
  fake.run_all(order);
  return read_back(c);
}

TEST(Deferred, OneRemovedWaitIsFound) {
  FakeDriver fake;
  auto right = produce_and_consume(fake, 0);
  fake.defer(true);
  int wrong = 0;
  for (uint64_t order = 0; order < kSeeds; ++order) {
    EXPECT_EQ(produce_and_consume(fake, order), right) << order;
    wrong += produce_and_consume(fake, order, true) != right;
  }
  EXPECT_EQ(fake.dropped_waits(), kSeeds);
  EXPECT_GT(wrong, kSeeds / 5);
}

/// A block is used on a second stream, freed, and taken again by the first while the second may still read it.
std::vector<uint64_t> reuse(FakeDriver& fake, uint64_t order, bool drop = false) {
  Array a = numbers(1), c = numbers(9);
  synchronize(kCpu);
  StreamPtr first = new_stream(), second = new_stream();
  Array kept;
  on(first, [&] {
    Array temporary = Array::empty({kSize}, DType::uint64, kCpu);
    mix(temporary, a, a, 3);
    driver::Event ready(first->context());
    ready.record(*first);
    second->wait(ready);
    on(second, [&] { mix(c, temporary, a, 7); });
    temporary = Array();
    if (drop) fake.drop_wait(1);
    kept = Array::empty({kSize}, DType::uint64, kCpu);
    mix(kept, a, a, 1000);  // overwrites the block if it is the same
  });
  fake.run_all(order);
  return read_back(c);
}

TEST(Deferred, ReusedMemoryWaitsForItsReaders) {
  FakeDriver fake;
  auto right = reuse(fake, 0);
  fake.defer(true);
  int wrong = 0;
  for (uint64_t order = 0; order < kSeeds; ++order) {
    EXPECT_EQ(reuse(fake, order), right) << order;
    wrong += reuse(fake, order, true) != right;
  }
  EXPECT_EQ(fake.dropped_waits(), kSeeds);
  EXPECT_GT(wrong, 0);
}

/// A block freed by one stream and taken by another.
std::vector<uint64_t> hand_over(FakeDriver& fake, uint64_t order) {
  Array a = numbers(1), c = numbers(9);
  synchronize(kCpu);
  StreamPtr first = new_stream(), second = new_stream();
  on(first, [&] {
    Array temporary = Array::empty({kSize}, DType::uint64, kCpu);
    mix(temporary, a, a, 3);
    mix(c, temporary, a, 7);
  });
  Array taken;
  on(second, [&] {
    taken = Array::empty({kSize}, DType::uint64, kCpu);
    mix(taken, a, a, 1000);
  });
  fake.run_all(order);
  return read_back(c);
}

TEST(Deferred, MemoryOfAnotherStreamIsWaitedFor) {
  FakeDriver fake;
  auto right = hand_over(fake, 0);
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) EXPECT_EQ(hand_over(fake, order), right) << order;
}

TEST(Deferred, GraphReplaysInOrderWithTheStreamsAroundThem) {
  FakeDriver fake;
  auto run = [&](uint64_t order) {
    fake.seed(order);
    Array a = numbers(1), b = numbers(5), c = numbers(9);
    synchronize(kCpu);
    StreamPtr side = new_stream();
    Graph graph(kCpu);
    driver::Event fork(side->context()), join(side->context());
    graph.begin_capture();
    on(graph.stream(), [&] { mix(a, a, b, 3); });
    fork.record(*graph.stream());
    side->wait(fork);
    on(side, [&] { mix(b, a, a, 5); });
    on(graph.stream(), [&] { mix(c, a, c, 7); });
    join.record(*side);
    graph.stream()->wait(join);
    on(graph.stream(), [&] { mix(a, b, c, 11); });
    graph.end_capture();
    StreamPtr user = new_stream();
    on(user, [&] {
      for (int i = 0; i < 3; ++i) {
        mix(b, b, a, 13);
        graph.replay();
        mix(c, a, b, 17);
      }
    });
    synchronize(kCpu);
    std::vector<uint64_t> all;
    for (const Array& array : {a, b, c}) {
      std::vector<uint64_t> part = read_back(array);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  auto right = run(0);
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) EXPECT_EQ(run(order), right) << order;
}

/// Data goes from one device to another and back; the source is freed while the copy may still read it.
std::vector<uint64_t> between_devices(FakeDriver& fake, uint64_t order, bool drop = false) {
  fake.seed(order);
  constexpr Device kOther{DeviceKind::cpu, 1};
  Array result = numbers(9);
  {
    Array a = numbers(1);
    mix(a, a, a, 3);
    Array there = Array::empty({kSize}, DType::uint64, kOther);
    if (drop) fake.drop_wait(1);
    copy_device(write(there), read(a), kSize * sizeof(uint64_t));
    a = Array();
    Array overwriting = numbers(77);
    copy_device(write(result), read(there), kSize * sizeof(uint64_t));
  }
  Array overwriting = numbers(99);
  fake.run_all(order);
  return read_back(result);
}

TEST(Deferred, CopiesBetweenDevicesWaitForEachOther) {
  driver::set_host_device_count(2);
  {
    FakeDriver fake;
    auto right = between_devices(fake, 0);
    fake.defer(true);
    fake.clear_calls();
    int wrong = 0;
    for (uint64_t order = 0; order < kSeeds; ++order) {
      EXPECT_EQ(between_devices(fake, order), right) << order;
      wrong += between_devices(fake, order, true) != right;
    }
    EXPECT_EQ(fake.dropped_waits(), kSeeds);
    EXPECT_GT(wrong, 0);
    EXPECT_EQ(fake.count("cuMemFree"), 0);  // freed blocks are kept for reuse, ordered by events
  }
  driver::set_host_device_count(1);
}

TEST(Deferred, BlockFreedDuringACaptureOfItsStreamIsUsableAfterIt) {
  FakeDriver fake;
  StreamPtr side = new_stream();
  Array freed = numbers(1), kept = numbers(2);
  on(side, [&] { mix(freed, freed, freed, 3); });
  Graph graph(kCpu);
  graph.begin_capture();
  driver::Event fork(side->context()), join(side->context());
  fork.record(*graph.stream());
  side->wait(fork);
  on(side, [&] { mix(kept, kept, kept, 5); });
  freed = Array();
  join.record(*side);
  graph.stream()->wait(join);
  graph.end_capture();
  EXPECT_EQ(graph.num_nodes(), 1);
  Array again = numbers(7);
  EXPECT_EQ(read_back(again)[0], 7u);
  graph.replay();
  EXPECT_EQ(read_back(kept)[0], 2u * 5 + 2 + 1);
}

TEST(Deferred, PageableSourceMayBeReusedAtOnce) {
  FakeDriver fake;
  fake.defer(true);
  std::vector<uint64_t> values(kSize, 1);
  Array a = Array::empty({kSize}, DType::uint64, kCpu);
  copy_from_host(write(a), values.data(), kSize * 8);
  values.assign(kSize, 2);
  EXPECT_EQ(read_back(a), std::vector<uint64_t>(kSize, 1));
  auto* pinned = static_cast<uint64_t*>(open_device(kCpu).context.api().allocate_pinned(kSize * 8));
  std::fill_n(pinned, kSize, 3);
  copy_from_host(write(a), pinned, kSize * 8);
  std::fill_n(pinned, kSize, 4);
  EXPECT_EQ(read_back(a), std::vector<uint64_t>(kSize, 3));
  open_device(kCpu).context.api().release_pinned(pinned);
}

}  // namespace
}  // namespace gpukit::runtime
