// Blocks filled from their sources: every byte, in place and through the ring; faults at any call.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "gpukit/base/error.h"
#include "gpukit/memory/byte_source.h"
#include "gpukit/runtime/device.h"
#include "gpukit/runtime/transfer_engine.h"
#include "tests/support/fake_driver.h"

namespace gpukit::runtime {
namespace {

constexpr Device kCpu{DeviceKind::cpu, 0};

struct Pattern final : memory::ByteSource {
  const std::vector<Part>& parts() const override { return none; }
  void read(size_t offset, void* to, size_t bytes) override {
    ++reads;
    longest = std::max(longest.load(), bytes);
    if (offset <= fail_at && fail_at < offset + bytes)
      throw FileError("weights", 0, "cannot read at " + std::to_string(offset) + " of");
    for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(to)[i] = value(offset + i);
  }
  static uint8_t value(size_t at) { return static_cast<uint8_t>(at * 7 + at / 251); }
  std::vector<Part> none;
  std::atomic<size_t> reads{0}, longest{0};
  size_t fail_at = SIZE_MAX;
};

struct Fill : ::testing::TestWithParam<bool> {
  static TransferEngine::Options options(bool in_place) {
    TransferEngine::Options o;
    o.chunk_bytes = 64;
    o.max_chunks = 2;
    o.in_place = in_place;
    return o;
  }
  driver::Context& context = open_device(kCpu).context;
  TransferEngine engine{context, options(GetParam())};
  std::vector<uint8_t> target = std::vector<uint8_t>(5000, 0xEE);
  Pattern source;

  memory::Move move(size_t at, size_t bytes, size_t offset, bool whole = false) {
    return {reinterpret_cast<driver::Address>(target.data() + at), nullptr, bytes, &source, offset, whole};
  }
};

TEST_P(Fill, EveryByteAndNoOther) {
  uint8_t plain[100];
  std::fill(std::begin(plain), std::end(plain), uint8_t{3});
  std::vector<memory::Move> moves{move(0, 1, 10), move(10, 3000, 1000), move(3100, 0, 0), move(3200, 700, 0)};
  moves.push_back({reinterpret_cast<driver::Address>(target.data() + 4000), plain, sizeof plain});
  engine.move(TransferType::h2d, moves);
  std::vector<uint8_t> wanted(target.size(), 0xEE);
  wanted[0] = Pattern::value(10);
  for (size_t i = 0; i < 3000; ++i) wanted[10 + i] = Pattern::value(1000 + i);
  for (size_t i = 0; i < 700; ++i) wanted[3200 + i] = Pattern::value(i);
  for (size_t i = 0; i < sizeof plain; ++i) wanted[4000 + i] = 3;
  EXPECT_TRUE(target == wanted);
  EXPECT_EQ(engine.ring().stats().held, 0u);
  EXPECT_LE(engine.ring().stats().bytes, 2 * 64u);
  if (!GetParam()) {
    EXPECT_LE(source.longest, 64u);
  }
}

TEST_P(Fill, TellsTheFirstFaultAndGivesTheRingBack) {
  source.fail_at = 1500;
  const memory::Move moves[] = {move(0, 2000, 0), move(2000, 2000, 0)};
  try {
    engine.move(TransferType::h2d, moves);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.path, "weights");
  }
  EXPECT_EQ(engine.ring().stats().held, 0u);
  source.fail_at = SIZE_MAX;
  engine.move(TransferType::h2d, moves);
  EXPECT_EQ(target[1500], Pattern::value(1500));
  EXPECT_EQ(target[3500], Pattern::value(1500));
}

TEST(FillInPlace, WholePartsAreReadAtOnce) {
  TransferEngine engine(open_device(kCpu).context, Fill::options(true));
  Pattern source;
  std::vector<uint8_t> target(size_t{3} << 20);
  const auto address = reinterpret_cast<driver::Address>(target.data());
  for (const bool whole : {true, false}) {
    const memory::Move one{address, nullptr, target.size(), &source, 0, whole};
    engine.move(TransferType::h2d, {&one, 1});
    EXPECT_EQ(source.reads, whole ? 1u : 4u);  // with the one before
    EXPECT_EQ(target.back(), Pattern::value(target.size() - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Fill, ::testing::Bool());

TEST(FillFaults, ADriverFaultAtAnyCallIsToldAndLeavesTheRingWhole) {
  testing::FakeDriver fake;
  driver::Api api(fake.table(), DeviceKind::cpu);
  api.init();
  driver::Context context(api, 0);
  TransferEngine::Options options = Fill::options(false);
  options.workers = false;
  TransferEngine engine(context, options);
  Pattern source;
  std::vector<uint8_t> target(1000);
  const memory::Move one{reinterpret_cast<driver::Address>(target.data()), nullptr, target.size(), &source, 0, false};
  int failures = 0;
  for (int nth = 1; nth < 40; ++nth) {
    fake.fail_nth_of("cuMemcpyHtoDAsync", nth, driver::kErrorOutOfMemory);
    try {
      engine.move(TransferType::h2d, {&one, 1});
    } catch (const CudaError&) {
      ++failures;
    }
    fake.stop_failing();
    EXPECT_EQ(engine.ring().stats().held, 0u);
  }
  EXPECT_GT(failures, 5);
  engine.move(TransferType::h2d, {&one, 1});
  EXPECT_EQ(target[999], Pattern::value(999));
}

}  // namespace
}  // namespace gpukit::runtime
