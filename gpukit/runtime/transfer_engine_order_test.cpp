// Work is held back and run in random orders: transfers stay in order with the streams around them, and a missing wait
// is found. Then every driver call is made to fail once.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <numeric>
#include <thread>

#include "gpukit/array/host.h"
#include "gpukit/base/error.h"
#include "gpukit/memory/account.h"
#include "gpukit/memory/mover.h"
#include "gpukit/memory/pool_api.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/graph.h"
#include "gpukit/runtime/launch_gate.h"
#include "gpukit/runtime/session.h"
#include "gpukit/runtime/transfer_engine.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

using gpukit::testing::FakeDriver;
using gpukit::testing::Live;
using Values = std::vector<int32_t>;
constexpr Device kCpu{DeviceKind::cpu, 0};
constexpr int kSize = 40;
constexpr size_t kBytes = kSize * sizeof(int32_t);
constexpr int kSeeds = 60;

driver::Context& context() { return open_device(kCpu).context; }

TransferEngine::Options small() {
  TransferEngine::Options options;
  options.chunk_bytes = 48;
  options.piece_bytes = 64;
  options.max_chunks = 4;
  return options;
}

void add(const Array& array, int32_t amount) {
  run_host("add", kCpu, {write(array)}, [amount](void* const* p) {
    for (int i = 0; i < kSize; ++i) static_cast<int32_t*>(p[0])[i] += amount;
  });
}

Array filled(int32_t value) {
  Values values(kSize, value);
  return from_host(values.data(), {kSize}, DType::int32, kCpu);
}

Values read_back(const Array& array) {
  Values values(kSize);
  to_host(values.data(), array);
  return values;
}

TransferRequest request(TransferType type, const Array& array, Values& host) {
  TransferRequest r;
  r.type = type;
  r.storage = array.storage();
  r.host = host.data();
  r.bytes = kBytes;
  return r;
}

template <typename Function>
void on(const std::shared_ptr<driver::Stream>& stream, Function&& function) {
  Session session = current_session().with_stream(stream);
  SessionGuard guard(session);
  function();
}

/// Two streams write an array; it is read, written again and computed on, all without a wait of the host.
Values chain(FakeDriver& fake, uint64_t order, int drop = -1) {
  fake.seed(order);
  TransferEngine& engine = transfer_engine(kCpu);
  Values first(kSize), second(kSize), fresh(kSize, 1000);
  auto side = std::make_shared<driver::Stream>(context(), 0);
  Array a = filled(1), b = filled(0);
  synchronize(kCpu);
  on(side, [&] { add(a, 1); });  // 2, noted as a user of the block
  if (drop >= 0) fake.drop_wait(drop);
  engine.submit("test", request(TransferType::d2h, a, first));
  add(a, 10);  // 12: after the read
  engine.submit("test", request(TransferType::d2h, a, second));
  engine.submit("test", request(TransferType::h2d, a, fresh));
  add(a, 5);  // 1005: after the write
  copy_device(write(b), read(a), kBytes);
  fake.run_all(order);
  engine.drain();
  Values all = read_back(a), last = read_back(b);
  for (const Values* part : {&first, &second, &last}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

Values expected_chain() {
  Values all;
  for (int32_t value : {1005, 2, 12, 1005}) all.insert(all.end(), kSize, value);
  return all;
}

TEST(TransferOrder, TransfersAreOrderedWithTheStreamsAround) {
  FakeDriver fake;
  EXPECT_EQ(chain(fake, 0), expected_chain());
  fake.defer(true);
  int wrong = 0;
  for (uint64_t order = 0; order < kSeeds; ++order) {
    ASSERT_EQ(chain(fake, order), expected_chain()) << order;
    wrong += chain(fake, order, 0) != expected_chain();  // with no wait at all
    fake.drop_wait(-1);
  }
  EXPECT_GT(wrong, kSeeds / 5);
}

TEST(TransferOrder, PageLockedMemoryIsOrderedTheSame) {
  FakeDriver fake;
  auto* pinned = static_cast<int32_t*>(context().api().allocate_pinned(kBytes));
  auto run = [&](uint64_t order) {
    fake.seed(order);
    Array a = filled(1);
    add(a, 1);
    TransferRequest out = {};
    out.type = TransferType::d2h;
    out.storage = a.storage();
    out.host = pinned;
    out.bytes = kBytes;
    auto transfer = transfer_engine(kCpu).submit("test", out);
    add(a, 40);
    transfer->completion()->wait();
    return Values(pinned, pinned + kSize);
  };
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) ASSERT_EQ(run(order), Values(kSize, 2)) << order;
  transfer_engine(kCpu).drain();
  fake.defer(false);
  context().api().release_pinned(pinned);
}

TEST(TransferOrder, BlockFreedAfterTheCallIsNotReusedBeforeTheCopy) {
  FakeDriver fake;
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) {
    fake.seed(order);
    Values target(kSize);
    std::shared_ptr<Transfer> transfer;
    {
      Array a = filled(7);
      add(a, 1);
      transfer = transfer_engine(kCpu).submit("test", request(TransferType::d2h, a, target));
    }
    Array b = filled(99);  // the block of `a`, if it is free
    add(b, 1);
    fake.run_all(order);
    transfer->completion()->wait();
    ASSERT_EQ(target, Values(kSize, 8)) << order;
  }
}

TEST(TransferOrder, CaptureAndReplayComeAfterTheTransfer) {
  FakeDriver fake;
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) {
    fake.seed(order);
    Array a = filled(1);
    synchronize(kCpu);
    Values fresh(kSize, 50);
    Graph graph(kCpu);
    graph.begin_capture();
    on(graph.stream(), [&] { add(a, 1); });
    graph.end_capture();
    transfer_engine(kCpu).submit("test", request(TransferType::h2d, a, fresh));
    graph.replay();
    ASSERT_EQ(read_back(a), Values(kSize, 51)) << order;
    transfer_engine(kCpu).submit("test", request(TransferType::h2d, a, fresh));
    Graph other(kCpu);
    other.begin_capture();
    on(other.stream(), [&] { add(a, 2); });  // waits for the copy on the host: a capture cannot
    EXPECT_FALSE(transfer_engine(kCpu).stats().pending_count);
    other.end_capture();
    other.replay();
    ASSERT_EQ(read_back(a), Values(kSize, 52)) << order;
  }
}

TEST(TransferOrder, ArraysThatAreEvictedMeanwhileKeepTheirBytes) {
  constexpr size_t kMiB = size_t{1} << 20;
  constexpr int kArrays = 10;
  FakeDriver fake;
  for (bool deferred : {false, true}) {
    auto account = memory::Account::create("tenant", kCpu, 4 * kMiB, true, open_device(kCpu).resource->root());
    Session session = Session().with_account(account);
    SessionGuard guard(session);
    TransferEngine::Options options;
    options.chunk_bytes = 256 << 10;
    TransferEngine engine(context(), options);
    fake.defer(deferred);
    std::vector<Array> arrays;
    std::vector<std::vector<uint8_t>> in, out(kArrays, std::vector<uint8_t>(kMiB));
    for (int i = 0; i < kArrays; ++i) {
      in.emplace_back(kMiB, static_cast<uint8_t>(i + 1));
      arrays.push_back(Array::empty({int64_t{kMiB}}, DType::uint8, kCpu));
      TransferRequest r;
      r.storage = arrays.back().storage();
      r.host = in.back().data();
      r.bytes = kMiB;
      r.priority = i % 3;
      engine.submit("test", r);
      r.type = TransferType::d2h;
      r.host = out[static_cast<size_t>(i)].data();
      r.priority = i % 2;
      engine.submit("test", r);
    }
    engine.drain();
    EXPECT_TRUE(in == out);
    EXPECT_GT(account->stats().evictions, 0);
    EXPECT_EQ(engine.stats().failed_count, 0);
    EXPECT_LE(account->charged(), 4 * kMiB);
    fake.defer(false);
  }
}

// Copies staged by the caller

class Staged : public ::testing::Test {
 protected:
  Staged() { set_staged_bytes(1); }
  ~Staged() override { set_staged_bytes(0); }
};

TEST_F(Staged, SourceMayChangeAtOnceAndEveryByteArrives) {
  FakeDriver fake;
  fake.defer(true);
  constexpr size_t kChunk = PinnedRing::kChunkBytes;
  for (size_t size : {size_t{1}, size_t{1001}, kChunk - 1, kChunk, kChunk + 1, 3 * kChunk + 5}) {
    std::vector<uint8_t> source(size), target(size, 0);
    for (size_t i = 0; i < size; ++i) source[i] = static_cast<uint8_t>(i * 31 + (i >> 12));
    const std::vector<uint8_t> wanted = source;
    Array a = Array::empty({static_cast<int64_t>(size)}, DType::uint8, kCpu);
    copy_from_host(write(a), source.data(), size);
    std::fill(source.begin(), source.end(), 0xee);
    copy_to_host(target.data(), read(a), size, "test");
    EXPECT_TRUE(target == wanted) << size;
  }
  EXPECT_EQ(transfer_engine(kCpu).ring().stats().held, 0u);
  EXPECT_LE(transfer_engine(kCpu).ring().stats().chunks, 4u);  // two each way
}

TEST_F(Staged, StaysInTheOrderOfTheCurrentStream) {
  FakeDriver fake;
  fake.defer(true);
  for (uint64_t order = 0; order < kSeeds; ++order) {
    fake.seed(order);
    Array a = filled(1);
    add(a, 4);
    Array b = filled(0);
    copy_device(write(b), read(a), kBytes);
    Values fresh(kSize, 20);
    copy_from_host(write(a), fresh.data(), kBytes);
    add(a, 3);
    ASSERT_EQ(read_back(a), Values(kSize, 23)) << order;
    ASSERT_EQ(read_back(b), Values(kSize, 5)) << order;
  }
}

TEST_F(Staged, RefusedInACapture) {
  FakeDriver fake;
  Array a = filled(1);
  Values host(kSize);
  Graph graph(kCpu);
  graph.begin_capture();
  EXPECT_THROW(copy_from_host(write(a), host.data(), kBytes), Error);
  EXPECT_THROW(copy_to_host(host.data(), read(a), kBytes, "test"), Error);
  graph.abandon();
}

TEST(TransferMover, MovesBlocksBothWays) {
  FakeDriver fake;
  std::vector<char> device(3000), plain(1000), back(3000);
  std::iota(device.begin(), device.end(), 0);
  const std::vector<char> wanted = device;
  auto* pinned = static_cast<char*>(context().api().allocate_pinned(2000));
  auto address = reinterpret_cast<driver::Address>(device.data());
  memory::Move moves[] = {{address, pinned, 2000}, {address + 2000, plain.data(), 1000}, {address, nullptr, 0}};
  fake.defer(true);
  memory::mover().to_host(context(), moves);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.begin() + 2000, pinned));
  EXPECT_TRUE(std::equal(wanted.begin() + 2000, wanted.end(), plain.begin()));
  std::fill(device.begin(), device.end(), 0);
  memory::mover().to_device(context(), moves);
  EXPECT_EQ(device, wanted);
  EXPECT_EQ(transfer_engine(kCpu).ring().stats().held, 0u);
  for (int n = 1;; ++n) {
    std::fill(plain.begin(), plain.end(), 0);
    std::fill(pinned, pinned + 2000, 0);
    fake.fail_nth(n, 999);
    bool threw = false;
    try {
      memory::mover().to_host(context(), moves);
    } catch (const CudaError&) {
      threw = true;
    }
    const std::string failed = fake.failed_call();
    fake.stop_failing();
    EXPECT_EQ(transfer_engine(kCpu).ring().stats().held, 0u);
    // What was not told did no harm.
    if (!threw) {
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.begin() + 2000, pinned)) << failed;
      EXPECT_TRUE(std::equal(wanted.begin() + 2000, wanted.end(), plain.begin())) << failed;
    }
    if (failed.empty()) break;
    ASSERT_LT(n, 200);
  }
  fake.defer(false);
  context().api().release_pinned(pinned);
}

// A chunk first, the block after it: else whoever has the chunks and waits for the block never gets it.
TEST(TransferMover, WriteToABlockWaitsForAChunkWithoutTheBlock) {
  FakeDriver fake;
  DeviceState& state = open_device(kCpu);
  memory::MemoryPool pool(*state.resource, state.default_stream, size_t{1} << 20, true, "pool");
  const uint64_t id = pool.allocate(1000);
  set_staged_bytes(1);
  std::vector<PinnedRing::Slot> all;
  while (PinnedRing::Slot slot = transfer_engine(kCpu).ring().try_acquire()) all.push_back(std::move(slot));
  std::vector<char> bytes(1000), found(1000);
  std::iota(bytes.begin(), bytes.end(), 0);
  std::thread writer([&] { pool.write(id, bytes.data(), bytes.size()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  auto evicted = std::async(std::launch::async, [&] { pool.evict(id); });
  EXPECT_EQ(evicted.wait_for(std::chrono::seconds(5)), std::future_status::ready);
  all.clear();
  writer.join();
  evicted.wait();
  pool.read(id, found.data(), found.size());
  EXPECT_EQ(found, bytes);
  set_staged_bytes(0);
}

// Every driver call fails once

/// In and out through an engine of its own, pageable and page-locked, by steps of the calling thread.
void scenario() {
  TransferEngine::Options options = small();
  options.workers = false;
  TransferEngine engine(context(), options);
  Values source(kSize), target(kSize);
  std::iota(source.begin(), source.end(), 5);
  Array a = filled(0);
  auto in = engine.submit("test", request(TransferType::h2d, a, source));
  auto out = engine.submit("test", request(TransferType::d2h, a, target));
  engine.drain();
  Waiter::of(kCpu).drain();  // so that this thread is the last to hold what they throw
  for (const auto& transfer : {in, out}) transfer->completion()->rethrow();
  EXPECT_EQ(target, source);
  Values staged(kSize);
  set_staged_bytes(1);
  try {
    copy_to_host(staged.data(), read(a), kBytes, "test");
  } catch (...) {
    set_staged_bytes(0);
    throw;
  }
  set_staged_bytes(0);
  EXPECT_EQ(staged, source);
}

class TransferFailure : public ::testing::TestWithParam<int> {};

TEST_P(TransferFailure, IsCleanAndTheNextCallWorks) {
  int failures = 0;
  for (int n = 1;; ++n) {
    FakeDriver fake;
    open_device(kCpu);
    fake.fail_nth(n, GetParam());
    bool threw = false;
    try {
      scenario();
    } catch (const Error& error) {
      threw = true;
      EXPECT_STRNE(error.what(), "");
    }
    const std::string failed = fake.failed_call();
    fake.stop_failing();
    SCOPED_TRACE("call " + std::to_string(n) + " " + failed);
    set_staged_bytes(0);
    EXPECT_FALSE(transfers_active());
    EXPECT_EQ(transfer_engine(kCpu).ring().stats().held, 0u);
    if (failed.empty()) {
      EXPECT_FALSE(threw);
      break;
    }
    ++failures;
    ASSERT_NO_THROW(scenario());
    EXPECT_FALSE(transfers_active());
    ASSERT_LT(n, 3000);
    if (HasFailure()) break;
  }
  EXPECT_GT(failures, 50);
}

INSTANTIATE_TEST_SUITE_P(Codes, TransferFailure, ::testing::Values(999, 2));

TEST(TransferFailures, FailedPieceFailsTheTransferAndFreesItsChunks) {
  FakeDriver fake;
  TransferEngine::Options options = small();
  options.workers = false;
  TransferEngine engine(context(), options);
  Array a = filled(0), b = filled(0);
  Values source(kSize, 3);
  synchronize(kCpu);
  auto bad = engine.submit("test", request(TransferType::h2d, a, source));
  auto good = engine.submit("test", request(TransferType::h2d, b, source));
  fake.fail_nth_of("cuMemcpyHtoDAsync", 2, 1);
  while (engine.step()) {
  }
  bad->completion()->wait();
  good->completion()->wait();
  Waiter::of(kCpu).drain();
  EXPECT_EQ(bad->record().state, TransferState::failed);
  EXPECT_NE(bad->record().error.find("transfer to device"), std::string::npos) << bad->record().error;
  EXPECT_THROW(bad->completion()->rethrow(), CudaError);
  EXPECT_EQ(good->record().state, TransferState::completed);
  EXPECT_EQ(read_back(b), source);
  EXPECT_EQ(engine.ring().stats().held, 0u);
  EXPECT_EQ(engine.stats().failed_count, 1);
}

}  // namespace
}  // namespace gpukit::runtime
