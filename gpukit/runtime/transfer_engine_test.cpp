// Copies through the transfer engine: bytes, order of service, cancelling, ends.
#include "gpukit/runtime/transfer_engine.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/base/thread.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/stream_control.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using Bytes = std::vector<uint8_t>;
using TransferPtr = std::shared_ptr<Transfer>;
constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr size_t kChunk = 64;

driver::Context& context() { return open_device(kCpu).context; }

TransferEngine::Options small(bool workers) {
  TransferEngine::Options options;
  options.chunk_bytes = kChunk;
  options.piece_bytes = 2 * kChunk;
  options.max_chunks = 4;
  options.workers = workers;
  return options;
}

Bytes pattern(size_t size, uint8_t first = 1) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(first + i * 7 + i / 251);
  return bytes;
}

Array array_of(const Bytes& bytes) {
  return from_host(bytes.data(), {static_cast<int64_t>(bytes.size())}, DType::uint8, kCpu);
}

Bytes read_back(const Array& array) {
  Bytes bytes(static_cast<size_t>(array.nbytes()));
  to_host(bytes.data(), array);
  return bytes;
}

int64_t first_difference(const uint8_t* got, const Bytes& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i)
    if (got[i] != wanted[i]) return static_cast<int64_t>(i);
  return -1;
}

TransferRequest to_device(const Array& array, void* host, size_t bytes, int priority = 0) {
  TransferRequest request;
  request.storage = array.storage();
  request.offset_bytes = array.offset_bytes();
  request.host = host;
  request.bytes = bytes;
  request.priority = priority;
  return request;
}

TransferRequest to_host_request(const Array& array, void* host, size_t bytes, int priority = 0) {
  TransferRequest request = to_device(array, host, bytes, priority);
  request.type = TransferType::d2h;
  return request;
}

void finish(TransferEngine& engine, const TransferPtr& transfer) {
  while (engine.step()) {
  }
  transfer->completion()->wait();
  transfer->completion()->rethrow();
}

/// Host memory of either kind.
class HostMemory {
 public:
  HostMemory(size_t size, bool page_locked) : plain_(size) {
    if (page_locked) pinned_ = context().api().allocate_pinned(size);
  }
  ~HostMemory() {
    if (pinned_ != nullptr) context().api().release_pinned(pinned_);
  }
  uint8_t* data() { return pinned_ != nullptr ? static_cast<uint8_t*>(pinned_) : plain_.data(); }

 private:
  Bytes plain_;
  void* pinned_ = nullptr;
};

TEST(TransferEngine, MovesEveryByteAroundChunkBoundaries) {
  FakeDriver fake;
  for (bool deferred : {false, true}) {
    for (bool workers : {false, true}) {
      TransferEngine engine(context(), small(workers));
      fake.defer(deferred);
      for (bool page_locked : {false, true}) {
        for (size_t size : {1, 3, 63, 64, 65, 127, 128, 129, 191, 255, 256, 257, 1000}) {
          SCOPED_TRACE(std::to_string(size) + (page_locked ? " page-locked" : " pageable") +
                       (workers ? " workers" : " steps") + (deferred ? " deferred" : ""));
          const Bytes wanted = pattern(size), before = pattern(size + 2, 99);
          HostMemory source(size, page_locked), target(size, page_locked);
          std::copy(wanted.begin(), wanted.end(), source.data());
          Array whole = array_of(before);
          Array array = whole.slice(0, 1, static_cast<int64_t>(size) + 1, 1);
          auto in = engine.submit("test", to_device(array, source.data(), size));
          auto out = engine.submit("test", to_host_request(array, target.data(), size));  // comes after the first
          finish(engine, in);
          finish(engine, out);
          EXPECT_EQ(first_difference(target.data(), wanted), -1);
          Bytes all = read_back(whole);
          EXPECT_EQ(first_difference(all.data() + 1, wanted), -1);
          EXPECT_EQ(all.front(), before.front());
          EXPECT_EQ(all.back(), before.back());
          EXPECT_EQ(in->record().bytes_done, size);
          EXPECT_EQ(in->record().state, TransferState::completed);
        }
      }
      EXPECT_EQ(engine.ring().stats().held, 0u);
      EXPECT_EQ(engine.stats().completed_count, 52);
      EXPECT_EQ(engine.stats().in_progress_count + engine.stats().pending_count, 0);
      fake.defer(false);
    }
  }
  EXPECT_FALSE(transfers_active());
}

TEST(TransferEngine, CopiesWithinTheDevice) {
  FakeDriver fake;
  TransferEngine engine(context(), small(false));
  Array a = array_of(pattern(300)), b = array_of(Bytes(300, 0));
  TransferRequest request;
  request.type = TransferType::d2d;
  request.storage = b.storage();
  request.peer = a.storage();
  request.bytes = 300;
  finish(engine, engine.submit("test", request));
  EXPECT_EQ(read_back(b), pattern(300));
}

TEST(TransferEngine, NothingToCopyIsDoneAtOnce) {
  FakeDriver fake;
  TransferEngine engine(context(), small(true));
  Array a = array_of(pattern(3));
  auto transfer = engine.submit("test", to_device(a, nullptr, 0));
  EXPECT_TRUE(transfer->completion()->ready());
  EXPECT_EQ(transfer->record().state, TransferState::completed);
  EXPECT_FALSE(transfers_active());
}

TEST(TransferEngine, HigherPriorityGoesFirstEvenBetweenChunks) {
  FakeDriver fake;
  TransferEngine::Options options = small(false);
  options.depth = 1;
  TransferEngine engine(context(), options);
  Bytes source = pattern(4 * kChunk);
  std::vector<Array> arrays;
  std::mutex mutex;
  std::vector<int> order;
  std::vector<TransferPtr> transfers;
  auto submit = [&](int name, int priority) {
    arrays.push_back(array_of(Bytes(source.size(), 0)));
    transfers.push_back(engine.submit("test", to_device(arrays.back(), source.data(), source.size(), priority)));
    transfers.back()->completion()->add_callback([&, name] {
      std::lock_guard lock(mutex);
      order.push_back(name);
    });
  };
  submit(1, 0);
  engine.step();  // its first chunk is on its way
  submit(2, -3);
  submit(3, 5);
  submit(4, 5);
  submit(5, 0);
  for (const auto& transfer : transfers) finish(engine, transfer);
  Waiter::of(kCpu).drain();  // callbacks run after waiters are woken
  EXPECT_EQ(order, (std::vector<int>{3, 4, 1, 5, 2}));
  for (const Array& array : arrays) EXPECT_EQ(read_back(array), source);
}

TEST(TransferEngine, CancelledWhileQueuedReadsNothing) {
  FakeDriver fake;
  TransferEngine engine(context(), small(false));
  Array a = array_of(Bytes(200, 9));
  auto keep = std::make_shared<Bytes>(pattern(200));
  std::weak_ptr<Bytes> watch = keep;
  TransferRequest request = to_device(a, keep->data(), 200);
  request.keep = std::move(keep);
  auto transfer = engine.submit("test", std::move(request));
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(transfer->cancel());
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(transfer->record().state, TransferState::cancelled);
  EXPECT_EQ(transfer->completion()->state(), Completion::State::cancelled);
  EXPECT_FALSE(transfer->cancel());
  EXPECT_FALSE(engine.step());
  EXPECT_EQ(read_back(a), Bytes(200, 9));
  EXPECT_EQ(engine.stats().cancelled_count, 1);
  EXPECT_FALSE(transfers_active());
}

TEST(TransferEngine, CancelledInProgressStopsBetweenChunks) {
  FakeDriver fake;
  for (bool out : {false, true}) {
    for (bool deferred : {false, true}) {
      TransferEngine engine(context(), small(false));
      Array a = array_of(Bytes(10 * kChunk, 9));
      fake.defer(deferred);
      auto keep = std::make_shared<Bytes>(pattern(10 * kChunk));
      std::weak_ptr<Bytes> watch = keep;
      Bytes* memory = keep.get();
      TransferRequest request = to_device(a, keep->data(), keep->size());
      if (out) request.type = TransferType::d2h;
      request.keep = std::move(keep);
      auto transfer = engine.submit("test", std::move(request));
      engine.step();
      engine.step();
      EXPECT_EQ(transfer->record().state, TransferState::in_progress);
      EXPECT_TRUE(transfer->cancel());
      EXPECT_FALSE(watch.expired());  // two chunks are in flight
      if (out) {
        EXPECT_EQ((*memory)[0], pattern(1)[0]);
      }
      while (engine.step()) {
      }
      transfer->completion()->wait();
      EXPECT_TRUE(watch.expired());
      EXPECT_EQ(transfer->record().state, TransferState::cancelled);
      EXPECT_THROW(transfer->completion()->rethrow(), Error);
      EXPECT_EQ(engine.ring().stats().held, 0u);
      if (!out) {
        Bytes all = read_back(a), first = pattern(2 * kChunk);
        EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
        EXPECT_TRUE(std::all_of(all.begin() + 2 * kChunk, all.end(), [](uint8_t b) { return b == 9; }));
      }
      fake.defer(false);
    }
  }
}

TEST(TransferEngine, CancelIsTooLateOnceAllIsSubmitted) {
  FakeDriver fake;
  TransferEngine engine(context(), small(false));
  Array a = array_of(Bytes(kChunk, 9));
  Bytes source = pattern(kChunk);
  auto transfer = engine.submit("test", to_device(a, source.data(), kChunk));
  engine.step();
  EXPECT_FALSE(transfer->cancel());
  finish(engine, transfer);
  EXPECT_FALSE(transfer->cancel());
  EXPECT_EQ(read_back(a), source);
}

TEST(TransferEngine, DestructorCancelsWhatWaits) {
  FakeDriver fake;
  Array a = array_of(Bytes(200, 9)), b = array_of(Bytes(200, 9));
  Bytes source = pattern(200);
  TransferPtr first, second;
  {
    TransferEngine engine(context(), small(false));
    first = engine.submit("test", to_device(a, source.data(), 200));
    second = engine.submit("test", to_device(b, source.data(), 200));
    engine.step();
  }
  EXPECT_TRUE(first->completion()->ready());
  EXPECT_EQ(second->completion()->state(), Completion::State::cancelled);
}

TEST(TransferEngine, RefusesWhatItCannotDo) {
  FakeDriver fake;
  TransferEngine engine(context(), small(true));
  Array a = array_of(pattern(10));
  Bytes source(20);
  EXPECT_THROW(engine.submit("test", to_device(a, source.data(), 11)), ArgumentError);
  EXPECT_THROW(engine.submit("test", to_device(a, nullptr, 5)), ArgumentError);
  EXPECT_THROW(engine.submit("test", TransferRequest{}), ArgumentError);
  Graph graph(kCpu);
  graph.begin_capture();
  try {
    engine.submit("copy_to_device_async", to_device(a, source.data(), 5));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("copy_to_device_async: "), std::string::npos) << error.what();
  }
  graph.abandon();
  fail_thread_starts(1);
  EXPECT_THROW(engine.submit("test", to_device(a, source.data(), 5)), Error);
  EXPECT_FALSE(transfers_active());
  auto transfer = engine.submit("test", to_device(a, source.data(), 5));
  transfer->completion()->wait();
  EXPECT_NO_THROW(transfer->completion()->rethrow());
}

class CountingControl final : public StreamControl {
 public:
  uint64_t admit(const std::shared_ptr<driver::Stream>&, const char*, SubmitKind kind, size_t bytes) override {
    total[static_cast<int>(kind)] += bytes;
    return 1;
  }
  void submitted(uint64_t, const std::shared_ptr<driver::Stream>&, int) noexcept override { ++calls; }
  std::map<int, size_t> total;
  int calls = 0;
};

TEST(TransferEngine, ControlOfItsStreamsSeesTheBytes) {
  FakeDriver fake;
  TransferEngine engine(context(), small(false));
  CountingControl control;
  engine.stream(TransferType::h2d)->control = &control;
  Array a = array_of(Bytes(1000, 0));
  Bytes source = pattern(1000);
  finish(engine, engine.submit("test", to_device(a, source.data(), 1000)));
  EXPECT_EQ(control.total[static_cast<int>(SubmitKind::copy_in)], 1000u);
  EXPECT_EQ(control.calls, 16);
  engine.stream(TransferType::h2d)->control = nullptr;
}

TEST(TransferEngine, ControlOfTheCurrentStreamAdmitsTheCopy) {
  FakeDriver fake;
  TransferEngine engine(context(), small(false));
  CountingControl control;
  auto stream = std::make_shared<driver::Stream>(context(), 0);
  stream->control = &control;
  Session session = current_session().with_stream(stream);
  SessionGuard guard(session);
  Array a = Array::empty({1000}, DType::uint8, kCpu);
  Bytes source = pattern(1000);
  finish(engine, engine.submit("test", to_device(a, source.data(), 1000)));
  EXPECT_EQ(control.total[static_cast<int>(SubmitKind::copy_in)], 1000u);
  EXPECT_EQ(control.calls, 1);
  stream->control = nullptr;
}

TEST(TransferEngine, ManyThreadsShareOneEngine) {
  FakeDriver fake;
  for (bool deferred : {false, true}) {
    TransferEngine engine(context(), small(true));
    fake.defer(deferred);
    std::atomic<int> wrong{0};
    auto work = [&](int mine) {
      auto stream = std::make_shared<driver::Stream>(context(), 0);
      Session session = current_session().with_stream(stream);
      SessionGuard guard(session);
      for (int i = 0; i < 30; ++i) {
        const size_t size = static_cast<size_t>(1 + (mine * 37 + i * 53) % 400);
        Bytes source = pattern(size, static_cast<uint8_t>(mine * 16 + i)), target(size);
        Array a = Array::empty({static_cast<int64_t>(size)}, DType::uint8, kCpu);
        auto in = engine.submit("test", to_device(a, source.data(), size, i % 3));
        auto out = engine.submit("test", to_host_request(a, target.data(), size, 3 - i % 3));
        if (i % 5 == 0 && in->cancel()) {
          in->completion()->wait();
          out->completion()->wait();
          continue;
        }
        in->completion()->wait();
        out->completion()->wait();
        wrong += target != source;
        wrong += in->record().state != TransferState::completed;
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work, i);
    for (auto& thread : threads) thread.join();
    engine.drain();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(engine.ring().stats().held, 0u);
    EXPECT_TRUE(engine.active().empty());
    fake.defer(false);
  }
  EXPECT_FALSE(transfers_active());
}

TEST(TransferEngine, OneChunkServesAnyNumberOfCopies) {
  FakeDriver fake;
  TransferEngine::Options options = small(true);
  options.max_chunks = 1;
  TransferEngine engine(context(), options);
  fake.defer(true);
  std::atomic<int> wrong{0};
  auto work = [&](uint8_t mine) {
    const Bytes source = pattern(300, mine);
    Bytes copy = source, target(300), staged(300);
    auto stream = std::make_shared<driver::Stream>(context(), 0);
    Session session = current_session().with_stream(stream);
    SessionGuard guard(session);
    Array a = Array::empty({300}, DType::uint8, kCpu);
    auto in = engine.submit("test", to_device(a, copy.data(), 300));
    auto out = engine.submit("test", to_host_request(a, target.data(), 300));
    in->completion()->wait();
    out->completion()->wait();
    engine.copy_out(stream, staged.data(), read(a), 300);
    wrong += (target != source) + (staged != source);
  };
  std::vector<std::thread> threads;
  for (uint8_t i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine.ring().stats().chunks, 1u);
}

TEST(TransferEngine, OneEnginePerDevice) {
  FakeDriver fake;
  TransferEngine& engine = transfer_engine(kCpu);
  EXPECT_EQ(&engine, &transfer_engine(kCpu));
  fake.reopen_devices();
  EXPECT_NE(&engine, &transfer_engine(kCpu));
}

}  // namespace
}  // namespace gpukit::runtime
