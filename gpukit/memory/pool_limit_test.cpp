// What the pool keeps when sizes never come again: little more than was in use at the peak.
#include <cmath>
#include <random>

#include "tests/support/fake_driver.h"
#include "tests/support/pool_fixture.h"

namespace gpukit::memory {
namespace {

using gpukit::testing::FakeDriver;
using StreamPtr = std::shared_ptr<driver::Stream>;
constexpr size_t kDevice = size_t{64} << 30;

struct PoolLimitTest : ::testing::Test {
  static driver::Api started(const driver::CudaTable& table) {
    driver::set_host_device_count(kOwnDevice + 1);
    driver::set_host_memory_limit(kDevice);
    driver::Api api(table, DeviceKind::cpu);
    api.init();
    return api;
  }
  ~PoolLimitTest() override {
    fake.defer(false);
    driver::set_host_memory_limit(0);
    driver::set_host_device_count(1);
  }
  StreamPtr stream() { return std::make_shared<driver::Stream>(context, 0); }
  /// Writes both ends of a block when the stream comes to it: pages that went too early fault.
  void touch(const Block& block, const driver::Stream& on) {
    context.make_current();
    auto* copy = new Block(block);
    context.api().launch_host(
        on.handle(),
        [](void* p) {
          std::unique_ptr<Block> held(static_cast<Block*>(p));
          reinterpret_cast<volatile char*>(held->address)[0] = 1;
          reinterpret_cast<volatile char*>(held->address)[held->bytes - 1] = 1;
        },
        copy);
  }
  FakeDriver fake;
  driver::Context context{started(fake.table()), kOwnDevice};
};

enum class Host { waits, runs_ahead };
enum class Sizes { uniform, log_uniform };

struct RandomSizes : PoolLimitTest, ::testing::WithParamInterface<std::tuple<PoolConfig::Pages, Host, Sizes>> {};

INSTANTIATE_TEST_SUITE_P(Pool, RandomSizes,
                         ::testing::Combine(::testing::Values(PoolConfig::Pages::on, PoolConfig::Pages::off),
                                            ::testing::Values(Host::waits, Host::runs_ahead),
                                            ::testing::Values(Sizes::uniform, Sizes::log_uniform)));

TEST_P(RandomSizes, StayNearThePeakOfWhatIsLive) {
  const auto [pages, host, sizes] = GetParam();
  constexpr double kLeast = 1024;
  const double most_bytes = sizes == Sizes::uniform ? 192e6 : 768e6;
  Pool pool(context, {.pages = pages, .min_spare = 16 * kMiB});
  auto s = stream();
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> part(0, 1);
  auto size = [&] {
    const double at = part(random);
    return static_cast<size_t>(sizes == Sizes::uniform ? kLeast + at * most_bytes
                                                       : kLeast * std::pow(most_bytes / kLeast, at));
  };
  fake.queries_run(false);
  fake.defer(true);
  int64_t hits = 0, hits_with_calls = 0, before_late = 0;
  for (int step = 0; step < 3000; ++step) {
    if (step == 2000) before_late = pool.stats().driver_allocations;
    Block blocks[3];
    for (Block& block : blocks) {
      const int64_t reuses = pool.stats().reuses;
      fake.clear_calls();
      block = pool.allocate(size(), s);
      const bool hit = pool.stats().reuses != reuses;
      hits += hit;
      hits_with_calls += hit && !fake.calls().empty();
      touch(block, *s);
    }
    for (const Block& block : blocks) pool.release(block, s, {});
    if (host == Host::waits) s->synchronize();
    ASSERT_LE(fake.live().ranges, 700) << step;
  }
  const ResourceStats stats = pool.stats();
  EXPECT_LE(stats.peak_reserved_bytes, stats.peak_live_bytes * 3 / 2);
  EXPECT_GT(hits, 0);
  EXPECT_EQ(hits_with_calls, 0);
  // Pages of all sizes are there after a while, and only move.
  if (pages == PoolConfig::Pages::on) {
    EXPECT_LE(stats.driver_allocations - before_late, 100);
  }
  fake.run_all(3);
  pool.trim();
  EXPECT_EQ(pool.stats().reserved_bytes, 0);
  EXPECT_EQ(fake.live().pages + fake.live().ranges + fake.live().mappings + fake.live().memory, 0);
}

TEST_F(PoolLimitTest, SizesThatComeAgainStayWhereTheyAre) {
  Pool pool(context, {.pages = PoolConfig::Pages::on});
  auto s = stream();
  const Block weights = pool.allocate(400 * kMiB, s);
  auto round = [&] {
    for (size_t size : {20 * kMiB, 30 * kMiB, 44 * kMiB}) pool.release(pool.allocate(size, s), s, {});
  };
  round();
  fake.clear_calls();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_TRUE(fake.calls().empty()) << fake.calls().front();
  pool.release(weights, s, {});
}

TEST_F(PoolLimitTest, PagesMoveWithoutAWaitOnTheSameStream) {
  Pool pool(context, {.pages = PoolConfig::Pages::on, .min_spare = 2 * kMiB});
  auto s = stream();
  fake.queries_run(false);
  fake.defer(true);
  const Block first = pool.allocate(64 * kMiB, s);
  touch(first, *s);
  pool.release(first, s, {});
  fake.clear_calls();
  const Block second = pool.allocate(48 * kMiB, s);  // of none of the pages: they go back
  touch(second, *s);
  EXPECT_EQ(pool.stats().waits, 1);
  pool.release(second, s, {});
  fake.clear_calls();
  const Block third = pool.allocate(40 * kMiB, s);  // of pages of 32 and new ones of 8
  touch(third, *s);
  EXPECT_EQ(pool.stats().waits, 1);
  EXPECT_EQ(fake.count("cuStreamWaitEvent"), 0);
  EXPECT_LE(pool.stats().reserved_bytes, 80 << 20);
  pool.release(third, s, {});
  fake.run_all(1);
}

TEST_F(PoolLimitTest, AnOwnersOwnPagesMoveFirst) {
  Pool pool(context, {.pages = PoolConfig::Pages::on, .min_spare = 2 * kMiB});
  auto s = stream();
  auto other = Account::create("other", context.device(), 0, false, pool.root());
  auto own = Account::create("own", context.device(), 0, false, pool.root());
  const Block theirs = pool.allocate(32 * kMiB, s, other), ours = pool.allocate(32 * kMiB, s, own);
  pool.release(theirs, s, {});  // freed before ours
  pool.release(ours, s, {});
  const Block block = pool.allocate(48 * kMiB, s, own);  // 32 that were its own, and 16 new ones
  EXPECT_EQ(other->cached_bytes(), 32 * kMiB);
  EXPECT_EQ(own->cached_bytes(), 0u);
  pool.release(block, s, {});
}

}  // namespace
}  // namespace gpukit::memory
